"""The adaptations of a job, in the order in which they were decided."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TypeAlias

from anabranch.logs import log, logger_of

_LOGGER = logger_of("control")
MOST = 10_000  # that are kept; then the older half is forgotten


@dataclass(frozen=True)
class Adaptation:
    """An adaptation: when, what was changed, why, and what it brought."""

    at_s: float
    what: str
    why: str
    effect: str


OnDecision: TypeAlias = Callable[[Adaptation], object]


class Journal:
    """Takes down what a controller or an engine decides; any thread may look.

    `told` is called with each adaptation as soon as it is decided. A job does not fail
    because `told` does: that is logged.

    >>> seen = []
    >>> journal = Journal(lambda change: seen.append(change.what))
    >>> first = journal.note(Adaptation(1.0, "2 replicas of r0", "a backlog", ""))
    >>> journal.amend(first, "99% within 20 ms")
    >>> seen, journal[-1].effect, journal.decided
    (['2 replicas of r0'], '99% within 20 ms', 1)
    """

    def __init__(self, told: OnDecision | None = None) -> None:
        self.decided = 0  # so far, with those that were forgotten
        self._kept: list[Adaptation] = []
        self._told = told
        self._lock = threading.Lock()

    def note(self, change: Adaptation) -> Adaptation:
        """Add an adaptation and tell who listens."""
        with self._lock:
            if len(self._kept) >= MOST:
                del self._kept[: MOST // 2]
            self._kept.append(change)
            self.decided += 1
        log(_LOGGER, logging.INFO, "adaptation", **asdict(change))
        if self._told is not None:
            try:
                self._told(change)
            except Exception:
                _LOGGER.exception("on_decision failed; the job goes on")
        return change

    def amend(self, change: Adaptation, effect: str) -> None:
        """Enter what came of an adaptation, once that was measured."""
        made = replace(change, effect=effect)
        with self._lock:
            for place in range(len(self._kept) - 1, -1, -1):
                if self._kept[place] is change:
                    self._kept[place] = made
                    break
        log(_LOGGER, logging.INFO, "effect", **asdict(made))

    def __iter__(self) -> Iterator[Adaptation]:
        with self._lock:
            return iter(tuple(self._kept))

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, place: int) -> Adaptation:
        return self._kept[place]
