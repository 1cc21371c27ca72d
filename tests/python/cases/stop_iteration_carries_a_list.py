# map | global: changes
SEEN = []


def read(item):
    yield item
    return SEEN


def operator(item: str):
    rows = read(item)
    next(rows)
    try:
        next(rows)
    except StopIteration as end:
        end.value.append(item)
        return len(end.value)
