# map | global at 12: calls
calls = []


class Box:
    def __init__(self, run):
        self.run = run


def hit(item):
    # reached through an attribute
    calls.append(item)
    return item


box = Box(hit)


def operator(item):
    return box.run(item)
