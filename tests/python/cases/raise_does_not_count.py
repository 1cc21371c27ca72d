# flat_map | stateless | push 1..1
def operator(item):
    if not item:
        raise ValueError(item)
    yield item
