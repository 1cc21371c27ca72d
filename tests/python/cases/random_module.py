# map | global at 6: random
import random


def operator(item):
    return item + random.random()
