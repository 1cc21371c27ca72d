# map | stateless
def collect(into, words):
    for word in words:
        into.append(word)
    return into


def operator(item):
    return collect([], item.split())
