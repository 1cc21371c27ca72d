# flat_map | stateless | push 2..2
def operator(item):
    for sign in (1, -1):
        yield sign * item
