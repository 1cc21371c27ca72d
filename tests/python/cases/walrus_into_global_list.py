# filter | global at 6: seen
seen = []


def operator(item):
    return (n := len(seen)) < 3 and seen.append(n) is None
