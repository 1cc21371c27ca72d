# map | global at 7: buffer
import numpy as np
buffer = np.zeros(4)


def operator(item):
    return np.add(item, item, out=buffer)
