# map | global at 6: identity
NOTHING = (0, 0)


def operator(item: tuple):
    return item is NOTHING
