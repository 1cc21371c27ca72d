"""The names under which metrics are exported: documented, and drawn by the dashboard."""

from __future__ import annotations

import json
import re
from pathlib import Path

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
