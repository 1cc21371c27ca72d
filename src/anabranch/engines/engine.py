"""The interface of engines: start a plan, watch and stop a run, name busy operators."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Literal, Protocol, TypeAlias

from anabranch.graph.graph import Graph
from anabranch.metrics.job_metrics import Adaptation, Journal, Metrics, OnEpoch, ignore
from anabranch.plan.plan import Plan, Reason
from anabranch.runtime.ambient import Ambient
from anabranch.runtime.failures import OnError, stop
from anabranch.runtime.profile import Undisturbed
from anabranch.runtime.program import operator_at
from anabranch.runtime.verify.verifier import Verify

Status = Literal["running", "finished", "stopped", "failed"]

GRACE_S = 10.0  # how long a stopping job may take to end cleanly


@dataclass(frozen=True)
class Options:
    """The options of a run that engines read.

    `ambient` has the settings around its start; `journal` takes its adaptations, and
    `on_epoch` is called after each epoch (Spark).
    """

    on_error: OnError = stop
    degree: int | None = None
    checkpoint: str | None = None
    master: str | None = None
    epoch_items: int | None = None
    buckets: int | None = None
    verify: Verify = "sample"
    item_timeout_s: float | None = None
    replan: Callable[[Mapping[str, Reason]], Plan] | None = (
        None  # with what was refuted
    )
    ambient: Ambient = field(default_factory=Ambient)
    journal: Journal = field(default_factory=Journal)
    on_epoch: OnEpoch = ignore


class Running(Protocol):
    """A program that runs, or has run."""

    @property
    def status(self) -> Status:
        """The status of the run."""

    @property
    def error(self) -> BaseException | None:
        """The error that ended it, if it failed."""

    @property
    def history(self) -> tuple[Adaptation, ...]:
        """Every adaptation so far."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; tell whether it came. An error of the program is raised."""

    @property
    def hung(self) -> str | None:
        """Why a stopped run did not end cleanly, or None."""

    def stop(self, grace_s: float = GRACE_S, hurry: Callable[[], bool] = ...) -> None:
        """End early and cleanly; after the grace, or in a `hurry`, end at once."""

    def metrics(self) -> Metrics:
        """Return the measurements so far."""


class Engine(Protocol):
    """Runs programs."""

    def start(self, graph: Graph, plan: Plan, options: Options) -> Running:
        """Start a program and return at once."""


# The operator that a frame of our own code works for, if any.
Places: TypeAlias = Mapping[CodeType, Callable[[FrameType], str | None]]


def operators_of(threads: Iterable[threading.Thread], places: Places) -> list[str]:
    """Return the operators that threads are in now, each once.

    >>> operators_of([threading.current_thread()], {})
    []
    """
    idents = [thread.ident for thread in threads]
    found: dict[str, None] = {}
    with Undisturbed():
        frames = sys._current_frames()  # noqa: SLF001 - the only way
        for ident in idents:
            operator = operator_in(frames.get(ident or 0), places)
            if operator is not None:
                found[operator] = None
    return list(found)


def operator_in(frame: FrameType | None, places: Places) -> str | None:
    """Return the operator that a thread is in, given its innermost frame."""
    while frame is not None:
        place = places.get(frame.f_code)
        operator = operator_at(frame) if place is None else place(frame)
        if place is not None or operator is not None:
            return operator
        frame = frame.f_back
    return None
