# map | stateless
def operator(item):
    words = []
    for word in item.split():
        words.append(word.lower())
    words.sort()
    return words
