# map | global at 9: bad
bad = []


def operator(item):
    try:
        return int(item)
    except ValueError:
        bad.append(item)
        return 0
