"""`anabranch explain`: what is parallel in a program, what is not, and why."""

from __future__ import annotations

import argparse
import json

from anabranch.cli.arguments import add_engine, add_target
from anabranch.cli.programs import load_sinks
from anabranch.job import compile_sinks

EXAMPLES = """\
examples:
  anabranch explain vwap.py
  anabranch explain vwap.py:prices --json | jq .regions
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "explain",
        help="say what is parallel in a program, what is not, and why",
        description="Say what is parallel in a program, what is not, and the line that "
        "forces it. Nothing is run.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_target(parser)
    add_engine(parser)
    parser.add_argument("--json", action="store_true", help="as data, for programs")
    parser.set_defaults(command=explain)


def explain(arguments: argparse.Namespace) -> int:
    """Print the explanation."""
    compilation = compile_sinks(*load_sinks(arguments.target), on=arguments.on)
    text = (
        json.dumps(compilation.to_dict(), indent=2)
        if arguments.json
        else compilation.explain()
    )
    print(text)  # noqa: T201 - the result of the command
    return 0
