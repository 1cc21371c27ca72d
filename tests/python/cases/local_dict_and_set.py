# map | stateless
def operator(item):
    counts = {}
    seen = set()
    for word in item.split():
        counts[word] = counts.get(word, 0) + 1
        seen.add(word)
    return len(seen), counts
