"""What every engine offers: start a plan, and watch or stop what runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from anabranch.graph.graph import Graph
from anabranch.plan.plan import Plan
from anabranch.runtime.failures import OnError, stop

Status = Literal["running", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class Options:
    """How a program is to be run."""

    on_error: OnError = stop
    degree: int | None = None
    checkpoint: str | None = None
    master: str | None = None
    epoch_items: int | None = None
    progress: bool = False


@dataclass(frozen=True)
class Change:
    """An adaptation: when, what was changed, why, and what it brought."""

    at_s: float
    what: str
    why: str
    effect: str


class Running(Protocol):
    """A program that runs, or has run."""

    @property
    def status(self) -> Status:
        """Where it stands."""

    @property
    def error(self) -> BaseException | None:
        """What ended it, if it failed."""

    @property
    def history(self) -> tuple[Change, ...]:
        """Every adaptation so far."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; tell whether it came. An error of the program is raised."""

    def stop(self) -> None:
        """End early and cleanly; what was finished stays."""

    def metrics(self) -> dict[str, Any]:
        """Return what was measured so far."""


class Engine(Protocol):
    """A place where programs run."""

    def start(self, graph: Graph, plan: Plan, options: Options) -> Running:
        """Start a program and return at once."""
