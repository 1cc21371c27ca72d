# map | global at 9: seen
seen = []


def operator(item):
    try:
        return item
    finally:
        seen.append(item)
