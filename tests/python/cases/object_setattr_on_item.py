# map | global at 3: input item
def operator(item):
    object.__setattr__(item, "seen", True)
    return item
