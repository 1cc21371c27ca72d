# flat_map | stateless | push 0..2
def operator(item):
    if not item:
        return []
    return [item, item] if item > 3 else (item,)
