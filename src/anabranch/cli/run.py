"""`anabranch run`: run a program to its end."""

from __future__ import annotations

import argparse

from anabranch.cli.arguments import add_engine, add_target, at_least
from anabranch.cli.console import words
from anabranch.cli.programs import load_sinks
from anabranch.cli.progress import watch
from anabranch.cli.summary import summarise
from anabranch.control.goals import Latency, latency
from anabranch.job import start
from anabranch.runtime.failures import OnError, dead_letter

INTERRUPTED = 130  # what a shell expects of a command that Ctrl-C ended
EXAMPLES = """\
examples:
  anabranch run vwap.py                        on Spark, in this machine
  anabranch run vwap.py:prices --on sequential as one thread, without Spark
  anabranch run vwap.py --degree 8 --master spark://host:7077
  anabranch run vwap.py --latency "200 ms"     as few replicas as keep this bound
  anabranch run vwap.py --ui                   with a page to watch it on
  anabranch run vwap.py --on-error lost.jsonl  go on without items that fail
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "run",
        help="run a program to its end",
        description="Run a program to its end. Ctrl-C stops it cleanly.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_target(parser)
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
        type=bound,
        metavar="BOUND",
        help='keep 99%% of the items within a bound such as "200 ms"',
    )
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="where state is kept, to go on from later"
    )
    parser.add_argument(
        "--epoch-items",
        type=at_least(1),
        metavar="N",
        help="items that each source gives to an epoch (Spark)",
    )
    parser.add_argument(
        "--on-error",
        type=on_error,
        default="stop",
        metavar="stop|skip|FILE.jsonl",
        help="what to do with an item that fails: end the job (default), leave it out, "
        "or leave it out and note it in a file",
    )
    parser.add_argument(
        "--ui",
        action="store_true",
        help="serve a dashboard on this machine while it runs, and say where: load, "
        "latency, replicas, and each adaptation with its reason",
    )
    parser.add_argument(
        "--ui-port",
        type=at_least(1),
        metavar="N",
        help="the same, on this port (default: one that is free)",
    )
    parser.add_argument(
        "--show",
        type=at_least(0),
        default=3,
        metavar="N",
        help="items to show of both ends of each output (default: 3)",
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the program; the exit status says whether it ended well."""
    console = words()
    job = start(
        *load_sinks(arguments.target),
        on=arguments.on,
        master=arguments.master,
        degree=arguments.degree,
        goal=arguments.latency,
        checkpoint=arguments.checkpoint,
        epoch_items=arguments.epoch_items,
        on_error=arguments.on_error,
        ui=arguments.ui_port or arguments.ui,
    )
    try:
        watch(job, console)
    except KeyboardInterrupt:
        console.print("stopping ...", markup=False)
        job.stop()
    for line in summarise(job, arguments.on, arguments.show):
        console.print(line, markup=False)
    return 0 if job.status == "finished" else INTERRUPTED


def bound(text: str) -> Latency:
    """Return what `--latency` means.

    >>> bound("200 ms").bound_s
    0.2
    """
    try:
        return latency(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def on_error(text: str) -> str | OnError:
    """Return what `--on-error` means.

    >>> on_error("skip")
    'skip'
    >>> on_error("lost.jsonl")
    DeadLetter(target='lost.jsonl')
    """
    if text in ("stop", "skip"):
        return text
    if text.endswith(".jsonl"):
        return dead_letter(text)
    msg = f"must be stop, skip or the name of a .jsonl file; got {text!r}"
    raise argparse.ArgumentTypeError(msg)
