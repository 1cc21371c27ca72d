# map | global: changes
SEEN = []


class Rows:
    def __iter__(self):
        return self

    def __next__(self):
        SEEN.append(1)
        if len(SEEN) % 3 == 0:
            raise StopIteration
        return len(SEEN)


def operator(n: int):
    one, two = Rows()
    return one + two
