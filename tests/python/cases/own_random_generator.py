# map | global at 8: rng
import random

rng = random.Random(7)


def operator(item):
    return rng.random()
