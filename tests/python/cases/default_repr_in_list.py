# map | global: memory
class Box:
    pass


def operator(n: int):
    return "{}".format([Box()])
