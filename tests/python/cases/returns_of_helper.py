# flat_map | stateless | push 2..2
def both(item):
    return [item, -item]


def operator(item: int):
    return both(item)
