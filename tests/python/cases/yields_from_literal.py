# flat_map | stateless | push 2..3
def operator(item):
    yield from (item, item)
    value = (yield item) if item else None
