# flat_map | global at 6: seen
seen = []

def words(item):
    for word in item.split():
        seen.append(word)
        yield word

def operator(item):
    yield from words(item)
