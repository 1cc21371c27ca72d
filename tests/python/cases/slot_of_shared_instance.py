# map | global: changes
class Box:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0


BOX = Box()


def operator(item):
    BOX.n += 1
    return BOX.n
