# map | global at 6: clock
import time


def operator(item):
    return time.time(), item
