# map | global at 4: changes the input item
def operator(item):
    for row in item:
        row.pop()
    return item
