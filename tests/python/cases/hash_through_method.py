# map | global
def operator(item: str):
    return item.__hash__() % 4
