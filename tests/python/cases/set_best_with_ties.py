# map | global: order
def operator(line: str):
    return max(set(line.split()), key=len)
