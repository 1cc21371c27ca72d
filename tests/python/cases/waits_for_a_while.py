# map | stateless
import time


def operator(n):
    time.sleep(0.001)
    return n + 1
