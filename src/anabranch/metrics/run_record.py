"""The record of a run, which its dashboard shows: lines of plain data in a growing
file.

The run is sampled about once a second. Each sample becomes a few lines: the
measurements, and each adaptation that is new or whose effect has become known. The
lines of a run, read back, are its `Story`; so an old run is shown just like a live one.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, TypeAlias

from anabranch.metrics.job_metrics import EpochTrace, Metrics
from anabranch.metrics.limit import find_limit, mean_busy

Line: TypeAlias = Mapping[str, Any]  # what kind of line -> its data
Sample: TypeAlias = dict[str, Any]

MOST_SAMPLES = 600  # points in a chart; in a long run, neighbours are merged
MOST_EPOCHS = 120  # in the timeline, the last ones


@dataclass(frozen=True)
class JobSnapshot:
    """A job at one moment; `changes` are its adaptations as plain data."""

    status: str
    metrics: Metrics
    changes: Sequence[Mapping[str, Any]] = ()
    error: str | None = None


def lines_of(look: JobSnapshot, before: JobSnapshot | None = None) -> list[Line]:
    """Return the news since the previous snapshot.

    >>> first = JobSnapshot("running", Metrics("sequential", "running", 1.0, {"a": 5}))
    >>> lines_of(first)
    [{'sample': {'at_s': 1.0, 'read': 5, 'delivered': 0, 'items_of': {'a': 5}}}]
    >>> lines_of(JobSnapshot("failed", first.metrics, error="broken"), first)[1:]
    [{'end': {'status': 'failed', 'error': 'broken'}}]
    """
    known = () if before is None else before.changes
    lines: list[Line] = [{"sample": _sample(look, before)}]
    failures = look.metrics.failures
    if failures and (before is None or failures != before.metrics.failures):
        lines.append({"failures": list(failures)})
    for place, (now, then) in enumerate(zip_longest(look.changes, known)):
        if now is not None and now != then:
            lines.append({"change": {"place": place, **now}})
    if look.status != "running":
        lines.append({"end": {"status": look.status, "error": look.error}})
    return lines


def _sample(look: JobSnapshot, before: JobSnapshot | None) -> Sample:
    """Return the measurements; a latency is that of the items since the last
    snapshot.
    """
    metrics = look.metrics
    sample: Sample = {
        "at_s": round(metrics.elapsed_s, 3),
        "read": sum(metrics.read.values()),
        "delivered": sum(metrics.delivered.values()),
    }
    by_operator = {**metrics.read, **metrics.delivered}
    if by_operator:
        sample["items_of"] = by_operator
    if metrics.failed:
        sample["failed"] = dict(metrics.failed)
    earlier = {} if before is None else dict(before.metrics.latency_counts)
    counts = [(ms, items - earlier.get(ms, 0)) for ms, items in metrics.latency_counts]
    if items := sum(count for _, count in counts):
        sample["items"] = items
        sample["p50_ms"] = quantile_ms(counts, 0.5)
        sample["p99_ms"] = quantile_ms(counts, 0.99)
    backlog = backlog_of(metrics)
    if backlog is not None:
        sample["backlog"] = backlog
    if metrics.load:
        sample["load"] = _load(metrics, None if before is None else before.metrics)
    if metrics.shares:
        sample["shares"] = {
            name: round(share, 3) for name, share in metrics.shares.items()
        }
    if metrics.hot_keys:
        sample["hot_keys"] = {
            region: list(keys) for region, keys in metrics.hot_keys.items()
        }
    sample |= _sample_engine(metrics)
    return sample


def _sample_engine(metrics: Metrics) -> Sample:
    """Return the measurements that are specific to an engine."""
    found: Sample = {}
    match metrics.engine:
        case "local":
            found["degrees"] = dict(metrics.degrees)
            found["ports"] = list(metrics.ports)
            found["waiting"] = {
                name: sum(one.waiting) for name, one in metrics.elements.items()
            }
        case "spark":
            found["epochs"] = metrics.epochs
            if metrics.epoch_s:
                found["epoch_s"] = round(metrics.epoch_s[-1], 3)
                found["epoch_items"] = metrics.epoch_items[-1]
            if metrics.in_columns:
                found["in_columns"] = dict(metrics.in_columns)
            if metrics.epoch_done:
                found["epoch_rows"] = metrics.epoch_rows
                found["epoch_done"] = dict(metrics.epoch_done)
            found["degrees"] = dict(metrics.degrees)
            found["cuts"] = list(metrics.cuts)
            if metrics.spark_ui is not None:
                found["spark_ui"] = metrics.spark_ui
    return found


def _load(metrics: Metrics, before: Metrics | None) -> dict[str, Sample]:
    """Return the load of each operator since the last snapshot.

    >>> from anabranch.metrics.job_metrics import OperatorLoad
    >>> first = Metrics("local", "running", 1.0, load={"a": OperatorLoad("a", 2)})
    >>> load = {"a": OperatorLoad("a", 2, items=30, work_s=1.5, skew=1.2)}
    >>> _load(Metrics("local", "running", 2.0, load=load), first)
    {'a': {'element': 'a', 'replicas': 2, 'skew': 1.2, 'busy': 0.75, 'items': 30, 'per_s': 30}}
    """
    period_s = metrics.elapsed_s - (0.0 if before is None else before.elapsed_s)
    found: dict[str, Sample] = {}
    for name, now in metrics.load.items():
        then = None if before is None else before.load.get(name)
        if then is None or then.work_s > now.work_s:  # its element has been replaced
            then = replace(now, items=0, work_s=0.0)
        one: Sample = {
            "element": now.element,
            "replicas": now.replicas,
            "skew": round(now.skew, 2),
        }
        if period_s > 0:
            one["busy"] = _share(now.work_s - then.work_s, period_s * now.replicas)
        if now.items is not None:
            one["items"] = now.items
            if period_s > 0:
                one["per_s"] = round((now.items - (then.items or 0)) / period_s)
        if now.waiting:
            one |= {"waiting": now.waiting, "full": round(min(1.0, now.full), 3)}
        if now.keys is not None:
            one["keys"] = now.keys
        if now.state_bytes is not None:
            one["state_bytes"] = now.state_bytes
        found[name] = one
    return found


def _share(part: float, whole: float) -> float:
    return round(max(0.0, min(1.0, part / whole)), 3)


def epoch_line(trace: EpochTrace) -> Line:
    """Return the line of a finished epoch.

    >>> epoch_line(EpochTrace(3, 17.0, (("read", 0.5), ("run", 1.0)), 40))
    {'epoch': {'number': 3, 'began_s': 17.0, 'items': 40, 'phases': {'read': 0.5, 'run': 1.0}}}
    """
    phases = {name: round(seconds, 4) for name, seconds in trace.phases}
    return {
        "epoch": {
            "number": trace.number,
            "began_s": round(trace.began_s, 3),
            "items": trace.items,
            "phases": phases,
        }
    }


def quantile_ms(counts: Sequence[tuple[float, int]], share: float) -> float:
    """Return the latency at a quantile of the items.

    >>> quantile_ms([(1.0, 98), (5.0, 1), (9.0, 1)], 0.99)
    5.0
    """
    rank, below = share * sum(items for _, items in counts), 0
    for ms, items in counts:
        below += items
        if items and below >= rank:
            return ms
    return 0.0


def backlog_of(metrics: Metrics) -> int | None:
    """Return the backlog: items at the sources, or at least between threads.

    >>> from anabranch.metrics.job_metrics import ElementCounters
    >>> elements = {"a": ElementCounters(2, (9, 9), waiting=(3, 4), limit=(8, 8))}
    >>> backlog_of(Metrics("local", "running", 1.0, elements=elements))
    7
    """
    known: float | None = metrics.backlog
    if known is None and metrics.steps:  # a latency goal counts arrivals
        known = metrics.steps[-1].backlog
    if known is not None:
        return round(known)
    if metrics.engine == "local":
        return sum(sum(one.waiting) for one in metrics.elements.values())
    return None


@dataclass
class Story:
    """A run, read from the lines of its record.

    >>> story = Story()
    >>> story.add({"program": {"on": "local"}})
    >>> story.add({"sample": {"at_s": 1.0, "read": 0, "delivered": 0}})
    >>> story.add({"sample": {"at_s": 3.0, "read": 50, "delivered": 40}})
    >>> story.status, story.to_dict()["series"]["read_per_s"]
    ('running', [[3.0, 25.0]])
    """

    program: Mapping[str, Any] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    changes: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    epochs: deque[Mapping[str, Any]] = field(
        default_factory=lambda: deque(maxlen=MOST_EPOCHS)
    )
    failures: Sequence[str] = ()
    status: str = "running"
    error: str | None = None
    lines: int = 0

    def add(self, line: Line) -> None:
        """Add the next line; a line of an unknown kind is ignored."""
        self.lines += 1
        match line:
            case {"program": dict(program)}:
                self.program = program
            case {"sample": dict(sample)}:
                self.samples.append(sample)
                if len(self.samples) > MOST_SAMPLES:
                    self.samples = thin(self.samples)
            case {"change": dict(change)}:
                self.changes[change["place"]] = change
            case {"epoch": dict(epoch)}:
                self.epochs.append(epoch)
            case {"failures": list(failures)}:
                self.failures = failures
            case {"end": dict(end)}:
                self.status, self.error = end["status"], end["error"]

    def to_dict(self) -> dict[str, Any]:
        """Return the changing part of the run as plain data, ready for JSON."""
        return {
            "lines": self.lines,
            "status": self.status,
            "error": self.error,
            "now": self._now(),
            "series": {
                "read_per_s": rates(self.samples, "read"),
                "delivered_per_s": rates(self.samples, "delivered"),
                "p50_ms": points(self.samples, "p50_ms"),
                "p99_ms": points(self.samples, "p99_ms"),
                "backlog": points(self.samples, "backlog"),
                "degrees": points(self.samples, "degrees"),
                "epoch_s": points(self.samples, "epoch_s"),
            },
            "changes": [change for _, change in sorted(self.changes.items())],
            "epochs": self._epochs_since_start(),
            "failures": list(self.failures),
            "limit": find_limit(self.program, self.samples, self.epochs, self.status),
            "summary": self.summarize(),
        }

    def _now(self) -> Sample:
        """Return the last sample; after the end, how busy elements were in all.

        >>> a = {"element": "a", "replicas": 1, "skew": 1.0}
        >>> load, busy = {"a": {**a, "busy": 0.0}}, {"a": {**a, "busy": 0.9}}
        >>> sample = {"at_s": 1.0, "read": 5, "delivered": 5}
        >>> story = Story(samples=[{**sample, "load": busy}, {**sample, "load": load}])
        >>> story.add({"end": {"status": "finished", "error": None}})
        >>> story.to_dict()["now"]["load"]["a"]["busy"]
        0.45
        """
        last = self.samples[-1] if self.samples else {}
        if self.status == "running" or "load" not in last:
            return last
        busy = mean_busy([one for one in self.samples if one["read"]])
        load = {
            name: {**one, "busy": round(busy[one["element"]], 3)}
            if one["element"] in busy
            else one
            for name, one in last["load"].items()
        }
        return {**last, "load": load}

    def _epochs_since_start(self) -> list[dict[str, Any]]:
        """Return the epochs with their start times in the run."""
        started_s = self.program.get("started", 0.0)
        return [
            {**one, "began_s": round(max(0.0, one["began_s"] - started_s), 3)}
            for one in self.epochs
        ]

    def summarize(self) -> dict[str, float]:
        """Return the figures by which two runs are compared.

        >>> story = Story()
        >>> story.add({"sample": {"at_s": 2.0, "read": 50, "delivered": 40, "epochs": 3}})
        >>> story.summarize()
        {'seconds': 2.0, 'read': 50, 'delivered': 40, 'read_per_s': 25.0, 'epochs': 3}
        """
        if not self.samples:
            return {}
        last = self.samples[-1]
        found = {name: last[name] for name in ("read", "delivered")}
        seconds = last["at_s"]
        shown = {"seconds": seconds, **found}
        shown["read_per_s"] = round(found["read"] / seconds, 3) if seconds else 0.0
        for name in ("p50_ms", "p99_ms"):
            pairs = [(one[name], one["items"]) for one in self.samples if name in one]
            if pairs:
                shown[name] = quantile_ms(sorted(pairs), 0.5)
        if any("backlog" in one for one in self.samples):
            shown["backlog"] = max(one.get("backlog") or 0 for one in self.samples)
        if "degrees" in last:
            shown["replicas"] = sum(last["degrees"].values())
        if "epochs" in last:
            shown["epochs"] = last["epochs"]
        return shown


def points(samples: Sequence[Sample], name: str) -> list[list[Any]]:
    """Return the measurements with their times, where there are any.

    >>> points([{"at_s": 1.0}, {"at_s": 2.0, "backlog": 7}], "backlog")
    [[2.0, 7]]
    """
    return [[one["at_s"], one[name]] for one in samples if name in one]


def rates(samples: Sequence[Sample], name: str) -> list[list[float]]:
    """Return the growth of a count per second, from sample to sample.

    If items come in epochs it is measured from the end of one to that of the next.

    >>> begun = {"at_s": 0.0, "read": 0, "epochs": 0}
    >>> between = {"at_s": 1.0, "read": 0, "epochs": 0}
    >>> rates([begun, between, {"at_s": 4.0, "read": 80, "epochs": 1}], "read")
    [[4.0, 20.0]]
    """
    kept = [
        one
        for place, one in enumerate(samples)
        if "epochs" not in one
        or place == 0
        or one["epochs"] != samples[place - 1]["epochs"]
    ]
    return [
        [two["at_s"], round((two[name] - one[name]) / (two["at_s"] - one["at_s"]), 3)]
        for one, two in pairwise(kept)
        if two["at_s"] > one["at_s"]
    ]


def thin(samples: Sequence[Sample]) -> list[Sample]:
    """Return half as many samples by merging neighbours; the last stays unchanged.

    Of their 99% latencies the worse counts, of the medians that of more items.

    >>> one = {"at_s": 1.0, "read": 5, "items": 5, "p50_ms": 1.0, "p99_ms": 9.0}
    >>> two = {"at_s": 2.0, "read": 8, "items": 3, "p50_ms": 2.0, "p99_ms": 4.0}
    >>> thin([one, two, {"at_s": 3.0, "read": 9}])[0]
    {'at_s': 2.0, 'read': 8, 'items': 8, 'p50_ms': 1.0, 'p99_ms': 9.0}
    """
    *earlier, last = samples
    pairs = zip(earlier[::2], earlier[1::2], strict=False)
    odd = earlier[-1:] if len(earlier) % 2 else []
    return [*(_together(one, two) for one, two in pairs), *odd, last]


def _together(one: Sample, two: Sample) -> Sample:
    made = {**one, **two}
    if "items" in one and "items" in two:
        more = one if one["items"] >= two["items"] else two
        made["items"] = one["items"] + two["items"]
        made["p50_ms"] = more["p50_ms"]
        made["p99_ms"] = max(one["p99_ms"], two["p99_ms"])
    return made


def append(path: Path, lines: Iterable[Line]) -> None:
    """Append lines atomically: a reader sees a whole line or nothing of it."""
    text = "".join(f"{json.dumps(line, default=str)}\n" for line in lines)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


class Follower:
    """Reads the record of a run while the run writes it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "run.jsonl"
    >>> append(path, [{"end": {"status": "finished", "error": None}}])
    >>> Follower(path).story().status
    'finished'
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._story = Story()
        self._offset = 0

    def story(self) -> Story:
        """Return the run as recorded so far; an incomplete last line is left for later."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.splitlines():
            self._story.add(json.loads(line))
        return self._story
