# map | stateless
EDGES = {"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ()}


def operator(start: str):
    waiting, reached = [start], {start: 0}
    while waiting:
        node = waiting.pop(0)
        for following in EDGES.get(node, ()):
            if following not in reached:
                reached[following] = reached[node] + 1
                waiting.append(following)
    return reached
