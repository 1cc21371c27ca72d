"""Functions that are lowered in tests; pytest rewrites those of test files."""

# ruff: noqa: RET505, PLC3002, TRY301, B026, C901, PLR0912, B023, PTH118

from __future__ import annotations

import contextlib
import dataclasses
import functools
import types
from typing import NamedTuple


class Point(NamedTuple):
    x: int
    y: int


LIMIT = 3


def arithmetic(a, b):
    c = a * b + -a - ~b
    c += a % (b or 1)
    c <<= 2
    return c // 3, c / 7, c**2, c & b, c | b, c ^ b, c >> 1, +a, not a


def conditions(a, b):
    if a > b:
        return "above"
    elif a == b:
        return "equal"
    return "below" if a < -1 else "a little below"


def short_circuit(a, b):
    return (
        a and b,
        a or b,
        (a and b) or 7,
        not (a or b),
        a < b < 2 * b < 100,
        0 < a != b,
    )


def loops(a, b):
    found = []
    for n in range(abs(a) + 3):
        if n == b:
            continue
        if n > 5:
            break
        found.append(n)
    else:
        found.append("all")
    while len(found) < 4:
        found.append(len(found))
        if b > 100:
            break
    else:
        found.append("done")
    return found


def unpacking(a, b):
    (c, d), *rest, last = (a, b), 1, 2, 3
    [e, f] = [c, d]
    d, e = e, d
    return c, d, e, f, rest, last, [*rest, a], {*rest}, {"k": a, "b": b}


def comprehensions(a, b):
    x = 99
    pairs = [(x, y) for x in range(a) if x % 2 for y in range(x) if y != b]
    later = [lambda x=x, y=a: (x, y, b) for x in range(2)]
    return (
        x,
        pairs,
        {n: n * b for n in range(a)},
        {n % 2 for n in range(a)},
        [one() for one in later],
    )


def generators(a, b):
    def pairs(n):
        got = yield n
        yield got
        yield from (x * a for x in range(n) if x != b)

    return list(pairs(3)), sum(x * y for x in range(a) for y in range(b) if x != y)


def closures(a, b):
    count = 0

    def more(by=a):
        nonlocal count
        count += by
        return count

    more()
    more(by=b)
    return count, LIMIT, (lambda p, *rest, k=2, **also: (p, rest, k, also))(1, 2, z=3)


def errors(a, b):
    try:
        if a == b:
            raise KeyError(a)
        found = a // b
    except ZeroDivisionError as error:
        found = str(error)
    except (KeyError, TypeError):
        found = "same"
    else:
        found = [found]
    finally:
        last = "always"
    assert found != [7], "seven"
    return found, last


def objects(a, b):
    made = types.SimpleNamespace(v=a, table={b: [1, 2, 3]})
    made.v += 1
    made.table[b][0] = made.v
    made.table[b][1] += b
    del made.table[b][2]
    point = Point(y=a, *(b,))._replace(x=5)
    made.w = (last := made.table[b][-1])
    del made.v
    with contextlib.suppress(ValueError):
        made.w = int("no")
    return vars(made), point, last, made.table[b][0:1], f"{a:>4}|{b!r}|{a + b}"


def imported(a, b):
    import math
    from operator import add as plus

    return math.gcd(a, b), plus(a, b)


class Meter:
    def __init__(self):
        self.total = 0

    def process(self, item):
        self.total += item
        yield self.total


def classes(a, b):
    kept = b

    @dataclasses.dataclass(frozen=True)
    class Pair:
        left: int
        right: int = 3

        @property
        def total(self):
            return self.left + self.right + kept

        def scaled(self, by=2):
            return Pair(self.left * by, self.right)

    class Named(Pair):
        word = "n"

        def scaled(self, by=3):
            made = super().scaled(by)
            return self.word, made.total

    return Pair(a).total, Named(a, b).scaled(), Pair(a).scaled() == Pair(2 * a)


def patterns(a, b):
    found = []
    subjects = [a, (a, b), [a, b, 3], {"k": a, "m": b}, Point(a, b), None, "text", b"x"]
    for one in subjects:
        match one:
            case 0 | 1 as small:
                found.append(("small", small))
            case int(n) if n > 3:
                found.append(("big", n))
            case int():
                found.append("int")
            case Point(x=0, y=other) | Point(x=other, y=1):
                found.append(("axis", other))
            case Point(left, right):
                found.append(("point", left, right))
            case (left, 3) | (3, left):
                found.append(("three", left))
            case [first, *rest] if rest:
                found.append(("list", first, rest))
            case {"k": 7}:
                found.append("seven")
            case {"k": value, **others}:
                found.append(("dict", value, others))
            case None:
                found.append("none")
            case str() | bytes():
                found.append("text")
            case _:
                found.append(("other", one))
    match a, b:
        case [_, 2]:
            return found
    return found, a


def nested(a, b):
    makers = [lambda k=k: k + n for n in range(2) for k in range(a)]
    sums = sum(n * k for n in range(3) for k in range(b) if (last := n) != k)
    import os.path
    from os import path

    @functools.cache
    @functools.lru_cache
    def twice(n):
        return 2 * n

    return (
        [one() for one in makers],
        sums,
        last if b > 1 else None,
        twice(a),
        os.path.join("a", "b"),
        path.join("c", "d"),
    )


def annotated(a):
    def inner(x: len(a)):
        return x

    return inner


def waits_inside(a):
    async def inner():
        async for one in a:
            yield one

    return inner


async def waits(a):
    return [one async for one in a]
