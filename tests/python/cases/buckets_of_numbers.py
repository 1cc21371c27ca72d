# map | stateless
def operator(n: int):
    return [digit for digit in {n % 2, n % 3, n % 5}]
