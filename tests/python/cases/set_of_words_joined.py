# map | global at 6: order
STOP = frozenset(["a", "the", "of"])


def operator(line: str):
    return ",".join(STOP.union(line.split()))
