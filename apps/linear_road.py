"""Linear Road: tolls and accident alerts for the cars on an expressway.

Every car reports its place every 30 seconds. A car that enters a segment of a mile is
told the toll there: it depends on how fast (below 40 mph, over five minutes) and how
many (above 50, in the last minute) cars go there. An accident, two cars that report the
same place four times running, makes the five segments before it free, and whoever
enters one of them is warned. These are the rules of the benchmark (Arasu et al., VLDB
2004).

The toll of a segment is charged when the car crosses into another segment, also when it
crosses straight into the exit lane there. It is dropped when the car takes the exit of
the segment itself. A car may ask for its balance at any time. Two reports of a car that
follow each other are compared, whatever time lies between them; so a car must report in
an exit lane before it leaves the road.

It reads the head of the benchmark's own three-hour file from the folder `linear_road`
of the real data, and a generated sample where there is none.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from samples import SAMPLES, csv_sample, real_file

POSITION, BALANCE = 0, 2
EXIT_LANE = 4
EAST = 0


class Row(NamedTuple):
    """One row of the file, of any kind."""

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
    first_seg: int
    last_seg: int
    weekday: int
    minute_of_day: int
    day: int


class Report(NamedTuple):
    """Where a car is, what is new about it, and the accident ahead (or -1).

    `enters` is true for the first report from a segment, outside of the exit lane.
    `exits` is true for the first report from an exit lane, and `crosses` if that lane
    belongs to another segment than the report before.
    """

    time: int
    car: int
    speed: int
    xway: int
    dir: int
    seg: int
    place: tuple[int, int]
    enters: bool
    exits: bool
    crosses: bool
    stops: bool
    moves_on: tuple[int, int] | None
    accident: int = -1


class Toll(NamedTuple):
    """What a car that enters a segment is told."""

    car: int
    time: int
    speed: int
    toll: int
    xway: int
    accident: int
    dir: int


class Balance(NamedTuple):
    """The answer to a question."""

    time: int
    qid: int
    balance: int


class Journey(ab.Operator):
    """One car: whether it enters or exits a segment, stops, or moves on."""

    def setup(self) -> None:
        """Start without a report."""
        self.seg: tuple[int, int, int] | None = None  # None while off the road
        self.place: tuple[int, int] | None = None
        self.times_here = 0

    def process(self, row: Row) -> Iterator[Report]:
        """Compare a report with the one before."""
        seg, place = (row.xway, row.dir, row.seg), (row.lane, row.pos)
        left = None
        if place != self.place:
            left = self.place if self.times_here >= 4 else None
            self.times_here = 0
        self.times_here += 1
        stops = self.times_here == 4
        on_exit = row.lane == EXIT_LANE
        enters = seg != self.seg and not on_exit
        exits = self.seg is not None and on_exit
        crosses = exits and seg != self.seg
        self.seg = None if on_exit else seg
        self.place = place
        news = enters, exits, crosses, stops, left
        yield Report(*row[1:5], row.dir, row.seg, place, *news)


class Accidents(ab.Operator):
    """One direction of an expressway: the accidents, and whom to warn of them.

    An accident counts from the minute after it is seen to the minute it is cleared in.
    """

    def setup(self) -> None:
        """Start with free roads."""
        self.stopped: dict[tuple[int, int], set[int]] = defaultdict(set)
        self.seen: dict[tuple[int, int], tuple[int, int]] = {}
        self.cleared: list[tuple[int, int, int]] = []

    def process(self, report: Report) -> Iterator[Report]:
        """Note who stops and who moves on; look ahead for who enters."""
        minute = report.time // 60
        if report.moves_on:
            self.stopped[report.moves_on].discard(report.car)
            one_left = len(self.stopped[report.moves_on]) == 1
            if one_left and report.moves_on in self.seen:
                self.cleared.append((*self.seen.pop(report.moves_on), minute))
        if report.stops:
            cars = self.stopped[report.place]
            cars.add(report.car)
            if len(cars) >= 2 and report.place not in self.seen:
                self.seen[report.place] = report.seg, minute
        yield report._replace(accident=self.ahead(report, minute))

    def ahead(self, report: Report, minute: int) -> int:
        """Return the nearest segment of an accident within five, or -1."""
        spans = [(*accident, minute) for accident in self.seen.values()] + self.cleared
        segs = {seg for seg, first, last in spans if first < minute <= last}
        step = 1 if report.dir == EAST else -1
        near = (report.seg + step * n for n in range(5))
        return next((seg for seg in near if seg in segs), -1)


class Segment(ab.Operator):
    """One segment: how fast and how many cars went there, and so what it costs."""

    def setup(self) -> None:
        """Start with an empty road."""
        self.speeds: dict[int, list[int]] = defaultdict(list)
        self.cars: dict[int, set[int]] = defaultdict(set)

    def process(self, report: Report) -> Iterator[Toll]:
        """Count the car; tell it the toll if it has just come."""
        minute = report.time // 60
        if minute not in self.speeds:
            self.forget(minute - 6)
        self.speeds[minute].append(report.speed)
        self.cars[minute].add(report.car)
        if report.enters:
            speed, toll = self.toll(minute)
            yield Toll(
                report.car,
                report.time,
                speed,
                toll if report.accident == -1 else 0,
                report.xway,
                report.accident,
                report.dir,
            )

    def forget(self, last: int) -> None:
        """Drop the minutes up to `last`."""
        for minute in [old for old in self.speeds if old <= last]:
            del self.speeds[minute], self.cars[minute]

    def toll(self, minute: int) -> tuple[int, int]:
        """Return the speed of the five minutes before, and the toll that it gives."""
        before = range(minute - 5, minute)
        speeds = [speed for one in before for speed in self.speeds.get(one, ())]
        cars = len(self.cars.get(minute - 1, ()))
        speed = int(sum(speeds) / len(speeds) + 0.5) if speeds else 0
        return speed, 2 * (cars - 50) ** 2 if speed < 40 and cars > 50 else 0


class Account(ab.Operator):
    """One car: what it has paid. It pays for a segment when it crosses into another."""

    def setup(self) -> None:
        """Start with nothing to pay."""
        self.paid = self.due = 0

    def process(self, event: Toll | Report | Row) -> Iterator[Balance]:
        """Charge the toll of the segment before, drop it, or answer a question."""
        if isinstance(event, Toll):
            self.paid += self.due
            self.due = event.toll
        elif isinstance(event, Report):
            self.paid += self.due if event.crosses else 0
            self.due = 0
        else:
            yield Balance(event.time, event.qid, self.paid)


def program(rows: Path | None = None) -> list[ab.Result]:
    """Return the tolls, the alerts and the answers to questions."""
    path = rows or real_file("linear_road", "mitsim_first300s.dat") or sample_file()
    read = ab.read_csv(str(path), Row, header=False, name="rows")
    positions, questions = read.split(kind_of_row, 2, name="by_kind")
    reports = positions.key_by("car").apply(Journey, name="journeys")
    passing, eventful, exits = reports.split(kind_of_report, 3, name="eventful")
    warned = eventful.key_by("xway", "dir").apply(Accidents, name="accidents")
    told = ab.union(passing, warned).key_by("xway", "dir", "seg")
    entries = told.apply(Segment, name="segments")
    tolls, charges, alerts = entries.split(who_is_told, 3, name="outputs")
    events = ab.union(charges, exits, questions).key_by("car")
    accounts = events.apply(Account, name="accounts")
    return [
        tolls.to_list(name="tolls"),
        alerts.to_list(name="accident_alerts"),
        accounts.to_list(name="balances"),
    ]


def kind_of_row(row: Row) -> tuple[int, ...]:
    """Send reports to 0, questions for a balance to 1, and other questions nowhere."""
    if row.kind == POSITION:
        return (0,)
    return (1,) if row.kind == BALANCE else ()


def kind_of_report(report: Report) -> tuple[int, ...]:
    """Send to 1 what may make, end or meet an accident, the rest to 0; exits to 2 too."""
    eventful = report.enters or report.stops or report.moves_on is not None
    return (int(eventful), 2) if report.exits else (int(eventful),)


def who_is_told(toll: Toll) -> tuple[int, ...]:
    """Send every toll to 0 and 1, and to 2 as well if there is an accident ahead."""
    return (0, 1) if toll.accident == -1 else (0, 1, 2)


def sample_file(folder: Path = SAMPLES, cars: int = 260, seed: int = 5) -> Path:
    """Write ten minutes of a crowded road, with an accident that is cleared."""
    chance = random.Random(seed)
    rows = []
    for car in range(cars):
        direction, time = car % 2, chance.randrange(60)
        lane, pos = chance.randrange(1, 4), chance.randrange(40, 42) * 5280
        breaks_down = car in {10, 12, 14}
        for report in range(18):
            speed = chance.randrange(10, 45)
            if breaks_down and 4 <= report < 10 + car % 3:
                lane, pos, speed = 2, 44 * 5280 + 7, 0
            pos += speed * 44 * (1 if direction == EAST else -1)
            at = (time + 30 * report, car, speed, 0, lane, direction, pos // 5280, pos)
            rows.append((POSITION, *at, *[-1] * 6))
            if chance.random() < 0.05:
                question = (BALANCE, time + 30 * report, car, *[-1] * 6, len(rows))
                rows.append((*question, *[-1] * 5))
    rows.sort(key=lambda row: row[1])
    return csv_sample("linear_road.csv", (), rows, folder)
