# map | global
TABLE = [iter(range(99))]


def operator(item: int):
    return item, list(map(list, TABLE))
