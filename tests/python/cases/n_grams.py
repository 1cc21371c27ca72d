# flat_map | stateless | push 0..
from itertools import islice, pairwise


def grams(words, n):
    return zip(*(islice(words, i, None) for i in range(n)))


def operator(line: str):
    words = line.casefold().split()
    for one, two in pairwise(words):
        yield f"{one} {two}"
    yield from (" ".join(gram) for gram in grams(words, 3))
