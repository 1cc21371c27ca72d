# map | global: change
SEEN = []


class Table:
    def keys(self):
        SEEN.append(1)
        return ["a"]

    def __getitem__(self, key):
        return len(SEEN)


def operator(n: int):
    return dict(**Table())
