# map | global at 7: self.last
class Delta:
    def __init__(self):
        self.last = 0

    def __call__(self, item):
        delta, self.last = item - self.last, item
        return delta


operator = Delta()
