# map | stateless
def operator(item):
    factor = 2

    def scale(x):
        nonlocal factor
        factor += 1
        return x * factor

    return [scale(x) for x in item]
