"""Arguments that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable

ENGINES = ("spark", "local", "sequential")


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add FILE[:NAME]."""
    parser.add_argument(
        "target",
        metavar="FILE[:NAME]",
        help="a Python file, and in it a sink, a list of sinks or a function that "
        "returns them; without NAME: program, main, sinks or the only sink",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add --on."""
    parser.add_argument(
        "--on",
        choices=ENGINES,
        default="spark",
        help="where it runs (default: spark)",
    )


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of a whole number with a lower bound.

    >>> at_least(1)("8")
    8
    """

    def number(text: str) -> int:
        if text.isdecimal() and int(text) >= least:
            return int(text)
        msg = f"must be a whole number of at least {least}; got {text!r}"
        raise argparse.ArgumentTypeError(msg)

    return number
