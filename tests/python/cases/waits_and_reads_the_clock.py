# map | global at 7: time.time reads a clock
import time


def operator(n):
    time.sleep(0.001)
    return n + time.time()
