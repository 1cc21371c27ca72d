# map | global: order
def operator(line: str):
    return next(iter(set(line.split())))
