# map | global: memory
def helper(n):
    return n


def operator(n: int):
    return f"{helper}"
