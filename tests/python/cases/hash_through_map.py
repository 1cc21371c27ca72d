# map | global: process
def operator(items: list[str]):
    return list(map(hash, items))
