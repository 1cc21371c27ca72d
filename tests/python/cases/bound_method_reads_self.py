# map | stateless
class Scale:
    def __init__(self, factor):
        self.factor = factor

    def scale(self, item):
        return item * self.factor


operator = Scale(3).scale
