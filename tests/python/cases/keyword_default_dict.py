# map | global at 3: the default of cache
def operator(item, *, cache={}):
    cache[item] = True
    return len(cache)
