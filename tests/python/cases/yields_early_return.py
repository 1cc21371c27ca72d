# flat_map | stateless | push 0..2
def operator(item):
    if item is None:
        return
    yield item
    if item > 3:
        return
    yield item
