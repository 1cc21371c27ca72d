# map | global: changes
SEEN = []


class Bad(Exception):
    def __init__(self, value):
        SEEN.append(value)


def operator(n: int):
    try:
        raise Bad(n)
    except Bad:
        return len(SEEN)
