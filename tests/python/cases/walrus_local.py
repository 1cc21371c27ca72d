# filter | stateless
def operator(item):
    return (n := len(item)) > 3 and n < 10
