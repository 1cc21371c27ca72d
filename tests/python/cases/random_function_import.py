# map | global at 6: random
from random import gauss


def operator(item):
    return item + gauss(0, 1)
