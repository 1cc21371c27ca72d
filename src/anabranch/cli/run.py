"""`anabranch run`: run a program to its end, with a progress line and a summary."""

from __future__ import annotations

import argparse
import itertools
import logging
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from anabranch.cli.console import (
    add_engine,
    add_target,
    at_least,
    load_sinks,
    local_path,
    words,
)
from anabranch.control.goals import Latency, latency, seconds_of
from anabranch.errors import AnabranchError, ArgumentError, OperatorError
from anabranch.export.targets import refuse_target
from anabranch.graph.graph import Op
from anabranch.job import Job, describe_end, start
from anabranch.logs import ROOT, JsonFormatter
from anabranch.metrics.job_metrics import Metrics
from anabranch.operators.sinks import ToList, WriteFiles
from anabranch.plan.plan import Plan
from anabranch.runtime.failures import DeadLetter, OnError, dead_letter
from anabranch.runtime.thread import GRACE_S
from anabranch.signals import POLL_S, Signals, wait_for_end

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_RECENT = 25  # samples for the rate: five seconds


def watch(job: Job, console: Console, signals: Signals) -> None:
    """Wait for the end of a job, showing its progress on a terminal."""

    def say_so() -> None:
        again = "Ctrl-C again ends it at once"
        console.print(f"stopping, within {GRACE_S:g} s; {again}", markup=False)

    if not console.is_terminal:
        wait_for_end(job, signals, told=say_so)
        return
    meter = Meter()
    spinner = Spinner("dots")
    with Live(
        spinner,
        console=console,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
        refresh_per_second=1 / POLL_S,
    ):
        wait_for_end(
            job,
            signals,
            look=lambda: spinner.update(text=Text(meter.line(job.metrics()))),
            told=say_so,
        )


class Meter:
    """Formats the metrics of a job as a line.

    >>> from anabranch.metrics.latency import LatencySummary
    >>> meter = Meter()
    >>> meter.line(Metrics("spark", "running", 2.0, read={"trades": 0}))
    'starting  0:02'
    >>> meter.line(Metrics("spark", "running", 4.0, read={"trades": 3000}, epochs=1))
    '3,000 items read  1,500 items/s  1 epoch  0:04'
    >>> latency = LatencySummary(items=9, p99_ms=21.5)
    >>> meter.line(Metrics("local", "running", 5.0, read={"trades": 4500}, backlog=900,
    ...     latency=latency))
    '4,500 items read  1,500 items/s  p99 21.5 ms  900 waiting  0:05'
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=_RECENT)

    def line(self, metrics: Metrics) -> str:
        """Return the line for the latest metrics."""
        elapsed_s = metrics.elapsed_s
        read = sum(metrics.read.values())
        self._samples.append((elapsed_s, read))
        if not read:
            doing = describe_epoch(metrics) or "starting"
            return f"{doing}  {clock(elapsed_s)}"
        parts = [f"{read:,} items read", f"{self._rate():,.0f} items/s"]
        if metrics.engine == "spark":
            parts.append(format_count(metrics.epochs, "epoch"))
            if doing := describe_epoch(metrics):
                parts.append(doing)
        if metrics.latency.items:
            parts.append(f"p99 {metrics.latency.p99_ms:g} ms")
        if metrics.backlog is not None:
            parts.append(f"{metrics.backlog:,} waiting")
        return "  ".join([*parts, clock(elapsed_s)])

    def _rate(self) -> float:
        """Return the recent items per second, without the start-up."""
        (first_s, first), (last_s, last) = self._samples[0], self._samples[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


def describe_epoch(metrics: Metrics) -> str:
    """Return the progress of the furthest operator in the running epoch.

    >>> done = {"parse": 4096, "count": 900}
    >>> describe_epoch(
    ...     Metrics("spark", "running", 2.0, epochs=2, epoch_rows=4096, epoch_done=done)
    ... )
    'epoch 3: count 900 of 4,096'
    """
    if not metrics.epoch_done:
        return ""
    name, done = list(metrics.epoch_done.items())[-1]
    return f"epoch {metrics.epochs + 1}: {name} {done:,} of {metrics.epoch_rows:,}"


def clock(seconds: float) -> str:
    """Return a time as on a clock.

    >>> clock(3725.6)
    '1:02:05'
    """
    minutes, second = divmod(int(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def format_count(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> format_count(1, "epoch"), format_count(2000, "item")
    ('1 epoch', '2,000 items')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def summarise(job: Job, on: str, show: int, lost: str = "") -> Iterator[str]:
    """Yield the lines of the summary, with `show` items at both ends of each output.

    `lost` says where failed items are.
    """
    metrics = job.metrics()
    facts = [f"on {on}", f"{metrics.elapsed_s:.1f} s"]
    if metrics.engine == "spark":
        facts.append(format_count(metrics.epochs, "epoch"))
    if on != "sequential":
        facts.append(_width(job.plan))
    if _had_ended(metrics):
        yield "the job had already finished with this checkpoint: nothing was run"
        yield "  to run it again, give an empty directory as checkpoint, and a new output"
    else:
        yield f"{describe_end(job)}: {', '.join(facts)}"
    if job.hung is not None:
        yield f"  {job.hung}"
    for name, count in metrics.read.items():
        yield f"  read {format_count(count, 'item')} from {name}"
    for name, count in metrics.failed.items():
        yield f"  left out {format_count(count, 'item')} that failed at {name}{lost}"
    for name, count in metrics.delivered.items():
        op = job.compilation.graph[name]
        if isinstance(op.kind, WriteFiles) and job.written == "nothing":
            yield f"  did not write {op.kind.path}"
            continue
        if isinstance(op.kind, WriteFiles) and job.written == "a part":
            kept = f"the checkpoint keeps {format_count(count, 'item')}"
            yield f"  {op.kind.path} is not complete: {kept}; run it again to continue"
            continue
        before = _had_ended(metrics) and isinstance(op.kind, WriteFiles)
        place = f"earlier runs {_place(op)}" if before else _place(op)
        yield f"  {place}: {format_count(count, 'item')}"
        yield from (f"    {line}" for line in _look(op, show))


def _had_ended(metrics: Metrics) -> bool:
    """Tell whether a job did nothing, since earlier runs had come to its end."""
    return (
        metrics.engine == "spark"
        and metrics.status == "finished"
        and not metrics.epochs
        and any(metrics.read.values())
    )


def _width(plan: Plan) -> str:
    inside = sum(len(region.operators) for region in plan.regions)
    return f"{inside} of {format_count(len(plan.operators), 'operator')} parallel"


def _place(op: Op) -> str:
    if isinstance(op.kind, WriteFiles):
        return f"wrote {op.kind.path}"
    return f"{op.name}"


def _look(op: Op, show: int) -> Iterator[str]:
    """Yield the first and the last items of an output that can be read again."""
    if show < 1:
        return
    items: Iterable[Any]
    match op.kind:
        case ToList(items=items):
            yield from _ends(map(repr, items), show, show)
        case WriteFiles(format="csv" | "jsonl" as form, path=path):
            head = show + 1 if form == "csv" else show
            if Path(path).exists():
                yield from _ends(_rows(Path(path), form), head, show)


def _rows(path: Path, form: str) -> Iterator[str]:
    """Yield the rows of a text output, part by part, with one header."""
    parts = sorted(path.glob(f"part-*.{form}")) if path.is_dir() else [path]
    header = form == "csv"
    for number, part in enumerate(parts):
        with part.open(encoding="utf-8", newline="") as file:
            lines = (line.rstrip("\r\n") for line in file)
            if header:
                first = next(lines, None)
                if number == 0 and first is not None:
                    yield first
            yield from lines


def _ends(rows: Iterator[str], head: int, tail: int) -> Iterator[str]:
    """Yield rows of both ends, and the number in between.

    >>> list(_ends(iter("abcdefg"), 2, 2))
    ['a', 'b', '... 3 more', 'f', 'g']
    >>> list(_ends(iter("abc"), 2, 2))
    ['a', 'b', 'c']
    """
    yield from itertools.islice(rows, head)
    kept: deque[str] = deque(maxlen=tail)
    passed = 0
    for row in rows:
        passed += len(kept) == tail
        kept.append(row)
    if passed:
        yield f"... {passed:,} more"
    yield from kept


EXAMPLES = """\
examples:
  anabranch run vwap.py                        on Spark, on this machine
  anabranch run vwap.py:prices --on sequential as one thread, without Spark
  anabranch run vwap.py --degree 8 --master spark://host:7077
  anabranch run vwap.py --latency "200 ms"     with as few replicas as this bound needs
  anabranch run vwap.py --ui                   with a dashboard
  anabranch run vwap.py --metrics prometheus://:9464 --log info
  anabranch run vwap.py --on-error lost.jsonl  continue without failed items
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "run",
        help="run a program to its end",
        description="Run a program to its end. Ctrl-C or SIGTERM stops it cleanly; a "
        "second one ends it immediately. A bounded job that is stopped writes no files; "
        "with --checkpoint the same command continues it later.",
        epilog=EXAMPLES,
    )
    add_target(parser)
    _add_engine_options(parser)
    _add_failure_options(parser)
    _add_report_options(parser)
    parser.set_defaults(command=run)


def _add_engine_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument(
        "--master",
        metavar="URL",
        help="the Spark cluster, or sc://... (default: this machine)",
    )
    parser.add_argument(
        "--degree",
        type=at_least(1),
        metavar="N",
        help="replicas of each parallel region (default: the engine chooses)",
    )
    parser.add_argument(
        "--latency",
        type=parse_latency,
        metavar="BOUND",
        help='keep 99%% of the items within a bound such as "200 ms"',
    )


def _add_failure_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="save state here after every epoch, and continue from it (Spark)",
    )
    parser.add_argument(
        "--epoch-items",
        type=at_least(1),
        metavar="N",
        help="items of each source per epoch (Spark; default: chosen while it runs)",
    )
    parser.add_argument(
        "--on-error",
        type=on_error,
        default="stop",
        metavar="stop|skip|FILE.jsonl",
        help="if an item fails: stop the job (default), skip the item, or skip it and "
        "append it to a dead-letter file",
    )
    parser.add_argument(
        "--item-timeout",
        type=parse_duration,
        metavar="TIME",
        help='the longest time for one item, such as "30 s"; beyond it the item fails',
    )
    parser.add_argument(
        "--verify",
        choices=("sample", "all", "off"),
        default="sample",
        help="check while it runs that operators in parallel keep no state: some batches "
        "(sample, the default), every batch, or none",
    )


def _add_report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ui",
        action="store_true",
        help="serve a dashboard on this machine and print its address: what limits the "
        "job, throughput, latency, operators, epochs, adaptations",
    )
    parser.add_argument(
        "--ui-port",
        type=at_least(1),
        metavar="N",
        help="the dashboard on this port (default: any free one)",
    )
    parser.add_argument(
        "--metrics",
        type=parse_target,
        metavar="URL",
        help="serve metrics for Prometheus (prometheus://:9464), or send them by "
        "OpenTelemetry (otlp://host:4317)",
    )
    parser.add_argument(
        "--log",
        choices=("debug", "info", "warning", "error"),
        help="log to stderr: adaptations, epochs, failed items",
    )
    parser.add_argument(
        "--log-json",
        action="store_true",
        help="the same as lines of JSON (default level: info)",
    )
    parser.add_argument(
        "--show",
        type=at_least(0),
        default=3,
        metavar="N",
        help="items to show of both ends of each output (default: 3)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the program; the exit status says whether it succeeded."""
    console = words()
    set_up_logging(arguments.log, as_json=arguments.log_json)
    with Signals() as signals:
        sinks = load_sinks(arguments.target)
        with signals.waiting():
            job = start(
                *sinks,
                on=arguments.on,
                master=arguments.master,
                degree=arguments.degree,
                goal=arguments.latency,
                checkpoint=arguments.checkpoint,
                epoch_items=arguments.epoch_items,
                on_error=arguments.on_error,
                item_timeout=arguments.item_timeout,
                verify=arguments.verify,
                ui=arguments.ui_port or arguments.ui,
                metrics=arguments.metrics,
            )
            policy = arguments.on_error
            try:
                watch(job, console, signals)
            except AnabranchError as error:
                of_item = isinstance(error, OperatorError) or error.place is not None
                if of_item and policy == "stop":
                    error.add_note(_LEAVE_OUT)
                raise
            lost = f": see {policy.target}" if isinstance(policy, DeadLetter) else ""
            for line in summarise(job, arguments.on, arguments.show, lost):
                console.print(line, markup=False)
    return 0 if job.status == "finished" else signals.exit_status


_LEAVE_OUT = (
    "to leave such items out, add --on-error skip, or --on-error FILE.jsonl to keep them "
    "in a file"
)


def set_up_logging(level: str | None, *, as_json: bool) -> None:
    """Write the library's log to stderr, if requested."""
    if level is None and not as_json:
        return
    handler = logging.StreamHandler()
    form = "%(asctime)s %(levelname)s %(name)s %(message)s"
    handler.setFormatter(JsonFormatter() if as_json else logging.Formatter(form))
    logger = logging.getLogger(ROOT)
    logger.addHandler(handler)
    logger.setLevel((level or "info").upper())


def parse_target(text: str) -> str:
    """Parse the value of `--metrics`.

    >>> parse_target("prometheus://:9464")
    'prometheus://:9464'
    """
    try:
        refuse_target(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def parse_latency(text: str) -> Latency:
    """Parse the value of `--latency`.

    >>> parse_latency("200 ms").bound_s
    0.2
    """
    try:
        return latency(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_duration(text: str) -> float:
    """Parse a duration, such as the value of `--item-timeout`; a number is in seconds.

    >>> parse_duration("2 min"), parse_duration("30")
    (120.0, 30.0)
    """
    try:
        return seconds_of(f"{text} s" if _NUMBER.fullmatch(text) else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def on_error(text: str) -> str | OnError:
    """Parse the value of `--on-error`.

    >>> on_error("skip")
    'skip'
    >>> on_error("lost.jsonl")
    DeadLetter(target='lost.jsonl')
    """
    if text in ("stop", "skip"):
        return text
    if text.endswith(".jsonl"):
        return dead_letter(local_path(text))
    msg = f"must be stop, skip or the name of a .jsonl file; got {text!r}"
    raise argparse.ArgumentTypeError(msg)
