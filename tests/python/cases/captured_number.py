# map | stateless
def make(factor):
    return lambda item: item * factor


operator = make(3)
