# map | stateless
import math
from math import sqrt


def operator(item):
    return sqrt(item.x) + math.floor(math.log(item.y))
