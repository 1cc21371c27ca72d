# map | global
ROWS = (n for n in range(99))


def operator(item):
    return any(n == item for n in ROWS)
