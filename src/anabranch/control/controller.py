"""The only loop: profile, decide, act, evaluate, keep or go back (section 5).

The controller begins with what the program starts as and adds threads as long as each
addition raises the throughput where it was made. What did not is taken back and not
tried again. It halts when nothing promises a gain any more, and wakes up when the
throughput has shifted: the paper leaves that open.

Every decision is a pure function in a file of its own; waiting is the actuator's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from anabranch.control.actuator import Actuator
from anabranch.control.blacklist import Blacklist
from anabranch.control.settings import Settings
from anabranch.control.together import Move, Scope, Stay, choose_move
from anabranch.metrics.rates import Gain, Rates, gain
from anabranch.plan.arrangement import Arrangement


@dataclass(frozen=True)
class Step:
    """What the controller did: when, what, why, and what came of it."""

    at_s: float
    what: str
    why: str
    effect: str


class Controller:
    """Adapts one program.

    `advance` does one round and tells whether the program still runs; `run` goes on
    until it has ended. `history` may be read from other threads.
    """

    def __init__(self, actuator: Actuator, settings: Settings | None = None) -> None:
        self.history: list[Step] = []
        self.settled = False
        self._actuator = actuator
        self._settings = settings or Settings()
        self._blacklist = Blacklist(
            per_arrangement=self._settings.blacklist_per_arrangement
        )
        self._first: Arrangement | None = None  # what it began with
        self._known: Rates | None = None  # of the present arrangement, if measured
        self._shifted = 0  # measurements in a row that were unlike those before

    @property
    def now_s(self) -> float:
        """How long the program has run."""
        return self._actuator.now_s

    def run(self) -> None:
        """Adapt the program until it ends."""
        while self.advance():
            pass

    def advance(self) -> bool:
        """Do one round; tell whether the program still runs."""
        return self._watch() if self.settled else self._seek()

    def _seek(self) -> bool:
        before = self._known or self._actuator.rates()
        profile = None if before is None else self._actuator.profile()
        if before is None or profile is None:
            return False
        self._known = before
        arrangement = self._actuator.arrangement
        self._first = self._first or arrangement
        scope = Scope(
            self._actuator.cores,
            self._actuator.places,
            self._actuator.regions,
            self._blacklist.at(arrangement),
        )
        match choose_move(profile, arrangement, scope, self._settings):
            case Stay(why=why):
                self._note("halt", why, str(arrangement))
                self.settled, self._shifted = True, 0
                return True
            case Move() as move:
                return self._attempt(move, arrangement, before)

    def _attempt(self, move: Move, earlier: Arrangement, before: Rates) -> bool:
        """Make a change, measure it, and keep what of it has helped."""
        at_s = self._actuator.now_s
        how = self._actuator.arrange(move.to)
        after = None if how is None else self._measured(before, move.at.values())
        if after is None:
            if how is not None:
                self._note(move.what, move.why, f"{how}; the program ended", at_s)
            return False
        gains = {
            place: self._gain(before, after, operator)
            for place, operator in move.at.items()
        }
        least = self._settings.least_gain
        idle = {place for place, one in gains.items() if not one.exceeds(least)}
        measured = ", ".join(f"{one} at {place}" for place, one in gains.items())
        self._note(move.what, move.why, f"{measured}; {how}", at_s)
        if not idle:
            self._known = after
            return True
        return self._take_back(move, idle, earlier, gains)

    def _measured(self, before: Rates, operators: Collection[str]) -> Rates | None:
        """Measure a change; longer, as long as what looks like a gain may be chance."""
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
        self._blacklist.add(idle, earlier)
        how = self._actuator.arrange(kept)
        if how is None:
            return False
        names = ", ".join(sorted(idle))
        why = "; ".join(f"throughput {gains[place]}" for place in sorted(idle))
        self._note(f"take back {names}", why, f"blacklisted; {how}")
        return True

    def _watch(self) -> bool:
        """Look whether the workload is still the one that was settled for."""
        now = self._actuator.rates()
        if now is None:
            return False
        before = self._known or now
        moved = {name: self._gain(before, now, name) for name in before.at}
        most = max(moved, key=lambda name: abs(moved[name].ratio - 1), default=None)
        if most is None or not _has_shifted(moved[most], self._settings.shift):
            self._shifted = 0
            self._known = before
            return True
        self._shifted += 1
        if self._shifted < self._settings.patience:
            return True
        why = f"throughput at {most} has shifted: {moved[most]}"
        self._note("wake up", why, "the blacklist is empty again")
        self._blacklist.clear()
        self.settled, self._known = False, now
        return self._reconsider(now)

    def _reconsider(self, before: Rates) -> bool:
        """Try without all that was added: it was added for another workload."""
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
        why = "it was added for another workload"
        self._note("take back everything", why, f"throughput {worst}; {how}", at_s)
        if worst.ratio >= 1:
            self._known = after
            return True
        how = self._actuator.arrange(present)
        if how is not None:
            self._note("put it back", f"throughput was {worst} without it", how)
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
        self.history.append(Step(when_s, what, why, effect))


def _in_doubt(seen: Gain, least: float) -> bool:
    return seen.ratio - 1 > least and not seen.exceeds(least)


def _has_shifted(moved: Gain, least: float) -> bool:
    return abs(moved.ratio - 1) > max(least, moved.margin)
