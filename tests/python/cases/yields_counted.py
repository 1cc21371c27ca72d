# flat_map | stateless | push 0..3
def operator(item):
    if item > 0:
        yield item
        yield -item
    else:
        if item == 0:
            return
    yield 0
