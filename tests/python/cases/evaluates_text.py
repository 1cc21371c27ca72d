# map | global at 3: eval
def operator(item):
    return eval(item)
