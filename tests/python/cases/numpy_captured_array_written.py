# map | global at 8: buffer
import numpy as np

buffer = np.zeros(4)


def operator(item):
    buffer[0] += item
    return buffer.sum()
