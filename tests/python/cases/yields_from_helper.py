# flat_map | stateless | push 1..2
def halves(item):
    yield item // 2
    if item % 2:
        yield item // 2 + 1


def operator(item: int):
    yield from halves(item)
