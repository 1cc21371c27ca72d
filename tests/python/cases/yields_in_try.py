# flat_map | stateless | push 1..3
def operator(item):
    try:
        yield 1
        yield int(item)
        raise ValueError
    except ValueError:
        yield 2
