# map | global: order
COLOURS = {"red", "green", "blue"}


def operator(n: int):
    return list(COLOURS)[n % 3]
