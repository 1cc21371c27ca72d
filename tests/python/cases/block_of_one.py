# block | stateless | push 1..1 | forwards all
def operator(items):
    return [items[0]]
