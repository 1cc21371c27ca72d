# map | stateless
def up(item):
    return item.upper()


def down(item):
    return item.lower()


HANDLERS = {"up": up, "down": down}


def operator(item):
    return HANDLERS[item.kind](item.name)
