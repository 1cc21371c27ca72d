"""Find readings that are far from what their device usually shows.

The usual value of a device is its running mean; far is more than three standard
deviations, once twenty readings are known. The state is kept per device, so that devices
are looked at in parallel, and each in the order of its readings.

    anabranch run examples/find_anomalies.py
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import anabranch as ab

DATA = Path(__file__).parent / "data" / "readings.csv"
KNOWN = 20  # readings of a device before anything is said about it
FAR = 3.0  # standard deviations


class Reading(NamedTuple):
    """The temperature that a device has measured."""

    ts: int
    device: str
    celsius: float


class Usual(NamedTuple):
    """The mean of a device so far, and the sum of squares around it (Welford)."""

    readings: int = 0
    mean: float = 0.0
    squares: float = 0.0


class Judged(NamedTuple):
    """A reading, and how many standard deviations it is away from the mean before."""

    ts: int
    device: str
    celsius: float
    deviations: float


def judge(usual: Usual, reading: Reading) -> tuple[Usual, Judged]:
    """Compare a reading with those before it; one that is far does not become usual."""
    away = reading.celsius - usual.mean
    spread = math.sqrt(usual.squares / usual.readings) if usual.readings else 0.0
    deviations = abs(away) / spread if usual.readings >= KNOWN and spread > 0 else 0.0
    judged = Judged(reading.ts, reading.device, reading.celsius, deviations)
    if deviations > FAR:
        return usual, judged
    readings = usual.readings + 1
    mean = usual.mean + away / readings
    squares = usual.squares + away * (reading.celsius - mean)
    return Usual(readings, mean, squares), judged


def find_anomalies(readings: ab.Stream) -> ab.Stream:
    """Return the readings that are far from what their device usually shows."""
    judged = readings.key_by("device").scan(judge, Usual(), name="judge")
    return judged.filter(lambda one: one.deviations > FAR, name="far")


program = find_anomalies(ab.read_csv(DATA, Reading)).write_csv("anomalies.csv")
