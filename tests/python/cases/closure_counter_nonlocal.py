# map | global at 7: assigns
def make():
    count = 0

    def operator(item):
        nonlocal count
        count += 1
        return count, item

    return operator


operator = make()
