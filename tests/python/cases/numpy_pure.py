# map | stateless
import numpy as np


def operator(item):
    values = np.array(item.values, dtype=np.float64)
    values[values < 0] = 0
    values += 1
    return float(np.sqrt(values).sum())
