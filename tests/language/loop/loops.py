"""Loops that tests turn into streams; each gives what it found to `out`."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import anabranch as ab


class Point(NamedTuple):
    x: int
    y: int


def points(number):
    for n in range(number):
        yield Point(n, n * n % 7)


def swapped(point: Point) -> Point:
    return Point(point.y, point.x)


@ab.to_stream
def squares(numbers, out):
    for n in numbers:
        with ab.stage(inputs="n", outputs="n"):
            n = n * n
        with ab.stage(inputs="n"):
            out.append(n)


@ab.to_stream
def typed(number, out):
    for point in points(number):
        with ab.stage():
            point = swapped(point)
        with ab.stage():
            out.append(point)


@ab.to_stream
def skipping(numbers, out):
    """Has a head with jumps, and a variable that only the last stage needs."""
    seen = 0
    for n in numbers:
        if n % 3 == 0:
            continue
        seen += 1
        label = f"number {seen}"
        if n > 40:
            break
        with ab.stage():
            twice = 2 * n
        with ab.stage():
            if twice > 30:
                twice = -twice
        with ab.stage():
            out.append((label, twice))


@ab.to_stream
def waiting(numbers, out):
    """Is the shape of the paper: while (1), read an item, and stop when none is left."""
    left = iter(numbers)
    while True:
        item = next(left, None)
        if item is None:
            return
        with ab.stage():
            item = item + 1
        with ab.stage():
            out.append(item)


@ab.to_stream
def remembering(numbers, out):
    """Keeps variables from turn to turn: in the head, in a stage, and in the last."""
    best, turn, last = -1, 0, None
    for n in numbers:
        turn += 1
        with ab.stage():
            n = n * 7 % 11
        with ab.stage():
            best = max(best, n)
        with ab.stage():
            out.append((turn, n, best, last))
            last = n


@ab.to_stream
def nested(rows, out, power=2):
    """Has loops, functions and handlers inside a stage."""
    table = {n: n**power for n in range(20)}
    for row in rows:
        with ab.stage():
            total = 0
            for n in (row, row + 1, row + 2):
                if n == 13:
                    continue
                total += table.get(n % 20, 0)
            try:
                share = 100 // (row % 5)
            except ZeroDivisionError:
                share = None
            parts = sorted((share or 0, total), key=lambda part: -part * power)
        with ab.stage():
            out.append([*parts, share])


@dataclasses.dataclass
class Tally:
    count: int = 0

    def add(self, n):
        self.count += n


@ab.to_stream
def tallied(numbers, out):
    """A stage changes an object of its own, so it stays sequential."""
    tally = Tally()
    for n in numbers:
        with ab.stage():
            n = n + 1
        with ab.stage():
            tally.add(n)
            so_far = tally.count
        with ab.stage():
            out.append(so_far)
