# map | global: memory
class Box:
    def __init__(self, n):
        self.n = n


def operator(n: int):
    return f"{Box(n)}"
