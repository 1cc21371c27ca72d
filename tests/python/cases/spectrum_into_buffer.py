# block | global at 10: changes
import numpy as np

BUFFER = np.zeros(8)


def operator(items):
    signal = np.asarray(items, dtype=np.float64)
    view = BUFFER[: len(signal)]
    np.multiply(signal, 2.0, out=view)
    return [float(view.sum())]
