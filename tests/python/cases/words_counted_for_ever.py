# flat_map | global at 9: changes
from collections import Counter

COUNTS = Counter()


def operator(line: str):
    words = line.split()
    COUNTS.update(words)
    for word in words:
        yield word, COUNTS[word]
