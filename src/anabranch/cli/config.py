"""Options of `anabranch run` from a file and from the environment.

`anabranch.toml` in the current directory has them under `[run]`, by their long names;
`ANABRANCH_RUN_...` variables override it, and the command line overrides both. They are
inserted before the typed arguments, so that they are parsed and checked like those.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from anabranch.cli.console import CommandError

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
