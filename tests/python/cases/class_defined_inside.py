# map | global at 3: the class Box cannot be followed
def operator(item):
    class Box:
        held = item

    return Box
