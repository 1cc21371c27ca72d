# map | global at 7: assigns the global
count = 0


def operator(item):
    global count
    count += 1
    return count
