# map | global: changes
SEEN = []


class Table(dict):
    def __missing__(self, key):
        SEEN.append(key)
        return len(SEEN)


def operator(n: int):
    return Table()[n]
