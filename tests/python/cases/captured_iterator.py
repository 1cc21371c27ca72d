# map | global at 6: numbers
numbers = iter(range(1000))


def operator(item):
    return next(numbers), item
