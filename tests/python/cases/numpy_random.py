# map | global at 6: random
import numpy as np


def operator(item):
    return item + np.random.rand()
