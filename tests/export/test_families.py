"""The names under which metrics are exported: documented, and drawn by the dashboard."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.export.families import BOUNDS_S, distribute, list_families
from anabranch.metrics.job_metrics import ElementCounters, Metrics
from anabranch.metrics.latency import LatencySummary

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "docs" / "grafana.json"
SOME = LatencySummary(items=10, p50_ms=2.0, p95_ms=5.0, p99_ms=7.0, max_ms=9.0)
EVERYTHING = Metrics(
    "spark",
    "running",
    12.5,
    read={"kafka": 100},
    delivered={"to_kafka": 90},
    failed={"parse": 3},
    recent_latency=SOME,
    latency_counts=((2.0, 9), (9.0, 1)),
    degrees={"r0": 4},
    elements={"e0": ElementCounters(2, (5, 5), waiting=(3, 4), limit=(8, 8))},
    ports=("slow[0]",),
    epochs=7,
    epoch_s=(0.5, 0.25),
    epoch_items=(1000, 900),
    in_columns={"parse": 0.75},
    backlog=10,
    cuts=("slow",),
)


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_every_name_is_documented_and_no_other():
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(anabranch_\w+)`", page, re.MULTILINE))

    assert documented == {f.prometheus_name for f in list_families(EVERYTHING)}


def test_the_dashboard_draws_only_what_is_exported():
    exported = {family.prometheus_name for family in list_families(EVERYTHING)}
    drawn = {
        re.sub(r"_bucket$", "", name)
        for expression in expressions()
        for name in re.findall(r"anabranch_\w+", expression)
    }

    assert drawn <= exported
    assert len(drawn) > 10


def test_what_an_engine_does_not_measure_is_left_out():
    bare = Metrics("sequential", "finished", 1.0, read={"a": 2}, delivered={"b": 2})

    assert [
        "anabranch.job.status",
        "anabranch.job.elapsed",
        "anabranch.items.read",
        "anabranch.items.delivered",
        "anabranch.decisions",
    ] == [family.name for family in list_families(bare)]


def test_the_status_is_one_of_four():
    (status,) = [
        family
        for family in list_families(EVERYTHING)
        if family.name == "anabranch.job.status"
    ]

    assert {"running": 1, "finished": 0, "stopped": 0, "failed": 0} == {
        point.labels["status"]: point.value for point in status.points
    }


def test_each_latency_is_counted_once_at_the_bound_above_it():
    latencies = [(0.05, 1), (0.1, 2), (0.11, 4), (500_000.0, 8), (700_000.0, 16)]

    made = distribute(latencies)

    assert 31 == made.items == sum(made.counts)
    assert {0.0001: 3, 0.00025: 4, 500.0: 8} == {
        bound: count
        for bound, count in zip(BOUNDS_S, made.counts, strict=False)
        if count
    }
    assert 16 == made.counts[-1]


def test_every_logger_is_documented_and_no_other():
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    (logs,) = re.findall(r"### Logs\n(.*?)\n###", page, re.DOTALL)
    sources = (ROOT / "src" / "anabranch").rglob("*.py")
    texts = [path.read_text(encoding="utf-8") for path in sources]
    used = {
        name for text in texts for name in re.findall(r'= logger_of\("(\w+)"\)', text)
    }

    assert used == set(re.findall(r"`anabranch\.(\w+)`", logs))


LIVE = {  # what a live job has on every engine, if an item fails and a bound is set
    *("job_status", "job_elapsed_seconds", "items_read_total", "backlog_items"),
    *("items_delivered_total", "items_failed_total", "decisions_total"),
    *("latency_seconds", "latency_recent_seconds"),
}
ONLY = {
    "local": {"element_waiting_items", "element_limit_items", "region_replicas"},
    "spark": {"epochs_total", "epoch_duration_seconds", "epoch_items"},
}


def fail_once(n: int) -> int:
    if n == 17:
        msg = "no"
        raise ValueError(msg)
    return n


def exported_by(engine: str) -> set[str]:
    load = ab.testing.constant(400, seconds=0.3)
    sink = ab.testing.offered(load).map(fail_once).for_each(abs)
    goal = ab.latency("1 s")
    job = ab.start(sink, on=engine, goal=goal, on_error="skip")
    found = {family.prometheus_name for family in list_families(job.metrics())}
    job.wait()
    found |= {family.prometheus_name for family in list_families(job.metrics())}
    return {name.removeprefix("anabranch_") for name in found}


def test_a_live_job_exports_its_metrics_on_local():
    assert exported_by("local") >= LIVE | ONLY["local"]


@pytest.mark.spark
def test_a_live_job_exports_its_metrics_on_spark():
    assert exported_by("spark") >= LIVE | ONLY["spark"]
