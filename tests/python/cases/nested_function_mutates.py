# map | global at 7: seen
seen = []


def operator(item):
    def remember(what):
        seen.append(what)

    remember(item)
    return item
