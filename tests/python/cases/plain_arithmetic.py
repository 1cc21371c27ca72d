# map | stateless | push 1..1 | forwards
def operator(item):
    return item * 2 + 1
