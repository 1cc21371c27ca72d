# split | stateless | push 0..2 | forwards all
def operator(item):
    return item % 2
