# map | stateless
threshold = 10


def adapt(n):
    global threshold
    threshold = n


adapt(12)


def operator(item):
    # adapt is only ever called by name, and no operator calls it
    return item > threshold
