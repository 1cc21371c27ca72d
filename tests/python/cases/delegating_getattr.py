# map | global
TABLE = []


class Proxy:
    def __getattr__(self, name):
        return getattr(TABLE, name)


def operator(n: int):
    Proxy().append(n)
    return n
