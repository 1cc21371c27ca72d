# map | global at 3: computed name
def operator(item):
    return getattr(item, "a" + "b")
