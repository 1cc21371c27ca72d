"""The `anabranch` command: its parser, its exit status, its configuration and completion.

Exit status: 0 only if all went well, 1 for an error reported in one message, 2 for a
command that was not understood, 130 after Ctrl-C, 143 after SIGTERM.

`anabranch.toml` in the current directory has options of `anabranch run` under `[run]`,
by their long names; `ANABRANCH_RUN_...` variables override it, and the command line
overrides both. They are inserted before the typed arguments, so that they are parsed
and checked like those.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import shtab
from rich.text import Text

from anabranch.cli import (
    bench,
    checkpoint,
    dashboard,
    doctor,
    explain,
    new,
    run,
    simulate,
    verify,
)
from anabranch.cli.console import CommandError, words
from anabranch.errors import AnabranchError
from anabranch.runtime.memory_reserve import explain_lack, is_lack

EXAMPLES = """\
examples:
  anabranch completion bash > ~/.local/share/bash-completion/completions/anabranch
  anabranch completion zsh > ~/.zfunc/_anabranch
"""


def add_completion(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    make_parser: Callable[[], argparse.ArgumentParser],
) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Print a script that lets a shell complete commands and options.",
        epilog=EXAMPLES,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))

    def complete(arguments: argparse.Namespace) -> int:
        sys.stdout.write(shtab.complete(make_parser(), arguments.shell) + "\n")
        return 0

    parser.set_defaults(command=complete)


FILE = "anabranch.toml"
PREFIX = "ANABRANCH_RUN_"

Options: TypeAlias = Mapping[str, argparse.Action]  # long name, without dashes -> it
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def long_options(parser: argparse.ArgumentParser) -> Options:
    """Return the options of a command.

    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_argument("--epoch-items")
    >>> sorted(long_options(parser))
    ['epoch-items', 'help']
    """
    return {
        name[2:]: action
        for action in parser._actions  # noqa: SLF001 - argparse has no other way
        for name in action.option_strings
        if name.startswith("--")
    }


def list_configured(
    options: Options, folder: Path, environment: Mapping[str, str]
) -> list[str]:
    """Return the arguments from file and environment, the file's first."""
    path = folder / FILE
    found = [*_in_file(path), *_in_environment(environment)]
    return [
        word
        for name, value, place in found
        for word in _say(options, name, value, place)
    ]


def _in_file(path: Path) -> Iterator[tuple[str, Any, str]]:
    if not path.is_file():
        return
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{path} must be a TOML file; {error}"
        raise CommandError(msg) from error
    other = sorted(set(content) - {"run"})
    if other or not isinstance(content.get("run", {}), dict):
        msg = f"{path} must have one table, [run]; got {', '.join(other) or 'a value'}"
        raise CommandError(msg)
    for name, value in content.get("run", {}).items():
        yield name.replace("_", "-"), value, str(path)


def _in_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    for variable, value in sorted(environment.items()):
        if variable.startswith(PREFIX):
            name = variable.removeprefix(PREFIX).lower().replace("_", "-")
            yield name, value, variable


def _say(options: Options, name: str, value: Any, place: str) -> list[str]:
    action = options.get(name)
    if action is None or name == "help":
        known = ", ".join(sorted(set(options) - {"help"}))
        msg = f"{place} must name options of `anabranch run`; got {name!r}; there are {known}"
        raise CommandError(msg)
    if action.nargs != 0:
        return [f"--{name}={value}"]
    text = str(value).lower()
    if text not in (*_TRUE, *_FALSE):
        msg = f"{name!r} in {place} must be true or false; got {value!r}"
        raise CommandError(msg)
    return [f"--{name}"] if text in _TRUE else []


USAGE = 2  # the exit status of argparse for a wrong command line
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
    if not typed:
        parser.exit(USAGE, parser.format_help())
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
        for note in getattr(error, "__notes__", ()):
            words().print(note, markup=False)
        return 1
    except (MemoryError, RuntimeError) as error:
        if not is_lack(error):
            raise
        words().print(Text.assemble(("error: ", "bold red"), str(explain_lack(error))))
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


class Parser(argparse.ArgumentParser):
    """A parser that proposes the command that was probably meant."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        near = difflib.get_close_matches(str(value), action.choices or (), n=1)
        if near and value not in (action.choices or ()):
            self.error(f"there is no {value!r}; did you mean {near[0]!r}?")
        super()._check_value(action, value)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser: argparse.ArgumentParser = Parser(
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
    add_completion(commands, make_parser)
    for command in commands.choices.values():  # examples are shown as written
        command.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


if __name__ == "__main__":
    sys.exit(main())
