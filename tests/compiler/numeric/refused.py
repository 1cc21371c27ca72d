"""Functions that must not be compiled, each with a part of the reason."""

# ruff: noqa: B905 - written as users write it

import math

import numpy as np

WEIGHTS = np.array([1.0, 2.0])


def unbounded(n: int) -> int:
    return n * n * n


def power(x: float) -> float:
    return x**2


def text(x: float) -> str:
    return f"{x}"


def either_type(x: float) -> float:
    return max(x, 0)


def mixed_least(x: float) -> float:
    return max(0, x)


def remainder(x: float) -> float:
    return x % 2.0


def array(x: float) -> float:
    return x * WEIGHTS[0]


def unknown_rounds(x: float) -> float:
    for _ in range(int(x)):
        x += 1.0
    return x


def while_it_lasts(x: float) -> float:
    while x > 1:
        x = x / 2
    return x


def kept_iterator(x: float) -> float:
    pairs = zip([x], [x])
    return sum(a + b for a, b in pairs) + sum(a for a, _ in pairs)


def kept_generator(x: float) -> float:
    made = (x * y for y in (1.0, 2.0))
    x = 5.0
    return sum(made)


def perhaps_unbound(x: float) -> float:
    if x > 0:
        power = x
    return power


def changed_on_the_way(x: float) -> float:
    made = [x, x]
    for n, y in enumerate(made):
        made[1 - n] = y + 1
    return made[1]


def grows(x: float) -> float:
    made = [x]
    for y in made:
        if len(made) < 3:
            made.append(y)
    return sum(made)


def conditional_append(x: float) -> float:
    made = [x]
    if x > 0:
        made.append(x)
    return sum(made)


def hypot(x: float) -> float:
    return math.hypot(x, 1.0)


def raises_always(x: float) -> float:
    return x / 0


def recursive(x: float) -> float:
    return recursive(x + 1)


def as_bool(x: float) -> float:
    return x or 1.0


def endless(x: float) -> float:
    while True:
        x += 1.0


def far(x: float) -> float:
    for _ in range(10**12):
        x += 1.0
    return x


def huge(x: float) -> float:
    n = 3
    for _ in range(60):
        n = n * n
    return x + n


def slow(x: float) -> float:
    return x * math.factorial(10**6)


def nested(x: float) -> float:
    for _ in range(1000):
        for _ in range(1000):
            pass
    return x


REFUSED = {
    endless: "steps",
    far: "goes through more than",
    huge: "without bound",
    slow: "factorial",
    nested: "steps to trace",
    unbounded: "64 bits",
    power: "power",
    text: "JoinedStr",
    either_type: "an int on one path and a float on another",
    mixed_least: "a float on one path and an int on another",
    remainder: "Mod",
    array: "ndarray",
    unknown_rounds: "counts to a number that depends on the items",
    while_it_lasts: "repeats for as long as the items say",
    kept_iterator: "keeps an iterator",
    kept_generator: "keeps an iterator",
    perhaps_unbound: "power, which has no value on every path",
    changed_on_the_way: "has not made itself",
    grows: "has not made itself",
    conditional_append: "different lengths",
    hypot: "last bit",
    raises_always: "divides by zero",
    recursive: "calls itself",
    as_bool: "takes a number for true",
}
