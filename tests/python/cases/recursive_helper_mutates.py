# map | global at 7: seen
seen = []

def walk(tree, into):
    for branch in tree:
        walk(branch, seen)
    into.append(1)

def operator(item):
    walk(item, [])
    return item
