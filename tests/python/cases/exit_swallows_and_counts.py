# map | global: changes
SEEN = []


class Guard:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        SEEN.append(error)
        return True


def operator(n: int):
    with Guard():
        raise ValueError
    return len(SEEN)
