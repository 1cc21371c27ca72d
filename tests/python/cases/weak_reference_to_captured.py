# map | global
import weakref


class Box:
    pass


BOX = Box()
REF = weakref.ref(BOX)


def operator(item):
    REF().last = item
    return item
