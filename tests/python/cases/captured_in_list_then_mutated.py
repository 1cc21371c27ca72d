# map | global at 8: changes the global seen
seen = []


def operator(item):
    boxes = []
    boxes.append(seen)
    boxes[0].append(item)
    return item
