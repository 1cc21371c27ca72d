"""Water levels out of the ordinary, and how far out they are.

A gauge at the coast reports the level of the sea. Nearly all reports are ordinary and
are dropped at once; for the others, two more operators work out by how much the level
is out of its range and for how long a storm of that kind would be announced. The first
operator's rate depends on the sea, that of the others is fixed. This is the predicate
filter of the paper on hybrid scheduling, with its example of tidal heights.

It reads a gauge of NOAA (7,241 reports) from the folder `sensors` of the real data, and
a generated tide where there is none.
"""

import math
import random
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from samples import SAMPLES, csv_sample, real_file

LOWEST_M, HIGHEST_M = -1.0, 3.0


class Level(NamedTuple):
    """One report; the attributes have the names of the columns of the file."""

    timestamp: int
    sea_surface_height_above_sea_level: float


class Excess(NamedTuple):
    """A level that is out of range; negative if it is too low."""

    timestamp: int
    level_m: float
    excess_m: float


class Warned(NamedTuple):
    """How severe that is, from 1 to 3, and until when it is announced."""

    timestamp: int
    level_m: float
    excess_m: float
    severity: int
    until: int


def is_out_of_range(level: Level) -> bool:
    """Tell whether a level is out of the ordinary."""
    return not LOWEST_M <= level.sea_surface_height_above_sea_level <= HIGHEST_M


def excess(level: Level) -> Excess:
    """Return by how much a level is out of range."""
    height = level.sea_surface_height_above_sea_level
    beyond = height - HIGHEST_M if height > HIGHEST_M else height - LOWEST_M
    return Excess(level.timestamp, height, beyond)


def warned(excess: Excess) -> Warned:
    """Return the warning: a step of severity for each half metre, two hours for each."""
    severity = min(3, 1 + int(abs(excess.excess_m) / 0.5))
    return Warned(*excess, severity, excess.timestamp + severity * 2 * 3600)


def program(levels: Path | None = None) -> ab.Result:
    """Return the warnings."""
    path = levels or real_file("sensors", "noaa_water_level.csv") or sample_file()
    read = ab.read_csv(str(path), Level, name="levels")
    extreme = read.filter(is_out_of_range, name="extreme")
    return (
        extreme.map(excess, name="excess")
        .map(warned, name="warned")
        .to_list(name="warnings")
    )


def sample_file(folder: Path = SAMPLES, reports: int = 3000, seed: int = 23) -> Path:
    """Write a tide of twelve hours with a few storms."""
    chance = random.Random(seed)
    rows = []
    for number in range(reports):
        tide = 1 + 1.2 * math.sin(number * 2 * math.pi / 120)
        storm = chance.choice([-4, 3, 4]) if chance.random() < 0.01 else 0
        height = round(tide + storm + chance.uniform(-0.2, 0.2), 4)
        rows.append((1_536_181_200 + 360 * number, height))
    return csv_sample("predicate_filter.csv", Level._fields, rows, folder)
