"""Checks in one process that operators are as stateless as the analysis says.

A verdict of the analysis is a hypothesis about Python code, and Python can always do
more than an analysis sees. So while a program runs, the fingerprint of everything its
parallel operators can reach is taken at the start and compared at the end of batches;
and some items are computed twice, in another order. Declarations are trusted, as
everywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, TypeAlias

from anabranch.errors import RefutedError
from anabranch.graph.declarations import declaration_of
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind
from anabranch.graph.site import Site
from anabranch.operators.custom import Apply, Scan
from anabranch.plan.plan import Plan, Reason
from anabranch.runtime.verify.fingerprint import (
    EVERYTHING,
    SAMPLE,
    Fingerprint,
    Reach,
    ReachChange,
)
from anabranch.runtime.verify.rehearsal import Difference, Entry, Rehearsal, Sample

Verify: TypeAlias = Literal["sample", "all", "off"]

SHARE = 0.004  # share of the job's run time for fingerprints and repeated items
_FREE_S = 0.003  # in any case, so that short jobs are checked too
_TRIES = 3  # attempts at a walk during which something changes
_MOST_ITEMS = 16  # items of a batch that are repeated
_LEAST_ITEMS = 2  # so that another order exists


@dataclass(frozen=True)
class Refutation:
    """Evidence that a verdict about an operator was wrong.

    `what` is something it can reach; `before` and `after` are the two values that
    should be equal.
    """

    operator: str
    site: Site
    verdict: str
    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return (
            f"operator {self.operator!r} ({self.site}) was found to be {self.verdict}, "
            f"but {self.what} has changed: {self.before}, then {self.after}"
        )

    @property
    def reason(self) -> Reason:
        """Why the operator is sequential from now on."""
        text = f"{self.what} changed while it ran: {self.before}, then {self.after}"
        return Reason("state", text, self.site.file, self.site.line)

    def error(self) -> RefutedError:
        """Return the error of a job that cannot continue."""
        return RefutedError(
            f"what runs in parallel must not depend on its order; {self}; keep the "
            f"state in a scan or an Operator, or say @ab.declare(state='global') for the "
            f"function; @ab.declare(state='stateless') if it makes no difference"
        )


Verdicts: TypeAlias = Mapping[str, str]  # operator -> the verdict


def find_verdicts(graph: Graph, plan: Plan, *, regions: bool = True) -> Verdicts:
    """Return the verdicts of the analysis that a run relies on.

    If one process runs the whole program, these concern the operators in `regions`.
    """
    inside = {name for region in plan.regions for name in region.operators}
    return {
        planned.name: planned.state
        for planned in plan.operators
        if (planned.name in inside or not regions)
        and not (planned.effects or planned.lifted)
        and not isinstance(graph[planned.name].kind, SinkKind)
        and not is_declared(graph[planned.name])
    }


def is_declared(op: Op) -> bool:
    """Tell whether the user has declared the state of an operator's code."""
    return any(
        declaration_of(code.function).state is not None for code in op.kind.user_code
    )


class Verifier:
    """Knows what a program's operators can reach, and whether that has changed.

    One per process of a run; thread-safe.
    """

    def __init__(self, graph: Graph, verdicts: Verdicts, verify: Verify) -> None:
        self._graph = graph
        self._verdicts = {} if verify == "off" else verdicts
        self._verify = verify
        self._lock = threading.Lock()
        self._watches: dict[str, _OperatorWatch] = {}
        self._began_s = perf_counter()
        self._spent_s = 0.0
        self._rehearsal = Rehearsal(graph, self._verdicts)
        self._differences: dict[str, Difference] = {}

    def rehearse(
        self,
        entries: Sequence[Entry],
        operators: Collection[str],
        items: Sequence[Any],
        at: Sequence[int] | None,
        seconds: float,
    ) -> None:
        """Repeat some items of a batch, if there is time; record differences.

        `at[i]` is the entry of item i, `seconds` the time that all items took.
        """
        if not items or self._is_late() or not self._lock.acquire(blocking=False):
            return
        try:
            began_s = perf_counter()
            inside = self._verdicts.keys() & operators
            count = len(items) if inside else 0
            if self._verify == "sample":
                left_s = self._allow_s(began_s) - self._spent_s
                per_item_s = max(seconds / len(items), 1e-6)
                count = min(_MOST_ITEMS, int(left_s / (3 * per_item_s)), count)
            if inside and count >= min(_LEAST_ITEMS, len(items)):
                for index, entry in enumerate(entries):
                    some = items[:count]
                    if at is not None:
                        some = [
                            one for one, e in zip(some, at, strict=False) if e == index
                        ]
                    found = self._rehearsal.find(entry, inside, some)
                    if found is not None:
                        self._differences.setdefault(found.operator, found)
            self._spent_s += perf_counter() - began_s
        finally:
            self._lock.release()

    def take_samples(self, operators: Collection[str]) -> tuple[Sample, ...]:
        """Return items of some operators for another process, each operator once."""
        samples = self._rehearsal.samples
        return tuple(samples.pop(name) for name in operators if name in samples)

    def repeat(self, samples: Iterable[Sample]) -> tuple[Refutation, ...]:
        """Return the differences between this process's results and another's."""
        found = (self._rehearsal.repeat(one) for one in samples)
        return tuple(self._refute(one) for one in found if one is not None)

    def _refute(self, found: Difference) -> Refutation:
        name, *values = found
        return Refutation(name, self._graph[name].site, self._verdicts[name], *values)

    def _is_late(self) -> bool:
        """Tell whether sampling has used up its share of the time so far."""
        if self._verify != "sample":
            return not self._verdicts
        return self._spent_s > self._allow_s(perf_counter())

    def _allow_s(self, now_s: float) -> float:
        return _FREE_S + SHARE * (now_s - self._began_s)

    @property
    def is_on(self) -> bool:
        """Whether anything is verified."""
        return self._verify != "off"

    @property
    def operators(self) -> frozenset[str]:
        """The operators that are verified."""
        return frozenset(self._verdicts)

    def watch(self, operators: Iterable[str] | None = None) -> None:
        """Take the initial fingerprints of some operators, all by default."""
        limits = EVERYTHING if self._verify == "all" else SAMPLE
        for name in self._verdicts if operators is None else operators:
            verdict = self._verdicts.get(name)
            if verdict is not None and name not in self._watches:
                op = self._graph[name]
                self._watches[name] = _OperatorWatch(self._graph, op, verdict, limits)

    def check_some(self, operators: Iterable[str]) -> None:
        """Check operators if there is time; raise on a refuted verdict.

        If another thread is checking, this returns at once.
        """
        late = self._is_late() and not self._differences
        if not self._watches or late or not self._lock.acquire(blocking=False):
            return
        try:
            now_s = perf_counter()
            found = self._find(operators)
            self._spent_s += perf_counter() - now_s
        finally:
            self._lock.release()
        if found:
            raise found[0].error()

    def find(self, operators: Iterable[str] | None = None) -> tuple[Refutation, ...]:
        """Return refutations of the verdicts about some operators, all by default."""
        with self._lock:
            return self._find(self._watches if operators is None else operators)

    def check(self) -> None:
        """Check all operators once more; raise on a refuted verdict."""
        for found in self.find():
            raise found.error()

    def find_sharing(self, what: str) -> tuple[str, ...]:
        """Return the operators that can reach something of that name."""
        return tuple(
            name for name, watch in self._watches.items() if watch.reaches(what)
        )

    def _find(self, operators: Iterable[str]) -> tuple[Refutation, ...]:
        operators = list(operators)
        watches = (self._watches.get(name) for name in operators)
        found = (None if watch is None else watch.find() for watch in watches)
        changed = tuple(one for one in found if one is not None)
        return changed or self._find_differences(operators)

    def _find_differences(self, operators: Iterable[str]) -> tuple[Refutation, ...]:
        """Return the differences found by repeating items."""
        named = (self._differences.get(name) for name in operators)
        return tuple(self._refute(one) for one in named if one is not None)


class _OperatorWatch:
    """Everything one operator can reach, as it was at the start."""

    def __init__(self, graph: Graph, op: Op, verdict: str, limits: Any) -> None:
        self._op = op
        self._verdict = verdict
        types = types_of(graph, op)
        roots = [one for one in roots_of(op) if not any(one is each for each in types)]
        self._reach = Reach(roots, limits, types=types)
        self._before = _look(self._reach)

    def find(self) -> Refutation | None:
        """Return what has changed since the start, if anything."""
        if self._before is None:
            return None
        now = _look(self._reach)
        change: ReachChange | None
        if now is None:
            change = ReachChange("what it uses", "as it began", "changing all the time")
        else:
            change = self._before.change_to(now)
        if change is None:
            return None
        return Refutation(
            self._op.name,
            self._op.site,
            self._verdict,
            change.what,
            change.before,
            change.after,
        )

    def reaches(self, what: str) -> bool:
        """Tell whether something of that name can be reached."""
        return self._before is not None and what in self._before.names


def _look(reach: Reach) -> Fingerprint | None:
    """Return the fingerprint; None if it changes during the walk."""
    for _ in range(_TRIES):
        try:
            return reach.look()
        except RuntimeError:  # a dictionary or set changed meanwhile by another thread
            continue
    return None


def roots_of(op: Op) -> list[Any]:
    """Return the starting points of an operator's walk: its code, values and
    outputs.
    """
    roots: list[Any] = [*op.called]
    match op.kind:
        case Scan(initial=initial):
            roots.append(initial)
        case Apply(arguments=arguments, keywords=keywords):
            roots += [arguments, dict(keywords)]
    return [*roots, op.type] if isinstance(op.type, type) else roots


def types_of(graph: Graph, op: Op) -> list[type]:
    """Return the types of an operator's input items."""
    types = [graph[each.operator].type for each in op.inputs]
    return [one for one in types if isinstance(one, type)]
