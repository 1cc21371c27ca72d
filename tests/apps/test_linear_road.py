"""Linear Road against the benchmark's answers, and against a look at the whole day."""

from __future__ import annotations

import gzip
from itertools import chain, pairwise

import pytest

import anabranch as ab
from tests.apps.linear_road_rules import Answers, answer, read_rows
from tests.apps.loading import ENGINES, load_app


@pytest.fixture(scope="module")
def linear_road():
    return load_app("linear_road")


@pytest.fixture(scope="module")
def sample(linear_road, tmp_path_factory):
    return linear_road.sample_file(tmp_path_factory.mktemp("sample"))


def run_app(sinks, on="sequential"):
    """
    In the notation of the benchmark's validator.
    """
    ab.run(*sinks, on=on)
    tolls, alerts, balances = (sink.items for sink in sinks)
    return Answers(
        [f"0,{t.car},{t.time},{t.speed},{t.toll}" for t in tolls],
        [f"1,{t.time},{t.xway},{t.accident},{t.dir},{t.car}" for t in alerts],
        [f"2,{b.time},{b.time},{b.qid},{b.balance}" for b in balances],
    )


@pytest.fixture(scope="module")
def wanted(sample):
    return answer(read_rows(sample.read_text()))


@pytest.mark.parametrize("on", ENGINES)
def test_answers_on_the_sample_are_those_of_a_look_at_all_rows(
    linear_road, sample, wanted, on
):
    assert wanted == run_app(linear_road.program(sample), on)


def test_the_sample_has_tolls_accidents_that_end_and_balances(wanted):
    tolls, alerts, balances = wanted

    assert any(not toll.endswith(",0") for toll in tolls)
    assert any(not balance.endswith(",0") for balance in balances)
    assert alerts
    times = sorted(int(alert.split(",")[1]) for alert in alerts)
    assert times[-1] < 500
    assert all(a <= b for a, b in pairwise(times))


def test_tolls_and_alerts_are_those_of_the_benchmark(linear_road, data):
    folder = data / "linear_road"
    wanted = (folder / "mitsim_first300s.expected.txt").read_text().split()

    got = run_app(linear_road.program(folder / "mitsim_first300s.dat"))

    assert [line for line in wanted if line[0] in "012"] == sorted(chain(*got))


def ask_every_car(text):
    """
    Append a question for the final balance of each car, with the car as its number.
    """
    rows = read_rows(text)
    cars = sorted({row.car for row in rows})
    asked = "".join(f"2,9999,{car}{',-1' * 6},{car}{',-1' * 5}\n" for car in cars)
    return text + asked


def test_every_car_ends_with_the_balance_of_the_rules(linear_road, data, tmp_path):
    """
    On eleven segments of the file of 15 minutes: three cars cross from a segment with a
    toll straight into an exit lane there.
    """
    name = "lr_full_first15min.dat.gz"
    with gzip.open(data / "linear_road" / name, "rt") as lines:
        kept = [line for line in lines if is_near_segment_89(line)]
    text = ask_every_car("".join(kept))
    (tmp_path / "rows.dat").write_text(text)

    got = run_app(linear_road.program(tmp_path / "rows.dat"))

    wanted = answer(read_rows(text))
    assert wanted.balances == got.balances
    assert wanted.tolls == got.tolls
    final = [line for line in wanted.balances if line.startswith("2,9999,")]
    assert 5 <= sum(not line.endswith(",0") for line in final)


def is_near_segment_89(line):
    kind, *_, way, seg = line.split(",", 8)[:8]
    return kind == "0" and way == "0" and 84 <= int(seg) <= 94


JAM = [(0, 0, 100 + n, 10, 0, 1, 0, 10, 52800 + n) for n in range(60)]
"""Sixty slow cars in segment 10: in the minute after, it costs 2 * (60 - 50) ** 2."""

TRIPS = {
    "a car that stays has paid nothing": ([(10, 1), (10, 2)], 0),
    "a car that crosses pays for the segment it left": ([(10, 1), (11, 1)], 200),
    "so does one that crosses straight into an exit lane": ([(10, 1), (11, 4)], 200),
    "it pays once, however often it reports there": (
        [(10, 1), (11, 4), (11, 4), (11, 4)],
        200,
    ),
    "it pays once, also if it comes again": (
        [(10, 1), (11, 4), (20, 0), (20, 1), (21, 1)],
        200,
    ),
    "who takes the exit of the segment itself pays nothing": ([(10, 1), (10, 4)], 0),
    "nor on the next trip": ([(10, 1), (10, 4), (20, 0), (20, 1), (21, 1)], 0),
    "nor on a next trip that begins in the exit's segment and ends there": (
        [(20, 1), (20, 4), (20, 0), (20, 4)],
        0,
    ),
    "who comes back to the segment pays for the trip on which it was crossed": (
        [(10, 1), (10, 4), (10, 0), (11, 1)],
        200,
    ),
    "reports that are missing change nothing": ([(10, 1), (14, 1)], 200),
}


@pytest.mark.parametrize(("trip", "paid"), TRIPS.values(), ids=TRIPS)
def test_what_a_trip_costs(linear_road, tmp_path, trip, paid):
    """
    Each trip is (segment, lane) every ten seconds, from the second minute on.
    """
    mine = [
        (0, 60 + 10 * n, 1, 30, 0, lane, 0, seg, seg * 5280 + n)
        for n, (seg, lane) in enumerate(trip)
    ]
    rows = [(*row, *[-1] * 6) for row in JAM + mine]
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    text += f"2,119,1{',-1' * 6},7{',-1' * 5}\n"
    (tmp_path / "rows.dat").write_text(text)

    got = run_app(linear_road.program(tmp_path / "rows.dat"))

    assert [f"2,119,119,7,{paid}"] == got.balances
    assert [f"2,119,119,7,{paid}"] == answer(read_rows(text)).balances
