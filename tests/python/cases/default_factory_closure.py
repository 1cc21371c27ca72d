# map | global: changes
from collections import defaultdict

MADE = []


def number():
    MADE.append(1)
    return len(MADE)


def operator(line: str):
    table = defaultdict(number)
    return [table[word] for word in line.split()]
