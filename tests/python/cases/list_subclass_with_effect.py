# map | global: changes
SEEN = []


class Row(list):
    def append(self, value):
        SEEN.append(value)
        super().append(value)


def operator(n: int):
    row = Row()
    row.append(n)
    return len(SEEN)
