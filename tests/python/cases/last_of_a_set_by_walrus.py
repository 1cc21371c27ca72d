# map | global at 4: order of a set
def operator(item: str):
    words = set(item.split())
    any(last := word for word in words)
    return last
