# map | global at 3: the default of seen
def operator(item, seen=[]):
    seen.append(item)
    return len(seen)
