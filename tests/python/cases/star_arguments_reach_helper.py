# map | global at 5: changes the global seen
seen = []

def keep(*where):
    where[0].append(1)

def operator(item):
    keep(*[seen])
    return item
