# map | global at 7: self.n
class Counter:
    def __init__(self):
        self.n = 0

    def count(self, item):
        self.n += 1
        return self.n, item


operator = Counter().count
