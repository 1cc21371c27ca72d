"""The examples give what an independent computation gives, on every engine."""

from __future__ import annotations

import csv
import importlib.util
import json
import statistics
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.epochs.transport.modules import send_by_value
from anabranch.testing.assertions import Setting, make_graph, run_sample, take_sample

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = (
    "find_anomalies",
    "clean_requests",
    "match_payments",
    "score_model",
    "find_visits",
)


@pytest.fixture
def load():
    """Load an example as `anabranch run` does."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        send_by_value(module)
        return module

    yield load
    for name in EXAMPLES:
        sys.modules.pop(name, None)


def outputs(module):
    graph = make_graph(module.program)
    found = run_sample(graph, take_sample(graph), Setting("sequential"))
    ((_, items),) = found.items.items()
    return items


def rows(name):
    with (FOLDER / "data" / name).open() as file:
        return list(csv.DictReader(file))


def test_anomalies_are_those_that_were_put_in(load):
    found = outputs(load("find_anomalies"))
    by_device = {}
    for row in rows("readings.csv"):
        by_device.setdefault(row["device"], []).append(row)
    expected = []
    for readings in by_device.values():
        usual = []
        for row in readings:
            value = float(row["celsius"])
            if len(usual) >= 20 and abs(value - statistics.mean(usual)) > 3 * (
                statistics.pstdev(usual)
            ):
                expected.append((int(row["ts"]), row["device"]))
            else:
                usual.append(value)

    assert {240, 411, 533} <= {ts for ts, _ in expected}
    assert sorted(expected) == [(one.ts, one.device) for one in found]


def test_each_request_is_there_once_with_its_team(load):
    found = outputs(load("clean_requests"))
    teams = {"cart": "checkout", "item": "catalogue", "login": "accounts"}
    seen, expected = set(), []
    for line in (FOLDER / "data" / "requests.jsonl").read_text().splitlines():
        row = json.loads(line)
        if (row["host"], row["id"]) not in seen:
            seen.add((row["host"], row["id"]))
            team = teams.get(row["path"].split("/")[1], "front")
            expected.append((*row.values(), team))

    assert expected == [tuple(one) for one in found]
    assert {"checkout", "catalogue", "accounts", "front"} == {one.team for one in found}


def test_every_order_is_settled_or_told_to_be_open(load):
    found = {one.order: tuple(one) for one in outputs(load("match_payments"))}
    paid = {row["order"]: row for row in rows("payments.csv")}
    expected = {}
    for row in rows("orders.csv"):
        order, owed = row["order"], int(row["cents"])
        payment = paid.get(order)
        expected[order] = (
            (order, -1, owed)
            if payment is None
            else (
                order,
                int(payment["ts"]) - int(row["ts"]),
                owed - int(payment["cents"]),
            )
        )

    assert expected == found


def test_the_model_expects_half_a_degree_more_each_hundred_readings(load):
    found = outputs(load("score_model"))

    assert [round(20 + one.ts / 200, 6) for one in found] == [
        pytest.approx(one.expected, abs=1e-6) for one in found
    ]
    assert len(rows("readings.csv")) == len(found)


def test_a_visit_ends_with_half_an_hour_of_silence(load):
    found = outputs(load("find_visits"))
    by_user = {}
    for line in (FOLDER / "data" / "clicks.jsonl").read_text().splitlines():
        row = json.loads(line)
        at = datetime.fromisoformat(row["at"])
        by_user.setdefault(row["user"], []).append((at, row["page"]))
    expected = set()
    for user, clicks in by_user.items():
        visits = []
        for at, page in sorted(clicks):
            if not visits or at - visits[-1][-1][0] >= timedelta(minutes=30):
                visits.append([])
            visits[-1].append((at, page))
        for visit in visits:
            minutes = (visit[-1][0] - visit[0][0]).total_seconds() / 60
            paid = any(page == "/pay" for _, page in visit)
            expected.add((user, visit[0][0], minutes, len(visit), paid))

    assert len(found) > len(by_user)
    assert expected == set(found)
    ends = [one.began + timedelta(minutes=one.minutes) for one in found]
    assert sorted(ends) == ends


@pytest.mark.parametrize("name", EXAMPLES[:-1])  # the last one follows a clock
def test_the_work_of_an_example_is_parallel(load, name):
    made = ab.compile(load(name).program, on="spark")
    parallel = {one for region in made.plan.regions for one in region.operators}

    assert parallel & {"judge", "first", "match", "score"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_the_same_on_the_local_engine(load, name):
    ab.testing.assert_same_everywhere(lambda: load(name).program, degrees=(1, 3))


@pytest.mark.spark
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_the_same_on_spark(load, name):
    ab.testing.assert_same_everywhere(
        lambda: load(name).program, on=("spark",), degrees=(2,), epoch_items=(150,)
    )
