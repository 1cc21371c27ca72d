# map | global: order
def operator(line: str):
    words = set(line.split())
    return f"{words}"
