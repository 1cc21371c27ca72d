# map | global at 4: changes the input item
def operator(item):
    tags = item.tags
    tags.append("new")
    return item
