# map | global at 8: into.append
import functools

seen = []


def operator(item):
    return len(functools.reduce(lambda into, x: into.append(x) or into, item, seen))
