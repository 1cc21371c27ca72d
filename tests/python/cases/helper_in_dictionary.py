# map | global at 6: seen
seen = []


def keep(item):
    seen.append(item)
    return item


HANDLERS = {"keep": keep, "len": len}


def operator(item):
    return HANDLERS["keep"](item)
