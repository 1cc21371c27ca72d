# map | global: changes
GROUPS = {"a": [], "b": []}


def operator(item: str):
    mine = dict(GROUPS)
    mine[item].append(item)
    return len(mine[item])
