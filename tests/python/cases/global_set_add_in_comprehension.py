# flat_map | global at 6: seen
seen = set()


def operator(item):
    return [word for word in item.split() if not seen.add(word)]
