# map | global at 3: input item
def operator(item):
    setattr(item, "seen", True)
    return item
