# punctuate | stateless | push 1..2 | forwards all
def operator(item):
    return item.last
