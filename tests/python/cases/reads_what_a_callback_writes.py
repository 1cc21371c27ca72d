# map | global at 16: threshold
import atexit

threshold = 10


def adapt():
    global threshold
    threshold = 0


atexit.register(adapt)

# whoever was handed adapt may call it while this runs
def operator(item):
    return item > threshold
