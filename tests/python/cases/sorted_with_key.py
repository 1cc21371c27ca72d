# map | stateless
from operator import itemgetter


def operator(item):
    return sorted(item, key=lambda pair: pair[1]), max(item, key=itemgetter(0))
