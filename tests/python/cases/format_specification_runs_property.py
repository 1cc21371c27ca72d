# map | global: changes
SEEN = []


class Box:
    @property
    def next(self):
        SEEN.append(1)
        return len(SEEN)


def operator(n: int):
    return "{0.next}".format(Box())
