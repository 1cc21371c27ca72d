# filter | global at 7: seen
seen = []


def operator(item):
    mine = seen if item else []
    mine.append(item)
    return len(mine) < 3
