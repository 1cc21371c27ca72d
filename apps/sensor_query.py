"""What do the sensors near me say: queries that meet the readings of the last hours.

Buoys report the temperature and the waves of the water at their beach. A query names a
place and a radius; it is answered at once with every reading of the last two hours from
within the radius. This is the SensorQuery of the paper on auto-pipelining (its Listing
1): a join in which readings wait in a window of time and queries wait for nothing.

It reads the Chicago beaches' buoys from the folder `sensors` of the real data, in order
of time, and generated readings where there is none. The queries are generated.
"""

import csv
import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from samples import SAMPLES, csv_sample, real_file

TWO_HOURS = 2 * 3600
BEACHES = {  # latitude and longitude, about
    "63rd Street Beach": (41.7826, -87.5732),
    "Calumet Beach": (41.7156, -87.5285),
    "Montrose Beach": (41.9686, -87.6356),
    "Ohio Street Beach": (41.8945, -87.6124),
    "Osterman Beach": (41.9876, -87.6525),
    "Rainbow Beach": (41.7600, -87.5497),
}
COLUMNS = ("Beach Name", "Measurement Timestamp", "Water Temperature", "Wave Height")


class Reading(NamedTuple):
    """What a buoy reports."""

    ts: int
    beach: str
    latitude: float
    longitude: float
    temperature: float
    waves: float


class Query(NamedTuple):
    """Where somebody is, and how far to look."""

    ts: int
    number: int
    latitude: float
    longitude: float
    radius_km: float


class Answer(NamedTuple):
    """A reading for a query."""

    query: int
    asked: int
    read: int
    beach: str
    distance_km: float
    temperature: float
    waves: float


def distance_km(reading: Reading, query: Query) -> float:
    """Return the distance on the globe, by the haversine formula."""
    north, north_2 = math.radians(reading.latitude), math.radians(query.latitude)
    east = math.radians(query.longitude - reading.longitude)
    half = math.sin((north_2 - north) / 2) ** 2
    half += math.cos(north) * math.cos(north_2) * math.sin(east / 2) ** 2
    return 2 * 6371.0 * math.asin(math.sqrt(half))


def is_near(reading: Reading, query: Query) -> bool:
    """Tell whether a reading is from within the radius of a query."""
    return distance_km(reading, query) <= query.radius_km


def answer(reading: Reading, query: Query) -> Answer:
    """Return what the query is told of a reading."""
    return Answer(
        query.number,
        query.ts,
        reading.ts,
        reading.beach,
        distance_km(reading, query),
        reading.temperature,
        reading.waves,
    )


def program(readings: Path | None = None, queries: int = 400) -> ab.Result:
    """Return the answers, those of an earlier query first."""
    path = readings or input_file()
    read = ab.generate(partial(in_time_order, path), Reading, name="sensors")
    asked = ab.generate(partial(asking, path, queries), Query, name="queries")
    timed = ab.merge(read, asked, by="ts", name="timed")
    sides = timed.split(lambda item: int(isinstance(item, Query)), 2, name="sides")
    results = sides[0].join(
        sides[1],
        left_window=ab.Window(time=TWO_HOURS, on="ts"),
        right_window=0,
        match=is_near,
        into=answer,
        name="results",
    )
    return results.to_list(name="answers")


def in_time_order(path: Path) -> Iterator[Reading]:
    """Yield the readings of a file that is in no order; some rows lack a value."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [[row[name] for name in COLUMNS] for row in csv.DictReader(file)]
    found = [
        Reading(seconds(when), beach, *BEACHES[beach], float(warm), float(waves))
        for beach, when, warm, waves in rows
        if when and warm and waves
    ]
    return iter(sorted(found))


def seconds(when: str) -> int:
    """Return a time as the buoys write it in seconds since 1970."""
    time = datetime.strptime(when, "%m/%d/%Y %I:%M:%S %p").replace(tzinfo=UTC)
    return int(time.timestamp())


def asking(path: Path, queries: int, seed: int = 3) -> Iterator[Query]:
    """Yield queries from all over the city, over the time of the readings."""
    chance = random.Random(seed)
    times = [reading.ts for reading in in_time_order(path)]
    asked = sorted(
        chance.choice(times) + chance.randrange(7200) for _ in range(queries)
    )
    for number, ts in enumerate(asked):
        place = chance.uniform(41.65, 42.02), chance.uniform(-87.75, -87.52)
        yield Query(ts, number, *place, chance.choice([2.0, 5.0, 15.0]))


def input_file() -> Path:
    """Return the readings, real ones where they are at hand."""
    real = real_file("sensors", "chicago_beach_water_sensors.csv")
    return real or sample_file()


def sample_file(folder: Path = SAMPLES, hours: int = 60, seed: int = 2) -> Path:
    """Write hourly readings of six buoys, in no order, some without a value."""
    chance = random.Random(seed)
    rows = []
    for hour in range(hours):
        when = datetime.fromtimestamp(1_400_000_400 + 3600 * hour, UTC)
        for beach in BEACHES:
            warm = chance.choice(["", *[f"{chance.uniform(12, 24):.1f}"] * 9])
            waves = f"{chance.uniform(0.05, 0.6):.3f}"
            rows.append((beach, when.strftime("%m/%d/%Y %I:%M:%S %p"), warm, waves))
    chance.shuffle(rows)
    return csv_sample("sensor_query.csv", COLUMNS, rows, folder)
