"""The engine protocol: start a program, watch and stop it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from anabranch.graph.graph import Graph
from anabranch.metrics.job_metrics import Adaptation, Metrics
from anabranch.plan.plan import Plan
from anabranch.runtime.thread import GRACE_S, Options, Status


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
