# map | global
SEEN = []


def operator(item):
    class Made:
        SEEN.append(1)
        size = len(SEEN)

    return Made.size
