# map | global at 12: threshold
threshold = 10


def adapt(n):
    global threshold
    threshold = n


def operator(item):
    # somebody may call adapt while this runs
    return item > threshold
