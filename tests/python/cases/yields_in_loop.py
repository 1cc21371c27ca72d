# flat_map | stateless | push 1..
def operator(item):
    for word in item.split():
        yield word
    yield "."
