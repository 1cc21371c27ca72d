# flat_map | stateless | push 0..
import re
from collections import Counter

WORD = re.compile(r"[a-z']+")
STOP = frozenset(["a", "the", "of"])


def tokens(text):
    for word in WORD.findall(text.lower()):
        if word not in STOP:
            yield word.strip("'")


def operator(line: str):
    counts = Counter(tokens(line))
    counts.update(w for w in line.split() if w.isdigit())
    for word, n in counts.most_common(10):
        yield f"{word}={n}"
