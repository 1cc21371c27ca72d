# map | global: changes
from functools import partial

TABLES = [[], []]


def add(n, table):
    table.append(n)
    return len(table)


def operator(n: int):
    return list(map(partial(add, n), TABLES))
