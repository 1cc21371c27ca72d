"""Score items with a model that was fitted before.

The model is an object with a method `predict`; fitting it before the stream is described
makes it read-only for the run, so that scoring is parallel. A model of scikit-learn is
used the same way.

    anabranch run examples/score_model.py
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

import anabranch as ab

DATA = Path(__file__).parent / "data" / "readings.csv"


class Reading(NamedTuple):
    """The temperature that a device has measured."""

    ts: int
    device: str
    celsius: float


class Scored(NamedTuple):
    """A reading, and what the model expected at that time."""

    ts: int
    device: str
    celsius: float
    expected: float


class Trend:
    """A straight line through past readings, by least squares."""

    def __init__(self) -> None:
        self.slope = 0.0
        self.start = 0.0

    def fit(self, times: np.ndarray, values: np.ndarray) -> Trend:
        """Find the line; call it before the stream is described."""
        self.slope, self.start = (float(x) for x in np.polyfit(times, values, 1))
        return self

    def predict(self, ts: int) -> float:
        """Return the value of the line."""
        return self.start + self.slope * ts


MODEL = Trend().fit(np.array([0, 100, 200, 300]), np.array([20.0, 20.5, 21.0, 21.5]))


def score(reading: Reading) -> Scored:
    """Set a reading beside what the model expects."""
    expected = round(MODEL.predict(reading.ts), 6)
    return Scored(reading.ts, reading.device, reading.celsius, expected)


def score_all(readings: ab.Stream) -> ab.Stream:
    """Return the readings with what the model expected."""
    return readings.map(score, name="score")


program = score_all(ab.read_csv(DATA, Reading)).write_csv("scored.csv")
