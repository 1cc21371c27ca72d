# flat_map | stateless | push 1..
def operator(item):
    return [item, *item.parts]
