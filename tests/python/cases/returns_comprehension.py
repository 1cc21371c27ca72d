# flat_map | stateless | push 0..
def operator(item):
    return [word for word in item.split()]
