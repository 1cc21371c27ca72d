"""The rules of Linear Road over all rows at once: plain Python, no streams, no states.

What a car pays is defined by pairs of its reports that follow each other, so it shares
nothing with the accounts that the application keeps.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from itertools import groupby, pairwise
from typing import NamedTuple

POSITION, BALANCE = 0, 2
EXIT_LANE = 4


class Row(NamedTuple):
    kind: int
    time: int
    car: int
    speed: int
    xway: int
    lane: int
    dir: int
    seg: int
    pos: int
    qid: int


class Answers(NamedTuple):
    """In the notation of the benchmark's validator."""

    tolls: list[str]
    alerts: list[str]
    balances: list[str]


def read_rows(text):
    return [Row(*map(int, row[:10])) for row in csv.reader(text.splitlines())]


def segment_of(row):
    return row.xway, row.dir, row.seg


def reports_by_car(rows):
    found = defaultdict(list)
    for row in rows:
        if row.kind == POSITION:
            found[row.car].append(row)
    return found


def find_accidents(rows):
    """
    Yield (xway, dir, seg, first minute, last minute) from the times cars stood still.
    """
    stops = defaultdict(list)
    for mine in reports_by_car(rows).values():
        runs = [list(run) for _, run in groupby(mine, lambda r: (r.lane, r.pos))]
        for number, run in enumerate(runs):
            if len(run) >= 4:
                after = runs[number + 1][0].time if number + 1 < len(runs) else 10**6
                place = *segment_of(run[0]), run[0].lane, run[0].pos
                stops[place].append((run[3].time, after))
    for (xway, way, seg, *_), spans in stops.items():
        starts, ends = sorted(s for s, _ in spans), sorted(e for _, e in spans)
        if len(spans) >= 2:
            yield xway, way, seg, starts[1] // 60, ends[-2] // 60


def find_entries(rows):
    """
    Return the reports that a toll is told for: the first from a segment of a trip.
    """
    return {
        row
        for mine in reports_by_car(rows).values()
        for before, row in pairwise([None, *mine])
        if row.lane != EXIT_LANE
        and (
            before is None
            or before.lane == EXIT_LANE
            or segment_of(before) != segment_of(row)
        )
    }


def answer(rows):
    """
    Return the tolls, the alerts and the answers to questions, in the order of the rows.
    """
    here = defaultdict(list)
    for row in rows:
        if row.kind == POSITION:
            here[*segment_of(row), row.time // 60].append(row)
    accidents, entries = list(find_accidents(rows)), find_entries(rows)
    toll_of, found = {}, Answers([], [], [])
    for row in rows:
        if row not in entries:
            continue
        minute = row.time // 60
        inside = [
            r
            for back in range(1, 6)
            for r in here.get((*segment_of(row), minute - back), ())
        ]
        cars = {r.car for r in here.get((*segment_of(row), minute - 1), ())}
        total, count = sum(r.speed for r in inside), len(inside)
        speed = (2 * total + count) // (2 * count) if count else 0
        ahead = [
            abs(seg - row.seg)
            for xway, way, seg, first, last in accidents
            if (xway, way) == (row.xway, row.dir)
            and 0 <= (seg - row.seg) * (1 - 2 * way) <= 4
            and first < minute <= last
        ]
        toll = 2 * (len(cars) - 50) ** 2 if speed < 40 and len(cars) > 50 else 0
        if ahead:
            toll, seg = 0, row.seg + min(ahead) * (1 - 2 * row.dir)
            alert = f"1,{row.time},{row.xway},{seg},{row.dir},{row.car}"
            found.alerts.append(alert)
        toll_of[row] = toll
        found.tolls.append(f"0,{row.car},{row.time},{speed},{toll}")
    found.balances.extend(answer_questions(rows, toll_of))
    return found


def answer_questions(rows, toll_of):
    """
    Yield the balances: for each crossing before the question, the toll of the segment
    that was left.
    """
    place_of = {id(row): place for place, row in enumerate(rows)}
    crossings = defaultdict(list)
    for car, mine in reports_by_car(rows).items():
        for place, (before, row) in enumerate(pairwise(mine)):
            if before.lane != EXIT_LANE and segment_of(before) != segment_of(row):
                told = next(r for r in reversed(mine[: place + 1]) if r in toll_of)
                crossings[car].append((place_of[id(row)], toll_of[told]))
    for place, row in enumerate(rows):
        if row.kind == BALANCE:
            paid = sum(toll for when, toll in crossings[row.car] if when < place)
            yield f"2,{row.time},{row.time},{row.qid},{paid}"
