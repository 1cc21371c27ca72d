"""`anabranch verify`: compare a program on all engines with its sequential run."""

from __future__ import annotations

import argparse

from rich.text import Text

from anabranch.cli.console import add_target, at_least, load_sinks, words
from anabranch.errors import AnabranchError
from anabranch.graph.graph import Graph
from anabranch.job import graph_of
from anabranch.testing.assertions import (
    SAMPLE_ITEMS,
    SampleRun,
    Setting,
    describe_difference,
    make_settings,
    run_sample,
    take_sample,
)

EXAMPLES = """\
examples:
  anabranch verify vwap.py                     on local and Spark, degrees 1 to 3
  anabranch verify vwap.py --on local          without Java
  anabranch verify vwap.py --items 1000000     on a larger sample of your data
  anabranch verify vwap.py --degrees 2 8 --epoch-items 100
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "verify",
        help="compare a program on all engines with its sequential run",
        description="Run a program on a sample of its own input, on each engine and at "
        "each degree, and compare the items and their order with those of one thread. "
        "Sinks are replaced by lists: nothing is written or sent.",
        epilog=EXAMPLES,
    )
    add_target(parser)
    parser.add_argument(
        "--on",
        nargs="+",
        choices=("local", "spark"),
        default=["local", "spark"],
        metavar="ENGINE",
        help="the engines to compare: local, spark (default: both)",
    )
    parser.add_argument(
        "--degrees",
        nargs="+",
        type=at_least(1),
        default=[1, 2, 3],
        metavar="N",
        help="the numbers of replicas to try (default: 1 2 3)",
    )
    parser.add_argument(
        "--items",
        type=at_least(1),
        default=SAMPLE_ITEMS,
        metavar="N",
        help=f"items to take from each source (default: {SAMPLE_ITEMS})",
    )
    parser.add_argument(
        "--epoch-items",
        nargs="+",
        type=at_least(1),
        metavar="N",
        help="items of an epoch on Spark (default: a third of the sample)",
    )
    parser.set_defaults(command=verify)


def verify(arguments: argparse.Namespace) -> int:
    """Compare the runs; 1 if one of them differs."""
    console = words()

    def load() -> Graph:
        return graph_of(load_sinks(arguments.target))

    graph = load()
    sample = take_sample(graph, arguments.items)
    read = max(map(len, sample.values()), default=0)
    expected = run_sample(graph, sample, Setting("sequential"))
    console.print(f"sequential: {_describe(expected)} from {read} items of each source")
    different = 0
    epochs = arguments.epoch_items or [max(1, -(-read // 3))]
    for setting in make_settings(arguments.on, arguments.degrees, epochs):
        try:
            found = run_sample(load(), sample, setting)
        except AnabranchError as error:  # it did not even start
            found = SampleRun({}, f"{type(error).__name__}: {error}")
        why = describe_difference(expected, found)
        different += why is not None
        verdict = ("same", "green") if why is None else ("DIFFERENT", "bold red")
        console.print(Text.assemble(f"{setting}: ", verdict, f": {why}" if why else ""))
    if different:
        console.print(
            "A difference is a fault of Anabranch, or of something that was declared "
            "(ab.declare, ab.trust) and does not hold; anabranch explain says what was."
        )
    return 1 if different else 0


def _describe(outcome: SampleRun) -> str:
    if outcome.error is not None:
        return f"fails with {outcome.error}"
    return f"{outcome.count} outputs"
