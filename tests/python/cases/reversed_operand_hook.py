# map | global: changes
SEEN = []


class Sum:
    def __radd__(self, other):
        SEEN.append(other)
        return len(SEEN)


def operator(n: int):
    return sum([n, Sum()])
