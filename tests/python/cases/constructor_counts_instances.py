# map | global at 6: Point.made
class Point:
    made = 0

    def __init__(self, x):
        Point.made += 1
        self.x = x


def operator(item):
    return Point(item).x
