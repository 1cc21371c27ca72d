"""Linear Road against the benchmark's answers, and against a look at the whole day."""

from __future__ import annotations

import csv
from collections import defaultdict
from itertools import chain, groupby, pairwise

import pytest

import anabranch as ab
from tests.apps.loading import ENGINES, load_app

NAMES = ["kind", "time", "car", "speed", "xway", "lane", "dir", "seg", "pos", "qid"]


@pytest.fixture(scope="module")
def linear_road():
    return load_app("linear_road")


@pytest.fixture(scope="module")
def sample(linear_road, tmp_path_factory):
    return linear_road.sample_file(tmp_path_factory.mktemp("sample"))


def answers(sinks, on):
    """
    In the notation of the benchmark's validator.
    """
    ab.run(*sinks, on=on)
    tolls, alerts, balances = (sink.items for sink in sinks)
    return (
        [f"0,{t.car},{t.time},{t.speed},{t.toll}" for t in tolls],
        [f"1,{t.time},{t.xway},{t.accident},{t.dir},{t.car}" for t in alerts],
        [f"2,{b.time},{b.time},{b.qid},{b.balance}" for b in balances],
    )


def accidents(reports):
    """
    Yield (dir, seg, first minute, last minute), from the times each car stood still.
    """
    stops = defaultdict(list)
    for car in sorted({r["car"] for r in reports}):
        mine = [r for r in reports if r["car"] == car]
        runs = [list(run) for _, run in groupby(mine, lambda r: (r["lane"], r["pos"]))]
        for number, run in enumerate(runs):
            if len(run) >= 4:
                after = runs[number + 1][0]["time"] if number + 1 < len(runs) else 10**6
                place = run[0]["dir"], run[0]["seg"], run[0]["lane"], run[0]["pos"]
                stops[place].append((run[3]["time"], after))
    for (way, seg, *_), spans in stops.items():
        starts, ends = sorted(s for s, _ in spans), sorted(e for _, e in spans)
        if len(spans) >= 2:
            yield way, seg, starts[1] // 60, ends[-2] // 60


def expected(path):
    """
    Every answer from all rows at once, not from states that go along.
    """
    rows = [
        dict(zip(NAMES, map(int, row), strict=False))
        for row in csv.reader(path.read_text().splitlines())
    ]
    reports = [r for r in rows if r["kind"] == 0]
    crashes = list(accidents(reports))
    tolls, alerts, paid, due = [], [], defaultdict(int), defaultdict(int)
    balances, before = [], {}
    for r in rows:
        if r["kind"] == 2:
            balances.append(f"2,{r['time']},{r['time']},{r['qid']},{paid[r['car']]}")
            continue
        last = before.get(r["car"])
        before[r["car"]] = r
        if r["lane"] == 4 or (last and last["lane"] != 4 and last["seg"] == r["seg"]):
            continue
        minute = r["time"] // 60
        here = [o for o in reports if (o["dir"], o["seg"]) == (r["dir"], r["seg"])]
        speeds = [
            o["speed"] for o in here if minute - 5 <= o["time"] // 60 <= minute - 1
        ]
        cars = {o["car"] for o in here if o["time"] // 60 == minute - 1}
        speed = (2 * sum(speeds) + len(speeds)) // (2 * len(speeds)) if speeds else 0
        ahead = [
            abs(seg - r["seg"])
            for way, seg, first, last_minute in crashes
            if way == r["dir"]
            and 0 <= (seg - r["seg"]) * (1 - 2 * way) <= 4
            and first < minute <= last_minute
        ]
        toll = 2 * (len(cars) - 50) ** 2 if speed < 40 and len(cars) > 50 else 0
        if ahead:
            toll, seg = 0, r["seg"] + min(ahead) * (1 - 2 * r["dir"])
            alerts.append(f"1,{r['time']},{r['xway']},{seg},{r['dir']},{r['car']}")
        tolls.append(f"0,{r['car']},{r['time']},{speed},{toll}")
        paid[r["car"]] += due[r["car"]]
        due[r["car"]] = toll
    return tolls, alerts, balances


@pytest.fixture(scope="module")
def wanted(sample):
    return expected(sample)


@pytest.mark.parametrize("on", ENGINES)
def test_answers_on_the_sample_are_those_of_a_look_at_all_rows(
    linear_road, sample, wanted, on
):
    assert wanted == answers(linear_road.program(sample), on)


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

    got = answers(linear_road.program(folder / "mitsim_first300s.dat"), "sequential")

    assert [line for line in wanted if line[0] in "012"] == sorted(chain(*got))
