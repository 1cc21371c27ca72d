# map | stateless
def operator(item):
    mine = dict(item)
    mine["seen"] = True
    return mine
