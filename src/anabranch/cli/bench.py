"""`anabranch bench`: run a benchmark of the project."""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys

from anabranch.cli.errors import CommandError
from anabranch.cli.folders import project_folder


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "bench",
        help="run a benchmark of the project",
        description="Run a benchmark of the project: bench/NAME.py.",
        epilog="example:\n  anabranch bench compile_time 100 1000\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="none: list them")
    parser.add_argument(
        "rest", metavar="...", nargs=argparse.REMAINDER, help="passed on to it"
    )
    parser.set_defaults(command=bench)


def bench(arguments: argparse.Namespace) -> int:
    """Run the benchmark in a process of its own, or list what there is."""
    folder = project_folder("bench")
    names = sorted(path.stem for path in folder.glob("*.py"))
    if arguments.name is None:
        print("\n".join(names))  # noqa: T201 - the result of the command
        return 0
    arguments.name = arguments.name.replace("-", "_")
    if arguments.name not in names:
        close = difflib.get_close_matches(arguments.name, names, n=1)
        meant = f"did you mean {close[0]!r}?" if close else f"there are {names}"
        msg = f"there is no benchmark {arguments.name!r}; {meant}"
        raise CommandError(msg)
    script = str(folder / f"{arguments.name}.py")
    return subprocess.run(
        [sys.executable, script, *arguments.rest], check=False
    ).returncode
