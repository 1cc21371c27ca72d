# map | global
ROWS = {"numbers": iter(range(99))}


def operator(item: int):
    return [pair for pair in zip([item], *ROWS.values())]
