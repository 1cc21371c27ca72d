# map | global
import sys

SEEN = 0


def operator(item):
    sys.modules[__name__].SEEN = item
    return item
