"""`anabranch run`: run a program to its end."""

from __future__ import annotations

import argparse
import logging

from anabranch.cli.console import add_engine, add_target, at_least, local_path, words
from anabranch.cli.programs import load_sinks
from anabranch.cli.report import summarise, watch
from anabranch.control.goals import Latency, latency, seconds_of
from anabranch.errors import ArgumentError
from anabranch.export.targets import refuse_target
from anabranch.job import start
from anabranch.logs import ROOT, JsonFormatter
from anabranch.runtime.failures import OnError, dead_letter
from anabranch.signals import Signals

EXAMPLES = """\
examples:
  anabranch run vwap.py                        on Spark, on this machine
  anabranch run vwap.py:prices --on sequential as one thread, without Spark
  anabranch run vwap.py --degree 8 --master spark://host:7077
  anabranch run vwap.py --latency "200 ms"     as few replicas as keep this bound
  anabranch run vwap.py --ui                   with a page to watch it on
  anabranch run vwap.py --metrics prometheus://:9464 --log info
  anabranch run vwap.py --on-error lost.jsonl  go on without items that fail
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
        "--master", metavar="URL", help="the Spark cluster (default: this machine)"
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
            watch(job, console, signals)
            for line in summarise(job, arguments.on, arguments.show):
                console.print(line, markup=False)
    return 0 if job.status == "finished" else signals.exit_status


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
    """Parse a duration, such as the value of `--item-timeout`.

    >>> parse_duration("30 s")
    30.0
    """
    try:
        return seconds_of(text)
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
