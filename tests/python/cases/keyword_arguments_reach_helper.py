# map | global at 5: changes the global seen
seen = []

def keep(**where):
    where["seen"].append(1)

def operator(item):
    keep(seen=seen)
    return item
