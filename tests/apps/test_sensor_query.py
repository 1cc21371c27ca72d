"""Answers to sensor queries against every reading compared with every query."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as ab
from tests.apps.loading import ENGINES, load_app


@pytest.fixture(scope="module")
def sensor_query():
    return load_app("sensor_query")


@pytest.fixture(scope="module")
def sample(sensor_query, tmp_path_factory):
    return sensor_query.sample_file(tmp_path_factory.mktemp("sample"))


def on_the_globe(items):
    """
    As points in space; then the angle between two gives their distance.
    """
    north = np.radians([item.latitude for item in items])
    east = np.radians([item.longitude for item in items])
    return np.stack(
        [np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)]
    )


def expected(readings, queries):
    angles = np.arccos(on_the_globe(queries).T @ on_the_globe(readings))
    read = np.array([reading.ts for reading in readings])
    asked = np.array([[query.ts] for query in queries])
    radius = np.array([[query.radius_km] for query in queries])
    recent = (read <= asked) & (asked - read < 7200)
    rows, columns = np.nonzero(recent & (6371 * angles <= radius))
    return [
        (queries[row].number, readings[column].ts, readings[column].beach)
        for row, column in zip(rows, columns, strict=True)
    ]


def assert_right(sensor_query, path, queries, on):
    sink = sensor_query.program(path, queries)

    ab.run(sink, on=on)

    readings = list(sensor_query.in_time_order(path))
    wanted = expected(readings, list(sensor_query.asking(path, queries)))
    assert wanted
    assert wanted == [(one.query, one.read, one.beach) for one in sink.items]


@pytest.mark.parametrize("on", ENGINES)
def test_answers_of_the_sample_are_those_of_all_pairs(sensor_query, sample, on):
    assert_right(sensor_query, sample, 60, on)


def test_answers_of_real_buoys_are_those_of_all_pairs(sensor_query, data, tmp_path):
    """
    Of some of the readings, since all pairs are many.
    """
    rows = (data / "sensors" / "chicago_beach_water_sensors.csv").read_text()
    some = tmp_path / "some.csv"
    some.write_text("\n".join(rows.splitlines()[:8000]))

    assert_right(sensor_query, some, 400, "sequential")


def test_readings_without_a_value_are_left_out(sensor_query, sample):
    rows = sample.read_text().splitlines()[1:]
    whole = [row for row in rows if all(row.split(","))]

    assert len(rows) > len(whole)
    assert len(whole) == len(list(sensor_query.in_time_order(sample)))
