# map | global at 4: order of a set
def operator(item: str):
    words, seen = set(item.split()), []
    any(seen.append(word) for word in words)
    return seen
