# map | global: changes
GROUPS = {"a": [], "b": []}


def operator(item: str):
    for group in list(GROUPS.values()):
        group.append(item)
    return item
