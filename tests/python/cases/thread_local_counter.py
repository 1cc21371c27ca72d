# map | global
import threading

LOCAL = threading.local()
LOCAL.n = 0


def operator(item):
    LOCAL.n += 1
    return LOCAL.n
