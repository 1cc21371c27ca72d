# map | global: changes
GROUPS = {"a": [], "b": []}


def operator(item: str):
    group = GROUPS.get(item, [])
    group.append(item)
    return len(group)
