# map | global at 8: add a key
import collections

groups = collections.defaultdict(list)


def operator(item):
    return len(groups[item])
