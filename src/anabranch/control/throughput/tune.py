"""The loop of the throughput goal: profile, decide, act, evaluate, keep or revert
(section 5).

The controller starts with the program as it is and adds threads as long as each one
raises the throughput where it was added. A change that did not is reverted and not
tried again. The controller rests when nothing promises a gain, and resumes when the
throughput shifts, or the work moves from one operator to another: the paper leaves that
open.

Every decision is a pure function in a file of its own. All waiting is behind the
`Actuator` protocol, which engines implement: so the same controller adapts a program in
real time, epoch by epoch, or in a simulator that takes no time at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol

from anabranch.control.goals import ControlSettings, Observable
from anabranch.control.throughput.moves import Move, Scope, Stay, choose_move
from anabranch.metrics.job_metrics import Adaptation, Journal
from anabranch.metrics.load import Gain, Rates, gain
from anabranch.metrics.pipeline import Pipeline
from anabranch.plan.plan import Arrangement


class Actuator(Observable, Protocol):
    """A running program that can be observed and rearranged.

    None instead of an answer means that the program has ended.
    """

    @property
    def places(self) -> frozenset[str]:
        """The operators that can have a threaded port."""

    @property
    def regions(self) -> Mapping[str, tuple[str, ...]]:
        """The regions that can have several replicas, with their operators."""

    @property
    def producers(self) -> Mapping[str, tuple[str, ...]]:
        """The producers of each operator; empty if ports are not to be moved."""

    @property
    def arrangement(self) -> Arrangement:
        """The present arrangement."""

    def arrange(self, arrangement: Arrangement) -> str | None:
        """Put an arrangement into effect; return the outcome, in words."""

    def profile(self) -> Pipeline | None:
        """Observe its threads for a while."""

    def rates(self) -> Rates | None:
        """Observe its throughput for a while, without a profiler."""

    def glance(self) -> tuple[Rates, Pipeline] | None:
        """Observe both for a moment, if a moment is enough; else None."""


class Rejections:
    """Places that did not help: for good, or only in the arrangement they were tried
    in.

    Per arrangement the controller is less likely to get stuck at a local optimum, since
    a port may help once others are there; but it tries and remembers more.

    >>> listed, bare = Rejections(per_arrangement=True), Arrangement()
    >>> listed.add({"b"}, bare)
    >>> sorted(listed.at(bare)), sorted(listed.at(bare.with_ports({"a"})))
    (['b'], [])
    """

    def __init__(self, *, per_arrangement: bool = False) -> None:
        self._per_arrangement = per_arrangement
        self._listed: dict[Arrangement | None, frozenset[str]] = {}

    def at(self, arrangement: Arrangement) -> frozenset[str]:
        """Return the changes that are not to be tried in an arrangement."""
        return self._listed.get(self._key(arrangement), frozenset())

    def add(self, places: Collection[str], arrangement: Arrangement) -> None:
        """Record what did not help when it was tried in an arrangement."""
        self._listed[self._key(arrangement)] = self.at(arrangement).union(places)

    def clear(self) -> None:
        """Forget everything: the workload has changed."""
        self._listed.clear()

    def _key(self, arrangement: Arrangement) -> Arrangement | None:
        return arrangement if self._per_arrangement else None


class Controller:
    """Adapts one program.

    `advance` does one round and tells whether the program still runs; `run` continues
    until it has ended. `history` may be read from other threads.
    """

    def __init__(
        self,
        actuator: Actuator,
        settings: ControlSettings | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.history = Journal() if journal is None else journal
        self.settled = False
        self._actuator = actuator
        self._settings = settings or ControlSettings()
        self._rejected = Rejections(
            per_arrangement=self._settings.reject_per_arrangement
        )
        self._first: Arrangement | None = None  # the initial arrangement
        self._known: Rates | None = None  # of the present arrangement, if measured
        self._shifted = 0  # consecutive measurements that differed from those before
        self._shares: Mapping[str, float] | None = None  # of operators, when it settled
        self._rounds = 0  # since the last profile
        self._begun = False
        self._alone: tuple[Move, ...] = ()  # ports that did not help together
        self._profile: Pipeline | None = None  # the last one

    @property
    def now_s(self) -> float:
        """How long the program has run."""
        return self._actuator.now_s

    def find_shares(self) -> dict[str, float]:
        """Return each operator's share of the work when last profiled."""
        return {} if self._profile is None else self._profile.shares()

    def run(self) -> None:
        """Adapt the program until it ends."""
        while self.advance():
            pass

    def advance(self) -> bool:
        """Do one round; tell whether the program still runs."""
        return self._watch() if self.settled else self._seek()

    def _begin(self) -> bool | None:
        """Help blocking operators at once: a moment shows that they block.

        None if they do not.
        """
        self._begun = True
        seen = self._actuator.glance()
        if seen is None:
            return None
        before, profile = seen
        self._profile = profile
        if not any(load.blocked >= self._settings.beta / 2 for load in profile.threads):
            return None
        arrangement = self._actuator.arrangement
        move = choose_move(profile, arrangement, self._scope(), self._settings)
        if isinstance(move, Stay):
            return None
        self._first = arrangement
        return self._attempt(move, arrangement, before)

    def _look(self) -> Pipeline | None:
        profile = self._actuator.profile()
        self._profile = profile or self._profile
        return profile

    def _scope(self) -> Scope:
        return Scope(
            self._actuator.cores,
            self._actuator.places,
            self._actuator.regions,
            self._rejected.at(self._actuator.arrangement),
            self._actuator.producers,
        )

    def _seek(self) -> bool:
        helped = None if self._begun else self._begin()
        if helped is not None:
            return helped
        before = self._known or self._actuator.rates()
        profile = None if before is None else self._look()
        if before is None or profile is None:
            return False
        self._known = before
        arrangement = self._actuator.arrangement
        self._first = self._first or arrangement
        if self._alone:
            move, *others = self._alone
            self._alone = tuple(others)
            to = arrangement.with_ports(move.at)
            return self._attempt(replace(move, to=to), arrangement, before)
        match choose_move(profile, arrangement, self._scope(), self._settings):
            case Stay(why=why):
                self._note("settled", why, str(arrangement))
                self.settled, self._shifted, self._rounds = True, 0, 0
                self._shares = profile.shares()
                return True
            case Move() as move:
                return self._attempt(move, arrangement, before)

    def _attempt(self, move: Move, earlier: Arrangement, before: Rates) -> bool:
        """Make a change, measure it, and keep what has helped."""
        at_s = self._actuator.now_s
        how = self._actuator.arrange(move.to)
        after = None if how is None else self._measure(before, move.at.values())
        if after is None:
            if how is not None:
                self._note(move.what, move.why, f"{how}; the program ended", at_s)
            return False
        gains = {
            place: self._gain(before, after, operator)
            for place, operator in move.at.items()
        }
        least = self._settings.least_gain
        idle = {
            place
            for place, one in gains.items()
            if not (one.ratio >= 1 - least if move.saves else one.exceeds(least))
        }
        measured = ", ".join(f"{one} at {place}" for place, one in gains.items())
        self._note(move.what, move.why, f"{measured}; {how}", at_s)
        if not idle:
            self._known = after
            return True
        return self._take_back(move, idle, earlier, gains)

    def _measure(self, before: Rates, operators: Collection[str]) -> Rates | None:
        """Measure a change; longer while an apparent gain may be chance."""
        least = self._settings.least_gain
        after = self._actuator.rates()
        for _ in range(self._settings.measurements - 1):
            if after is None:
                break
            gains = [self._gain(before, after, operator) for operator in operators]
            if not any(_in_doubt(one, least) for one in gains):
                break
            more = self._actuator.rates()
            after = None if more is None else after + more
        return after

    def _take_back(
        self,
        move: Move,
        idle: set[str],
        earlier: Arrangement,
        gains: Mapping[str, Gain],
    ) -> bool:
        kept = earlier
        if idle != set(move.at):
            kept = move.to.without_ports(idle)
            self._known = None
        several = len(idle) > 1 and not move.saves
        if several:  # each of them may help although all together do not
            self._alone = tuple(_alone(move, port) for port in sorted(idle))
        else:
            self._rejected.add(idle, earlier)
        how = self._actuator.arrange(kept)
        if how is None:
            return False
        names = ", ".join(sorted(idle))
        why = "; ".join(f"throughput {gains[place]}" for place in sorted(idle))
        then = "each is tried alone" if several else "not tried again for this workload"
        self._note(f"undo {names}", why, f"{then}; {how}")
        return True

    def _watch(self) -> bool:
        """Check whether the workload is still the one that was settled for."""
        now = self._actuator.rates()
        if now is None:
            return False
        before = self._known or now
        why = self._find_shift(before, now)
        if why is None:
            self._rounds += 1
            if self._rounds >= self._settings.rounds or self._shifted:
                profile = self._look()
                if profile is None:
                    return False
                self._rounds = 0
                why = self._find_other_work(profile)
        if why is None:
            self._shifted = 0
            self._known = before
            return True
        self._shifted += 1
        if self._shifted < self._settings.patience:
            return True
        self._note("tune again", why, "everything may be tried again")
        self._rejected.clear()
        self._alone = ()
        self.settled, self._known = False, now
        return self._reconsider(now)

    def _find_shift(self, before: Rates, now: Rates) -> str | None:
        """Return where the throughput has shifted, if anywhere."""
        moved = {name: self._gain(before, now, name) for name in before.at}
        most = max(moved, key=lambda name: abs(moved[name].ratio - 1), default=None)
        if most is None or not _has_shifted(moved[most], self._settings.shift):
            return None
        return f"throughput at {most} has shifted: {moved[most]}"

    def _find_other_work(self, profile: Pipeline) -> str | None:
        """Return the operator whose share of the work has changed, if any."""
        before, now = self._shares or {}, profile.shares()
        if not before or not now:
            return None
        moved = {n: now.get(n, 0.0) - before.get(n, 0.0) for n in {*before, *now}}
        most = max(sorted(moved), key=lambda name: abs(moved[name]))
        if sum(map(abs, moved.values())) / 2 <= self._settings.shift:
            return None
        return (
            f"the work has moved: {most} has {now.get(most, 0.0):.0%} of it, before "
            f"{before.get(most, 0.0):.0%}"
        )

    def _reconsider(self, before: Rates) -> bool:
        """Try without all additions: they were made for another workload."""
        present = self._actuator.arrangement
        if self._first in (None, present):
            return True
        at_s = self._actuator.now_s
        how = self._actuator.arrange(self._first)
        after = None if how is None else self._actuator.rates()
        if after is None:
            return False
        compared = [self._gain(before, after, name) for name in before.at]
        worst = min(compared, key=lambda one: one.ratio)
        why = "they were made for another workload"
        self._note("undo all additions", why, f"throughput {worst}; {how}", at_s)
        if worst.ratio >= 1:
            self._known = after
            return True
        how = self._actuator.arrange(present)
        if how is not None:
            self._note("restore them", f"throughput was {worst} without them", how)
        return how is not None

    def _gain(self, before: Rates, after: Rates, operator: str) -> Gain:
        return gain(
            before.at.get(operator, (0.0,)),
            after.at.get(operator, (0.0,)),
            self._settings.sureness,
        )

    def _note(
        self, what: str, why: str, effect: str, at_s: float | None = None
    ) -> None:
        when_s = self._actuator.now_s if at_s is None else at_s
        self.history.note(Adaptation(when_s, what, why, effect))


def _alone(move: Move, port: str) -> Move:
    """Return the part of a step that inserts one of its ports."""
    why = "with others it did not help; alone it may"
    what = f"insert a threaded port at {port}"
    return replace(move, what=what, why=why, at={port: move.at[port]})


def _in_doubt(seen: Gain, least: float) -> bool:
    return seen.ratio - 1 > least and not seen.exceeds(least)


def _has_shifted(moved: Gain, least: float) -> bool:
    return abs(moved.ratio - 1) > max(least, moved.margin)
