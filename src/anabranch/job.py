"""`run` and `start`: check a program, compile it, and hand it to an engine.

The only place where the language, the compiler and the engines meet.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

from anabranch.compiler.compile import Compilation, Target, compile_graph
from anabranch.compiler.overview import overview
from anabranch.control.actuator import Actuator
from anabranch.control.background import adapt_in_background
from anabranch.control.controller import Controller
from anabranch.control.goals import Latency, Throughput
from anabranch.control.latency_controller import LatencyActuator, LatencyController
from anabranch.dashboard.live import Live
from anabranch.engines.engine import Change, Engine, Options, Running, Status
from anabranch.engines.local.engine import LocalEngine
from anabranch.engines.sequential import SequentialEngine
from anabranch.graph.drafts import Sink, build_graph
from anabranch.graph.graph import Graph
from anabranch.graph.validate import validate
from anabranch.metrics.record import Look
from anabranch.plan.plan import Plan
from anabranch.runtime.failures import OnError, policy

EngineName = Literal["spark", "local", "sequential"]


@runtime_checkable
class Adaptable(Protocol):
    """What runs and can be changed while it does."""

    def actuator(self) -> Actuator:
        """Return what a controller sees of it, and changes."""

    def latency_actuator(self) -> LatencyActuator:
        """Return what keeps it within a bound sees of it, and changes."""


class Job:
    """A program that runs, or has run; made by `ab.run` and `ab.start`.

    >>> import anabranch as ab
    >>> job = ab.run(ab.from_iterable([1, 2]).to_list(), on="sequential")
    >>> job.status, job.metrics()["read"]
    ('finished', {'from_iterable': 2})
    """

    def __init__(
        self,
        compilation: Compilation,
        running: Running,
        controller: Controller | LatencyController | None = None,
        ui: Live | None = None,
    ) -> None:
        self._running = running
        self._controller = controller
        self.compilation = compilation
        self.ui = ui

    @property
    def plan(self) -> Plan:
        """What the compiler decided."""
        return self.compilation.plan

    @property
    def status(self) -> Status:
        """One of running, finished, stopped and failed."""
        return self._running.status

    @property
    def history(self) -> tuple[Change, ...]:
        """Every adaptation: when, what, why, and the measured effect."""
        changes = list(self._running.history)
        if self._controller is not None:
            steps = tuple(self._controller.history)
            changes += [Change(s.at_s, s.what, s.why, s.effect) for s in steps]
        return tuple(sorted(changes, key=lambda change: change.at_s))

    @property
    def error(self) -> BaseException | None:
        """What ended it, if it failed."""
        return self._running.error

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; tell whether it came within `timeout` seconds.

        An error of the program is raised here.
        """
        try:
            return self._running.wait(timeout)
        finally:
            self._close_ui()

    def stop(self) -> None:
        """End the job early and cleanly."""
        self._running.stop()
        self._close_ui()

    def _close_ui(self) -> None:
        if self.ui is not None and self.status != "running":
            self.ui.close()

    def metrics(self) -> dict[str, Any]:
        """Return what was measured so far, as plain data."""
        found = self._running.metrics()
        if isinstance(self._controller, LatencyController):
            found["steps"] = self._controller.steps()
        return found


def compile_sinks(*sinks: Sink, on: EngineName = "spark") -> Compilation:
    """Check a program and return what the compiler makes of it.

    >>> import anabranch as ab
    >>> made = ab.compile(ab.from_iterable([1, 2]).map(abs).to_list())
    >>> [region.operators for region in made.plan.regions]
    [('from_iterable', 'map')]
    """
    graph = graph_of(sinks)
    target = Target(batched=on == "spark", aligned=on != "sequential")
    return compile_graph(graph, target)


def explain(*sinks: Sink, on: EngineName = "spark") -> str:
    """Return what is parallel in a program, what is not, and why, as text.

    >>> import anabranch as ab
    >>> "map" in ab.explain(ab.from_iterable([1, 2]).map(abs).to_list())
    True
    """
    return compile_sinks(*sinks, on=on).explain()


def start(
    *sinks: Sink,
    on: EngineName = "spark",
    checkpoint: str | os.PathLike[str] | None = None,
    degree: int | None = None,
    on_error: str | OnError = "stop",
    goal: Throughput | Latency | None = None,
    master: str | None = None,
    epoch_items: int | None = None,
    progress: bool = False,
    ui: bool | int = False,
) -> Job:
    """Start a program and return its `Job` at once.

    >>> import anabranch as ab
    >>> job = ab.start(ab.from_iterable([1]).to_list(), on="sequential")
    >>> job.wait(timeout=60)
    True
    """
    if degree is not None and degree < 1:
        msg = f"degree must be at least 1; got {degree}"
        raise ValueError(msg)
    if degree is not None and isinstance(goal, Latency):
        msg = (
            f"a latency goal chooses the number of replicas; got degree={degree} too; "
            "leave one of them out, or say ab.latency(..., replicas=...)"
        )
        raise ValueError(msg)
    if checkpoint is not None and on != "spark":
        msg = (
            f"only on='spark' keeps a checkpoint; got on={on!r}; leave one of them out"
        )
        raise ValueError(msg)
    options = Options(
        on_error=policy(on_error),
        degree=degree,
        checkpoint=None if checkpoint is None else os.fspath(checkpoint),
        master=master,
        epoch_items=epoch_items,
        progress=progress,
    )
    compilation = compile_sinks(*sinks, on=on)
    live = None if ui is False else Live(0 if ui is True else ui)
    try:
        shown = {} if live is None else program_data(compilation, on, goal)
        running = engine_named(on).start(compilation.graph, compilation.plan, options)
    except BaseException:
        if live is not None:
            live.give_up()
        raise
    controller: Controller | LatencyController | None = None
    if degree is None and isinstance(running, Adaptable):
        if isinstance(goal, Latency):
            controller = LatencyController(running.latency_actuator(), goal)
        else:
            controller = Controller(running.actuator(), (goal or Throughput()).settings)
        adapt_in_background(controller)
    job = Job(compilation, running, controller, live)
    if live is not None:
        sys.stderr.write(f"dashboard: {live.address} (recorded in {live.record})\n")
        live.begin(shown, partial(look_at, job))
    return job


def look_at(job: Job) -> Look:
    """Return a job as it is now, as plain data: what its dashboard records."""
    status, error = job.status, job.error  # first: the rest is then not older
    return Look(
        status,
        job.metrics(),
        [asdict(change) for change in job.history],
        None if error is None else f"{type(error).__name__}: {error}",
    )


def program_data(
    compilation: Compilation, on: EngineName, goal: Throughput | Latency | None
) -> dict[str, Any]:
    """Return what a dashboard shows of a program before it has run."""
    return {
        "on": on,
        "started": time.time(),
        "bound_ms": goal.bound_s * 1000 if isinstance(goal, Latency) else None,
        "quantile": goal.quantile if isinstance(goal, Latency) else None,
        **overview(compilation),
    }


def run(
    *sinks: Sink,
    on: EngineName = "spark",
    checkpoint: str | os.PathLike[str] | None = None,
    degree: int | None = None,
    on_error: str | OnError = "stop",
    goal: Throughput | Latency | None = None,
    master: str | None = None,
    epoch_items: int | None = None,
    progress: bool = False,
    ui: bool | int = False,
) -> Job:
    """Run a bounded program to its end and return its `Job`.

    `on` names the engine. While the program runs it is tuned for its `goal`, which is
    `ab.throughput()` unless said otherwise (`ab.latency("200 ms")`); a `degree` fixes the number of replicas
    instead, and nothing is tuned. `on_error` is "stop", "skip" or `ab.dead_letter(...)`. `ui=True` serves a
    dashboard on this machine while it runs, and says where; a number is the port to use. Ctrl-C stops the
    job cleanly.

    >>> import anabranch as ab
    >>> squares = ab.from_iterable([1, 2, 3]).map(lambda n: n * n).to_list()
    >>> _ = ab.run(squares, on="sequential")
    >>> squares.items
    [1, 4, 9]
    """
    job = start(
        *sinks,
        on=on,
        checkpoint=checkpoint,
        degree=degree,
        on_error=on_error,
        goal=goal,
        master=master,
        epoch_items=epoch_items,
        progress=progress,
        ui=ui,
    )
    try:
        while not job.wait(timeout=0.2):
            pass
    except KeyboardInterrupt:
        job.stop()
        raise
    return job


def graph_of(sinks: Sequence[Sink]) -> Graph:
    """Return the checked graph of a program."""
    graph = build_graph(sinks)
    validate(graph)
    return graph


def engine_named(name: EngineName) -> Engine:
    """Return the engine of that name."""
    match name:
        case "sequential":
            return SequentialEngine()
        case "local":
            return LocalEngine()
        case "spark":  # PySpark takes a second to import: only who uses it pays
            module = importlib.import_module("anabranch.engines.spark.engine")
            made: Engine = module.SparkEngine()
            return made
    msg = f"on must be 'spark', 'local' or 'sequential'; got {name!r}"
    raise ValueError(msg)
