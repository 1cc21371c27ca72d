"""Levels out of range against NOAA's quality flags, and against a plain loop."""

from __future__ import annotations

import csv

import pytest

import anabranch as ab
from tests.apps.loading import ENGINES, load_app

SUSPECT = "3"


@pytest.fixture(scope="module")
def predicate_filter():
    return load_app("predicate_filter")


@pytest.fixture(scope="module")
def sample(predicate_filter, tmp_path_factory):
    return predicate_filter.sample_file(tmp_path_factory.mktemp("sample"))


def expected(path):
    """
    In whole tenths of millimetres, so without any rounding.
    """
    for row in csv.DictReader(path.read_text().splitlines()):
        level = round(float(row["sea_surface_height_above_sea_level"]) * 10_000)
        beyond = max(level - 30_000, 0) + min(level + 10_000, 0)
        if beyond:
            severity = sorted((1, abs(beyond) // 5_000 + 1, 3))[1]
            time = int(row["timestamp"])
            yield time, level, beyond, severity, time + 7200 * severity


@pytest.mark.parametrize("on", ENGINES)
def test_warnings_of_the_sample_are_those_of_a_loop(predicate_filter, sample, on):
    sink = predicate_filter.program(sample)

    ab.run(sink, on=on)

    wanted = list(expected(sample))
    assert {1, 2, 3} == {severity for *_, severity, _ in wanted}
    assert wanted == [
        (w.timestamp, round(w.level_m * 1e4), round(w.excess_m * 1e4), *w[3:])
        for w in sink.items
    ]


def test_real_levels_out_of_range_are_those_with_the_flag(predicate_filter, data):
    folder = data / "sensors"
    flags = (folder / "expected_noaa_water_level_flags.csv").read_text().splitlines()
    sink = predicate_filter.program(folder / "noaa_water_level.csv")

    ab.run(sink, on="sequential")

    wanted = [
        (int(row["timestamp"]), float(row["value"]))
        for row in csv.DictReader(flags)
        if row["gross_range"] == SUSPECT
    ]
    assert wanted == [(one.timestamp, one.level_m) for one in sink.items]
