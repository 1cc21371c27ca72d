# map | global
import operator as op

SEEN = []


class Box:
    def __setitem__(self, key, value):
        SEEN.append(value)


def operator(n: int):
    op.setitem(Box(), 1, n)
    return len(SEEN)
