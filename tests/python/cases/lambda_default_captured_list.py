# map | global: changes
def make():
    held = []
    return lambda item, keep=held.append: keep(item)


operator = make()
