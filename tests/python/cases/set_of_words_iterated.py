# map | global at 3: order
def operator(line: str):
    return [word for word in set(line.split())]
