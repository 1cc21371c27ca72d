# map | global: changes
SEEN = []


class Sum:
    def __iadd__(self, other):
        SEEN.append(other)
        return self


def operator(n: int):
    total = Sum()
    total += n
    return len(SEEN)
