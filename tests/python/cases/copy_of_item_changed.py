# map | stateless
def operator(item):
    mine = list(item)
    mine.append(1)
    mine[0] = 2
    return mine
