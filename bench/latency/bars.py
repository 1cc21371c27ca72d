"""What the latency of a run is held to: shares within the bound, and how it got there.

All items count, from birth. Steady is what begins 10 s after a change of the load; it is
shown, and no bar. A rise is a change to about
twice the load (1.5 to 2.5 times) for at least 10 s: it is seen with the first change of replicas after it,
and settled when 99% of the items from then on, until the next change, keep the bound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import isfinite
from typing import Any

import anabranch as ab
from bench.harness.timing import Claim
from bench.latency.report import hold, table

SETTLING_S = 10.0
RISE = (1.5, 2.5)
SHARE = 99.0
POINTS = 2.0  # below the best fixed number
REPLICAS = re.compile(r"(\d+) replica")
HEAD = [
    *("setting", "steady within", "all within", "p99 ms", "seen after"),
    *("settled after", "most replicas", "changes"),
]


@dataclass(frozen=True)
class Trace:
    """A load of constant parts (items a second, seconds), and the bound to keep."""

    parts: tuple[tuple[float, float], ...]
    bound_s: float

    @property
    def load(self):
        return ab.testing.steps(*self.parts)

    @property
    def ends_s(self) -> list[float]:
        return list(accumulate(seconds for _, seconds in self.parts))

    @property
    def steady(self) -> list[tuple[float, float]]:
        begins = [0.0, *self.ends_s]
        spans = [(a + SETTLING_S, b) for a, b in pairwise(begins)]
        return [(a, b) for a, b in spans if b > a]

    @property
    def rises(self) -> list[tuple[float, float]]:
        """When the load rose, and when it changed again."""
        return [
            (begins_s, begins_s + seconds)
            for ((before, _), (after, seconds)), begins_s in zip(
                pairwise(self.parts), self.ends_s, strict=False
            )
            if RISE[0] <= after / before <= RISE[1] and seconds >= SETTLING_S
        ]


@dataclass(frozen=True)
class Run:
    """One setting on a trace: when items were due, how long they took, what changed."""

    name: str
    pairs: Sequence[tuple[float, float]]
    first: int  # replicas, to begin with
    changes: Sequence[tuple[float, int]] = ()  # when, and to how many replicas
    epochs_s: Sequence[float] = ()  # when they ended; empty: seconds are counted

    @property
    def most(self) -> int:
        return max([self.first, *(degree for _, degree in self.changes)])

    @property
    def unit(self) -> str:
        return "epochs" if self.epochs_s else "s"

    def within(self, trace: Trace, spans=((0.0, 1e9),)) -> float:
        """Return the share of items due in some spans that kept the bound, in percent."""
        kept = [
            latency_s <= trace.bound_s
            for due_s, latency_s in self.pairs
            if any(a <= due_s < b for a, b in spans)
        ]
        return 100 * sum(kept) / max(1, len(kept))

    def p99_ms(self) -> float:
        late = sorted(latency_s for _, latency_s in self.pairs)
        return 1000 * late[int(0.99 * (len(late) - 1))]

    def degree_at(self, at_s: float) -> int:
        """Return how many replicas there were at a moment."""
        return [
            d for when_s, d in [(0.0, self.first), *self.changes] if when_s <= at_s
        ][-1]

    def seen(self, trace: Trace, fixed: Sequence[Run] = ()) -> float:
        """Return after how many seconds, or epochs, the slowest answer to a rise came.

        A rise needs none if the same number of replicas, fixed, keeps the bound in it.
        """
        found = [
            self._seen(*rise)
            for rise in trace.rises
            if not any(
                run.most == self.degree_at(rise[0])
                and run.within(trace, [rise]) >= SHARE
                for run in fixed
            )
        ]
        return max(found, default=0.0)

    def _seen(self, begin_s: float, end_s: float) -> float:
        answer_s = min(
            (at_s for at_s, _ in self.changes if begin_s < at_s < end_s), default=None
        )
        if answer_s is None:
            return float("inf")
        if self.epochs_s:
            return sum(begin_s < at_s <= answer_s for at_s in self.epochs_s)
        return answer_s - begin_s

    def settled(self, trace: Trace) -> int:
        """Return after how many seconds, or epochs, the rest of a rise kept the bound."""
        return max((self._settled(trace, *rise) for rise in trace.rises), default=0)

    def _settled(self, trace: Trace, begin_s: float, end_s: float) -> int:
        ends_s = self.epochs_s or [begin_s + n for n in range(int(end_s - begin_s) + 1)]
        ends_s = [begin_s, *(at_s for at_s in ends_s if begin_s < at_s < end_s)]
        for count, at_s in enumerate(ends_s):
            if self.within(trace, [(at_s, end_s)]) >= SHARE:
                return count
        return len(ends_s)

    def row(self, trace: Trace) -> list[Any]:
        return [
            self.name,
            self.within(trace, trace.steady),
            self.within(trace),
            self.p99_ms(),
            f"{self.seen(trace):.1f} {self.unit}",
            f"{self.settled(trace)} {self.unit}",
            self.most,
            len(self.changes),
        ]


def changes_of(history, shift_s: float = 0.0) -> list[tuple[float, int]]:
    """Return when the number of replicas changed, and to how many, as history has it."""
    found = [(step.at_s - shift_s, REPLICAS.search(step.what)) for step in history]
    return [(at_s, int(match[1])) for at_s, match in found if match is not None]


@dataclass(frozen=True)
class Bar:
    """What must hold, and what was found."""

    what: str
    found: float
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        if self.least is not None:
            return self.found >= self.least
        return self.most is not None and self.found <= self.most

    def claim(self, where: str) -> Claim:
        """Return the line of docs/results.md; all items count, from birth."""
        found = self.found if isfinite(self.found) else None
        why = "" if found is not None else "it never came"
        return Claim(
            f"{where}: {self.what}",
            found,
            unit="",
            at_least=self.least,
            at_most=self.most,
            remark=why,
        )

    def row(self) -> list[Any]:
        bar = f">= {self.least:g}" if self.least is not None else f"<= {self.most:g}"
        return [self.what, self.found, bar, "met" if self.met else "missed"]


def best_fixed(trace: Trace, fixed: Sequence[Run]) -> Run:
    """Return the fewest replicas that keep the bound in all of a trace; else the best."""
    for run in sorted(fixed, key=lambda one: one.most):
        if run.within(trace) >= SHARE:
            return run
    return max(fixed, key=lambda one: one.within(trace))


def bars(
    trace: Trace,
    ours: Run,
    theirs: Run,
    fixed: Sequence[Run],
    enough: Sequence[Run] = (),
) -> list[Bar]:
    """Return the bars of the issue for one run of each setting.

    A rise for which one of the settings `enough` is enough need not be seen.
    """
    best = best_fixed(trace, fixed)
    within = max(one.within(trace) for one in fixed) - POINTS
    settled = 5 if ours.epochs_s else 10
    changes = 100 * len(ours.changes) / max(1, len(theirs.changes))
    return [
        Bar("within the bound, all items, %", ours.within(trace), within),
        Bar(f"a rise seen after, {ours.unit}", ours.seen(trace, enough), most=5.0),
        Bar(f"settled after, {ours.unit}", ours.settled(trace), most=settled),
        Bar("most replicas", ours.most, most=best.most + 1),
        Bar("changes, % of reactive's", changes, most=40.0),
    ]


def claim_worst(where: str, runs: Sequence[Sequence[Bar]]) -> list[Claim]:
    """Return a claim for each bar about the worst of several runs of the same trace."""
    claims = []
    for same in zip(*runs, strict=True):
        is_worst = min if same[0].least is not None else max
        worst = is_worst(same, key=lambda bar: bar.found)
        said = f"the worst of {len(same)} runs"
        claims.append(replace(worst.claim(where), remark=said))
    return claims


def show(title: str, trace: Trace, ours: Run, theirs: Run, fixed: Sequence[Run]):
    """Print what was found of all settings, and whether the bars were met; claim it."""
    held = bars(trace, ours, theirs, fixed)
    hold([bar.claim(title) for bar in held])
    return print_runs(title, trace, ours, theirs, fixed)


def print_runs(title: str, trace: Trace, ours: Run, theirs: Run, fixed: Sequence[Run]):
    """Print what was found of all settings, and whether the bars were met."""
    rows = [run.row(trace) for run in (ours, theirs, *fixed)]
    table(title, HEAD, rows)
    found = [bar.row() for bar in bars(trace, ours, theirs, fixed)]
    table("bars", ["predictive", "found", "bar", ""], found)
    return {"rows": rows, "bars": found, "best": best_fixed(trace, fixed).name}
