"""`run` and `start`: check a program, compile it, and pass it to an engine.

This is the only place where the language, the compiler and the engines meet.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from types import ModuleType
from typing import Any, Literal, Protocol, Unpack, runtime_checkable

from anabranch.compiler.compile import Compilation, compile_graph, overview
from anabranch.compiler.options import LOCAL, SEQUENTIAL, SPARK, Rules, Target
from anabranch.control.goals import Latency, Throughput
from anabranch.control.latency.controller import LatencyActuator, LatencyController
from anabranch.control.throughput.tune import Actuator, Controller
from anabranch.dashboard.cell import Cell, describe_job, open_cell
from anabranch.dashboard.server import Live
from anabranch.engines.engine import Engine, Running
from anabranch.epochs.checkpoint.region_kind import find_whole_rounds, has_chains
from anabranch.errors import ArgumentError, EngineError, PlanError
from anabranch.export.families import Family, list_families
from anabranch.export.targets import Exporter, open_exporter
from anabranch.graph.graph import Graph
from anabranch.language.drafts import Result, build_graph
from anabranch.language.stream import Stream
from anabranch.language.validate import validate
from anabranch.logs import announce, log, logger_of
from anabranch.metrics.job_metrics import (
    Adaptation,
    EpochTrace,
    Journal,
    Metrics,
    OnEpoch,
)
from anabranch.metrics.run_record import JobSnapshot
from anabranch.operators.clock import EventTime
from anabranch.operators.sinks import ToSpark
from anabranch.operators.sources import FromSpark
from anabranch.plan.plan import Plan, Reason
from anabranch.run_options import (
    EngineName,
    Keywords,
    RunOptions,
    read_options,
    take_options,
)
from anabranch.runtime.ambient import capture_ambient
from anabranch.runtime.failures import (
    FailureCounts,
    OnError,
    function_of,
    policy,
    skip,
    stop,
)
from anabranch.runtime.thread import GRACE_S, Options, Status
from anabranch.signals import Signals, raise_signal, wait_for_end

_LOGGER = logger_of("job")
TARGETS = {"spark": SPARK, "local": LOCAL, "sequential": SEQUENTIAL}
Written = Literal["nothing", "a part", "all", "all so far"]


@runtime_checkable
class Adaptable(Protocol):
    """A running job that a controller can change."""

    def actuator(self) -> Actuator:
        """Return the throughput controller's view and controls."""

    def latency_actuator(self) -> LatencyActuator:
        """Return the latency controller's view and controls."""


class Replanning:
    """Compiles a program again when its run has refuted a verdict of the analysis."""

    def __init__(self, compilation: Compilation, on_error: OnError) -> None:
        self.compilation = compilation
        self._on_error = function_of(on_error)

    def __call__(self, refuted: Mapping[str, Reason]) -> Plan:
        """Return the plan with some operators made sequential."""
        made = self.compilation
        self.compilation = compile_graph(
            made.graph, made.target, made.rules, self._on_error, refuted
        )
        return self.compilation.plan


class Job:
    """A program that runs, or has run; made by `ab.run` and `ab.start`.

    >>> import anabranch as ab
    >>> job = ab.run(ab.from_iterable([1, 2]).to_list(), on="sequential")
    >>> job.status, job.metrics().read
    ('finished', {'from_iterable': 2})
    """

    def __init__(
        self,
        replanning: Replanning,
        running: Running,
        controller: Controller | LatencyController | None = None,
        ui: Live | None = None,
        *,
        checkpoint: str | None = None,
        failures: FailureCounts | None = None,
        exporter: Exporter | None = None,
    ) -> None:
        self._running = running
        self._checkpoint = checkpoint
        self._controller = controller
        self._replanning = replanning
        self._failures = failures
        self.ui = ui
        self.exporter = exporter

    def __repr__(self) -> str:
        return f"<Job {self.status}, {self.plan.summary}>"

    def _repr_html_(self) -> str:
        """Return the notebook's view: status and measurements."""
        return describe_job(look_at(self))

    @property
    def compilation(self) -> Compilation:
        """The compiled program, with everything that its run has found."""
        return self._replanning.compilation

    @property
    def plan(self) -> Plan:
        """The plan that the compiler made."""
        return self.compilation.plan

    @property
    def status(self) -> Status:
        """The state of the job: running, finished, stopped or failed."""
        return self._running.status

    @property
    def history(self) -> tuple[Adaptation, ...]:
        """Every adaptation: when, what, why, and the measured effect."""
        return tuple(sorted(self._running.history, key=lambda change: change.at_s))

    @property
    def error(self) -> BaseException | None:
        """The error that ended the job, if it failed."""
        return self._running.error

    @property
    def hung(self) -> str | None:
        """Why a stopped job did not end cleanly, or None."""
        return self._running.hung

    @property
    def written(self) -> Written:
        """How much of the output is in the files of the job.

        "all" when it has finished; "nothing" before that, and also if it failed or was
        stopped. With a checkpoint it is "a part": the next run continues from there. A
        live job, which only `stop()` ends, has "all so far" then.
        """
        if self.status == "finished":
            return "all"
        if self._checkpoint is not None:
            return "a part"
        live = self.compilation.graph.live and self.status == "stopped"
        return "all so far" if live else "nothing"

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the job; return whether it came within `timeout` seconds.

        If the program failed, its error is raised here.
        """
        try:
            return self._running.wait(timeout)
        finally:
            self._tell_end()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Stop the job early; `written` then says how much of the output is in files.

        Items that are being processed (on Spark: the running epoch) are completed. If
        that takes longer than `grace_s`, the job ends without them, and a warning names
        the operator that has not returned.
        """
        self.end(grace_s)
        if self.hung is not None:
            warnings.warn(self.hung, RuntimeWarning, stacklevel=2)

    def end(
        self, grace_s: float = GRACE_S, hurry: Callable[[], bool] = lambda: False
    ) -> None:
        """Stop without a warning; when `hurry()` is true the grace period ends at once."""
        try:
            self._running.stop(grace_s, hurry)
        finally:
            self._tell_end()

    def _tell_end(self) -> None:
        """Show the end on the dashboard and in the exported metrics."""
        if self.status == "running":
            return
        if self.ui is not None:
            self.ui.close()
        if self.exporter is not None:
            self.exporter.close()

    def metrics(self) -> Metrics:
        """Return the measurements so far."""
        found = self._running.metrics()
        if self._failures is not None:
            found = replace(
                found,
                failed=self._failures.by_operator(),
                failures=self._failures.recent(),
            )
        match self._controller:
            case LatencyController() as controller:
                return replace(found, steps=controller.steps())
            case Controller() as controller:
                return replace(found, shares=controller.find_shares())
        return found


def compile_sinks(
    *sinks: Result, on: EngineName = "spark", on_error: str | OnError = "stop"
) -> Compilation:
    """Check and compile a program.

    >>> import anabranch as ab
    >>> made = ab.compile(ab.from_iterable([1, 2]).map(abs).to_list())
    >>> [region.operators for region in made.plan.regions]
    [('from_iterable', 'map')]
    """
    return compile_with(Rules(), sinks, on, on_error)


def compile_with(
    rules: Rules, sinks: Sequence[Result], on: EngineName, on_error: str | OnError
) -> Compilation:
    """Check a program and compile it with some restrictions."""
    graph = graph_of(sinks)
    chosen = policy(on_error)
    target = replace(target_of(on), resilient=chosen is not stop)
    return compile_graph(graph, target, rules, on_error=function_of(chosen))


def refuse_lost_letters(graph: Graph, on_error: OnError) -> None:
    """Raise if late items are to be dead letters, but nothing receives these."""
    for op in graph:
        wanted = isinstance(op.kind, EventTime) and op.kind.late == "dead_letter"
        if wanted and on_error in (stop, skip):
            msg = (
                f"{op.site}: {op.name!r} makes dead letters of late items, so the run must "
                f"take them; say on_error=ab.dead_letter(...), or another late="
            )
            raise ArgumentError(msg)


def target_of(on: EngineName) -> Target:
    """Return the abilities of the engine of that name."""
    if on not in TARGETS:
        raise unknown_engine(on)
    return TARGETS[on]


def unknown_engine(name: str) -> ArgumentError:
    """Return the error for the name of no engine."""
    return ArgumentError(f"on must be 'spark', 'local' or 'sequential'; got {name!r}")


def explain(*sinks: Result, on: EngineName = "spark") -> str:
    """Return a text that says what runs in parallel, what does not, and why.

    >>> import anabranch as ab
    >>> "map" in ab.explain(ab.from_iterable([1, 2]).map(abs).to_list())
    True
    """
    return compile_sinks(*sinks, on=on).explain()


@take_options
def start(*sinks: Result, **options: Unpack[Keywords]) -> Job:
    """Start a program and return its `Job` at once.

    >>> import anabranch as ab
    >>> job = ab.start(ab.from_iterable([1]).to_list(), on="sequential")
    >>> job.wait(timeout=60)
    True
    """
    return start_with(read_options("start", options), sinks)


def start_with(chosen: RunOptions, sinks: Sequence[Result]) -> Job:
    """Start a program with checked options."""
    options = chosen.for_engine()
    kept = options.checkpoint
    compilation = compile_with(rules_for(kept), sinks, chosen.on, options.on_error)
    refuse_lost_letters(compilation.graph, options.on_error)
    engine = engine_named("sequential" if compilation.plan.one_thread else chosen.on)
    refuse_one_thread(compilation, options)
    replanning = Replanning(compilation, options.on_error)
    ambient = capture_ambient(compilation.graph, options.item_timeout_s)
    options = replace(options, replan=replanning, ambient=ambient)
    failures = None
    if options.on_error is not stop:
        failures = FailureCounts(options.on_error)
        options = replace(options, on_error=failures)
    log(_LOGGER, logging.INFO, "start", on=chosen.on, plan=compilation.plan.summary)
    live: Live | None = None
    exporter: Exporter | None = None
    try:
        if chosen.ui is not False:
            live = Live(0 if chosen.ui is True else chosen.ui)
        if chosen.metrics is not None:
            exporter = open_exporter(chosen.metrics)
        options = replace(options, on_epoch=notify_all(live, exporter))
        shown = {} if live is None else program_data(compilation, chosen)
        running = engine.start(compilation.graph, compilation.plan, options)
    except BaseException:
        if live is not None:
            live.give_up()
        if exporter is not None:
            exporter.close()
        raise
    controller: Controller | LatencyController | None = None
    if chosen.degree is None and isinstance(running, Adaptable):
        controller = make_controller(running, chosen.goal, options.journal)
        threading.Thread(
            target=adapt, args=(controller,), name="controller", daemon=True
        ).start()
    job = Job(
        replanning,
        running,
        controller,
        live,
        checkpoint=options.checkpoint,
        failures=failures,
        exporter=exporter,
    )
    if live is not None:
        announce(_LOGGER, f"dashboard: {live.address} (recorded in {live.record})")
        live.begin(shown, partial(look_at, job), job.stop)
    if exporter is not None:
        log(_LOGGER, logging.INFO, "metrics", address=exporter.address)
        exporter.begin(partial(collect_families, job, options.journal))
    return job


def rules_for(checkpoint: str | None) -> Rules:
    """Return the rules that make the plan fit the states of a checkpoint, if there is one."""
    if checkpoint is None:
        return Rules()
    return Rules(
        chains=has_chains(checkpoint), whole_rounds=find_whole_rounds(checkpoint)
    )


def notify_all(live: Live | None, exporter: Exporter | None) -> OnEpoch:
    """Return the listener for epochs: the dashboard, and the metrics exporter."""

    def tell(trace: EpochTrace) -> None:
        if live is not None:
            live.trace(trace)
        if exporter is not None:
            exporter.trace(trace)

    return tell


def make_controller(
    running: Adaptable, goal: Throughput | Latency | None, journal: Journal
) -> Controller | LatencyController:
    """Return the controller of a job for its goal, which writes to a journal."""
    if isinstance(goal, Latency):
        return LatencyController(running.latency_actuator(), goal, journal)
    settings = (goal or Throughput()).settings
    return Controller(running.actuator(), settings, journal)


def adapt(controller: Controller | LatencyController) -> None:
    """Adapt a program until it ends.

    A program does not fail because it cannot be tuned: should the controller fail, its
    history says so and the program stays as it is.
    """
    try:
        controller.run()
    except Exception as error:  # noqa: BLE001 - told in the history
        why = f"the controller failed: {error!r}"
        controller.history.note(Adaptation(controller.now_s, "settled", why, ""))
        log(_LOGGER, logging.ERROR, "the controller failed", error=repr(error))


def collect_families(job: Job, journal: Journal) -> list[Family]:
    """Return the current metrics of a job."""
    return list_families(job.metrics(), journal.decided)


def refuse_one_thread(compilation: Compilation, options: Options) -> None:
    """Refuse Spark-only options if a program must run as one thread."""
    why = compilation.plan.one_thread
    if not why:
        return
    needs = [
        f"{op.name} ({op.site}) needs Spark"
        for op in compilation.graph
        if isinstance(op.kind, FromSpark | ToSpark)
    ]
    if options.checkpoint is not None:
        needs.append("checkpoint= needs Spark")
    if needs:
        msg = (
            f"this program must run as one thread, since its parts share something or "
            f"must not be given copies; {why}; but {needs[0]}; keep what is shared in a "
            f"scan or an Operator, and compare by what a copy keeps"
        )
        raise PlanError(msg)


def look_at(job: Job) -> JobSnapshot:
    """Return the present state of a job as plain data, for its dashboard."""
    status, error = job.status, job.error  # first: the rest is then not older
    return JobSnapshot(
        status,
        job.metrics(),
        [asdict(change) for change in job.history],
        None if error is None else f"{type(error).__name__}: {error}",
    )


def program_data(compilation: Compilation, chosen: RunOptions) -> dict[str, Any]:
    """Return the dashboard's view of a program before it has run."""
    goal = chosen.goal
    return {
        "on": chosen.on,
        "checkpoint": None if chosen.checkpoint is None else str(chosen.checkpoint),
        "cores": len(os.sched_getaffinity(0)),
        "started": time.time(),
        "bound_ms": goal.bound_s * 1000 if isinstance(goal, Latency) else None,
        "quantile": goal.quantile if isinstance(goal, Latency) else None,
        **overview(compilation),
    }


@take_options
def run(*sinks: Result, **options: Unpack[Keywords]) -> Job:
    """Run a bounded program to its end and return its `Job`.

    Ctrl-C and SIGTERM stop the job, which then leaves no output (see `Job.written`); a
    second one ends it immediately.

    >>> import anabranch as ab
    >>> squares = ab.from_iterable([1, 2, 3]).map(lambda n: n * n).to_list()
    >>> _ = ab.run(squares, on="sequential")
    >>> squares.items
    [1, 4, 9]
    """
    chosen = read_options("run", options)
    cell = open_cell()
    with Signals() as signals:
        with signals.waiting():
            job = start_with(chosen, sinks)
            try:
                wait_for_end(job, signals, look=partial(show_in, cell, job))
            finally:
                show_in(cell, job)
        raise_signal(signals, "; ".join(filter(None, [describe_end(job), job.hung])))
    return job


def describe_end(job: Job) -> str:
    """Return how a job has ended, and what has become of its output."""
    return _STOPPED[job.written] if job.status == "stopped" else job.status


_STOPPED: dict[Written, str] = {
    "nothing": "stopped early, so there is no output in files",
    "a part": "stopped early; run the job again with the same checkpoint to continue",
    "all so far": "stopped; the output holds everything up to here",
}


def show_in(cell: Cell | None, job: Job) -> None:
    """Show the present state of a job, if it runs in a notebook cell."""
    if cell is not None:
        cell.show(look_at(job))


def graph_of(sinks: Sequence[Result]) -> Graph:
    """Return the checked graph of a program."""
    for given in sinks:
        if not isinstance(given, Result | Stream):
            raise ArgumentError(_describe_no_sink(given))
    graph = build_graph(sinks)
    validate(graph)
    return graph


def _describe_no_sink(given: object) -> str:
    """Return why something that was to be run is no sink, and what to write."""
    advice = "end a stream with a sink, such as .write_csv(path) or .to_list()"
    if isinstance(given, list | tuple):
        advice = "hand over the sinks of a list one by one: *sinks"
    return f"a program must be given as its sinks; got {given!r:.80}; {advice}"


def engine_named(name: EngineName) -> Engine:
    """Return the engine of that name; only this one is loaded."""
    match name:
        case "sequential":
            kind = importlib.import_module(
                "anabranch.engines.sequential"
            ).SequentialEngine
        case "local":
            kind = importlib.import_module("anabranch.engines.local.run").LocalEngine
        case "spark":
            kind = load_spark().SparkEngine
        case _:
            raise unknown_engine(name)
    made: Engine = kind()
    return made


def load_spark() -> ModuleType:
    """Return the module of the Spark engine, or say how to install it."""
    try:
        return importlib.import_module("anabranch.engines.spark.engine")
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module == "anabranch":
            raise
        msg = (
            f"on='spark' needs the module {module}; it is not installed; say "
            f"pip install 'anabranch[spark]', or run with on='local'"
        )
        raise EngineError(msg) from error
