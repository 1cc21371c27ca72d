# map | stateless
from collections import Counter, defaultdict, deque


def operator(item):
    groups = defaultdict(list)
    for word in item.split():
        groups[word[0]].append(word)
    recent = deque(maxlen=3)
    recent.append(1)
    return Counter(item).most_common(2), groups, recent
