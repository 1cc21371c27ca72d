# map | stateless
import itertools


def operator(item):
    pairs = itertools.pairwise(item)
    return [next(pairs), *itertools.islice(itertools.chain(item, item), 3)]
