# map | global at 3: process
def operator(item):
    return hash(item) % 4
