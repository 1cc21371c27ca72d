# map | global: memory
def operator(items: list[str]):
    return sorted(items, key=id)
