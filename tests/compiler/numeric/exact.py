"""Functions that must become kernels, each with the type of its item."""

# ruff: noqa: B905, PLC3002, PLW2901, RUF005, SIM108 - written as users write it

import math
from typing import NamedTuple

HALF = 0.5
TAPS = (0.25, -1.5, 3.0, 0.1)
LONG = tuple(1.0 / (n + 1) for n in range(200))
TABLE = [[1.0, 2.0], [3.0, 4.0]]


class Point(NamedTuple):
    """A record of numbers."""

    x: float
    n: int
    good: bool = True


class Box(NamedTuple):
    """A record with a list."""

    x: float
    held: list[float]


class Nothing(NamedTuple):
    """A record of nothing, which counts as false."""


def scaled(x: float) -> float:
    return x * HALF + 1


def from_zero(x: float) -> float:
    return sum([x])


def reciprocal(x: float) -> float:
    return 1 / x


def by_sign(x: float) -> float:
    if x < 0:
        return -x
    if x == 0:
        return x
    return math.sqrt(x)


def guarded(x: float) -> float:
    return 1 / x if x != 0 else 0.0


def in_steps(x: float) -> float:
    total = 0.0
    for n in range(5):
        if n % 2 == 0:
            continue
        if x > n:
            total += x - n
        else:
            total -= n
    return total


def least(x: float) -> float:
    return min(x, 1.0, -x)


def greatest(x: float) -> float:
    return max(-0.0, x)


def shade(x: float) -> int:
    return min(255, max(0, round(x + 128)))


def truncated(x: float) -> int:
    return int(x) + math.floor(x) + math.ceil(x)


def is_large(x: float) -> bool:
    return abs(x) > 2 and not math.isnan(x)


def between(x: float) -> bool:
    return -1 < x <= 2 or x == 5


def flagged(x: float) -> float:
    return (x > 0) + (x > 1) * 2.5


def folded(x: float) -> float:
    return (lambda y: y + y)(x) if False else helper(x, by=2.0)


def helper(x: float, by: float = 1.0) -> float:
    """Multiply."""
    return x * by


def long_loop(x: float) -> float:
    for n in range(300):
        x += n * 3.0 - 1.0
    return x


def swapped(x: float) -> float:
    one, two = x, 1.0
    for n in range(200):
        one, two = two * 0.5, one + LONG[n]
    return one - two


def waves(x: float) -> float:
    return math.sin(x) + math.cos(x) * math.exp(-abs(x)) + math.atan(x) + math.tan(x)


def log_of(x: float) -> float:
    return math.log(x)


def checked(x: float) -> float:
    assert x < 100
    if x > 50:
        raise ValueError(x)
    return x


def last_target(x: float) -> float:
    for n in range(300):
        x = x + n
        n = n * 2
    return x + n


def float_target(x: float) -> float:
    total = 0.0
    for y in LONG:
        total = total + x * y
        y = y + x
    return total - y


def target_on_one_path(x: float) -> float:
    total = 0.0
    for y in LONG:
        total = total + y
        if total > x:
            y = x
    return total + y


def pair_of_targets(x: float) -> float:
    total = 0.0
    for n, y in enumerate(LONG):
        total = total + y * n
        n = 5 - n
    return total + n * y


def inner_target(x: float) -> float:
    n = 1.0
    for _ in range(40):
        for n in LONG:
            x = x + n
            n = x * 0.5
    return x + n


def target_of_another_type(x: float) -> int:
    for y in LONG:
        x = x + y
        y = 3
    return y


def last_int(x: float) -> float:
    k = 0
    for n in range(300):
        k = n - 1
        x = x + k
    return x * k


def by_bool(x: float) -> int:
    return (0, 1)[x > 0.0]


def by_bool_of_two(x: float) -> float:
    return (x, -x)[x < 0.0]


def by_bool_bounded(x: float) -> int:
    return (3, 2**60)[x > 0.0] + 1


def by_int_of_bool(x: float) -> int:
    return (5, 9, 13)[(x > 0.0) + (x > 1.0)]


def truth_of_bool(x: float) -> bool:
    return (False, True)[x > 0.0]


def without_lines(x: float) -> float:
    for _ in range(300):
        helper(x)
    return x


def while_in_for(x: float) -> float:
    for _ in range(3):
        k = 0
        while k < 5:
            k += 1
            if k == 2:
                continue
            if k == 4:
                break
            x = x + k
        x = x * 2.0
    return x


def list_in_record(x: float) -> float:
    held = [1.0]
    box = Box(x, held)
    if x > 0:
        held.append(2.0)
    else:
        held.append(3.0)
    return box.held[1]


def list_in_a_list_of_another(x: float) -> float:
    held = [x]
    around = wrapped(held)
    if x > 0:
        held[0] = 1.0
    else:
        held[0] = 2.0
    return around[0][0]


def empty_record(x: float) -> float:
    return x if Nothing() else 1.0


def wrapped(value):
    return [value]


SINGLE = [
    last_target,
    float_target,
    target_on_one_path,
    pair_of_targets,
    inner_target,
    target_of_another_type,
    last_int,
    by_bool,
    by_bool_of_two,
    by_bool_bounded,
    by_int_of_bool,
    truth_of_bool,
    without_lines,
    while_in_for,
    list_in_record,
    list_in_a_list_of_another,
    empty_record,
    scaled,
    from_zero,
    reciprocal,
    by_sign,
    guarded,
    in_steps,
    least,
    greatest,
    shade,
    truncated,
    is_large,
    between,
    flagged,
    folded,
    long_loop,
    swapped,
    waves,
    log_of,
    checked,
]


def next_of(n: int) -> int:
    return (n * 7 + 3) % 1000


def halves(n: int) -> int:
    return n // 2 - -n // 3


def ratio(n: int) -> float:
    return n / 7


def mixed(n: int) -> float:
    return n * 0.5 if n > 3 else n - 0.25


def size(n: int) -> int:
    return abs(n) + (n > 5) + int(n < 0)


WHOLE = [next_of, halves, ratio, mixed, size]


def moved(p: Point) -> Point:
    return Point(p.x + p.n, p.n - 1, not p.good)


def replaced(p: Point) -> Point:
    return p._replace(x=p[0] * 2, good=p.x > 0)


RECORDS = [moved, replaced]


def fir(w: list[float]) -> list[float]:
    return [sum(x * tap for x, tap in zip(w, TAPS, strict=True))]


def long_fir(w: list[float]) -> list[float]:
    return [sum(x * tap for x, tap in zip(w, LONG))]


def adds_up(w: list[float]) -> list[float]:
    a, b, c = w
    large = c * 1e16  # what rounding takes from the others, some Pythons give back
    return [
        sum([1, a, 3, large, True, b, -large, 2]),
        sum(w, 0.5),
        sum([large, a], True),
    ]


def by_index(w: list[float]) -> list[float]:
    total = 0
    for n in range(len(w)):
        total = total + w[n] * TAPS[n]
    return [total, w[-1]]


def butterfly(w: list[float]) -> list[float]:
    a, b = w
    return [a + b, a - b]


def yielding(w: list[float]):
    for row in TABLE:
        yield sum(w[n] * row[n] for n in range(2))


def listed(w: list[float]) -> list[float]:
    made = []
    for n, x in enumerate(w):
        if x > 0:
            y = x
        else:
            y = -x
        made.append(y + n)
    made[0] = made[1]
    made[1] += 1
    return made


def reordered(w: list[float]) -> list[float]:
    return [*reversed(w)] + w[1:2] + [max(w)]


# function, pop, push, peek
BLOCKS = [
    (fir, 1, 1, 4),
    (fir, 3, 1, 4),
    (long_fir, 10, 1, 200),
    (adds_up, 1, 3, 3),
    (by_index, 4, 2, 4),
    (butterfly, 2, 2, 2),
    (yielding, 2, 2, 2),
    (listed, 2, 2, 2),
    (reordered, 2, 4, 2),
]
