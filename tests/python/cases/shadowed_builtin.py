# map | global at 7: calls
calls = []


def len(thing):
    # not the len that you know
    calls.append(thing)
    return 1


def operator(item):
    return len(item)
