"""The console of the command line, its error, and the arguments that commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from anabranch.connectors.storage import Location, locate
from anabranch.errors import AnabranchError, CheckpointError
from anabranch.graph.paths import path_advice, plain_path, why_not_path
from anabranch.run_options import checkpoint_path


def words() -> Console:
    """Return the console for messages, progress and summaries."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


class CommandError(AnabranchError):
    """A file, a name or a folder on the command line is missing or unusable."""

    code = "AB61"


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


def local_path(text: str) -> Path:
    """Return the path that an argument names: a plain one or a `file:` URL.

    >>> local_path("file:///jobs/vwap.checkpoint")
    PosixPath('/jobs/vwap.checkpoint')
    """
    path = plain_path(text)
    why = why_not_path(path)
    if why is not None:
        msg = f"must be a path of this machine; {why}; {path_advice(path)}"
        raise argparse.ArgumentTypeError(msg)
    return Path(path)


def checkpoint_place(text: str) -> Location:
    """Return the location of a checkpoint that an argument names.

    >>> checkpoint_place("s3://jobs/vwap.checkpoint").name
    'vwap.checkpoint'
    """
    try:
        return locate(checkpoint_path(text))
    except CheckpointError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def at_least(least: int) -> Callable[[str], int]:
    """Return an argument type: an integer with a lower bound.

    >>> at_least(1)("8")
    8
    """

    def number(text: str) -> int:
        if text.isdecimal() and int(text) >= least:
            return int(text)
        msg = f"must be a whole number of at least {least}; got {text!r}"
        raise argparse.ArgumentTypeError(msg)

    return number
