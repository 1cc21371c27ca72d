# map | global: metaclass
class Counting(type):
    made = 0

    def __call__(cls, *args):
        cls.made += 1
        return cls.made


class Point(metaclass=Counting):
    pass


def operator(item):
    return Point()
