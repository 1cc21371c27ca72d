"""The `anabranch` command: its parser and its exit status.

Exit status: 0 only if all went well, 1 for an error reported in one message, 2 for a
command that was not understood, 130 after Ctrl-C, 143 after SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from rich.text import Text

from anabranch.cli import (
    bench,
    checkpoint,
    completion,
    dashboard,
    doctor,
    explain,
    new,
    run,
    simulate,
    verify,
)
from anabranch.cli.config import list_configured, long_options
from anabranch.cli.console import words
from anabranch.errors import AnabranchError

INTERRUPTED = 130  # the conventional exit status after Ctrl-C
COMMANDS = (
    new.add,
    run.add,
    explain.add,
    verify.add,
    explain.add_graph,
    simulate.add,
    checkpoint.add,
    dashboard.add,
    doctor.add,
    bench.add_apps,
    bench.add,
)
TEACHING = """\
A program is a Python file that ends in a sink:

  # names.py
  import anabranch as ab
  words = ab.read_text("words.txt").flat_map(str.split)
  program = words.filter(str.istitle).write_csv("names.csv")

  anabranch explain names.py    see what runs in parallel, and why the rest does not
  anabranch run names.py        run it on Spark, on this machine
  anabranch graph names.py -o names.svg

`anabranch COMMAND --help` describes a command, with examples.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = make_parser()
    typed = sys.argv[1:] if argv is None else list(argv)
    try:
        arguments = parser.parse_args(with_config(typed))
        status: int = arguments.command(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, as with `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        words().print("stopped early, before the job had begun")
        return INTERRUPTED
    except AnabranchError as error:
        words().print(Text.assemble((f"error {error.code}: ", "bold red"), str(error)))
        return 1
    except OSError as error:  # a full disk, or another file error
        _give_up_stdout()
        place = error.filename or "a file or the output of this command"
        why = f"{place} must be usable; {error.strerror or error}"
        words().print(Text.assemble(("error: ", "bold red"), why))
        return 1
    return status


def with_config(typed: list[str]) -> list[str]:
    """Return the arguments, preceded by the options of file and environment."""
    if typed[:1] != ["run"] or {"-h", "--help"} & set(typed):
        return typed
    commands = argparse.ArgumentParser().add_subparsers()
    run.add(commands)
    options = long_options(commands.choices["run"])
    return ["run", *list_configured(options, Path(), os.environ), *typed[1:]]


def _give_up_stdout() -> None:
    """Drop unwritable output, so that Python does not try again at its exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="anabranch",
        description="Stream programs that parallelise themselves, safely, on Spark.",
        epilog=TEACHING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"anabranch {version('anabranch')}"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in COMMANDS:
        add(commands)
    completion.add(commands, make_parser)
    for command in commands.choices.values():  # examples are shown as written
        command.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


if __name__ == "__main__":
    sys.exit(main())
