# filter | stateless
ALLOWED = {"a", "b"}
LIMITS = (1, 10)


def operator(item):
    low, high = LIMITS
    return item.name in ALLOWED and low < item.n < high
