# flat_map | stateless | push 0..
def operator(item):
    try:
        yield 1
    finally:
        return
