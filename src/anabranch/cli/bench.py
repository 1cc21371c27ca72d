"""`anabranch bench`: run a benchmark of the project."""

from __future__ import annotations

import argparse
import ast
import difflib
import re
import subprocess
import sys
from pathlib import Path

from anabranch.cli.errors import CommandError
from anabranch.cli.folders import project_folder


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "bench",
        help="run a benchmark of the project",
        description="Run a benchmark of the project: bench/NAME.py or bench/NAME/.",
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
    scripts = benchmarks(folder)
    if arguments.name is None:
        for name, script in scripts.items():
            print(f"{name:<20} {purpose(script)}")  # noqa: T201 - the result
        return 0
    name = arguments.name.replace("-", "_")
    if name not in scripts:
        close = difflib.get_close_matches(name, scripts, n=1)
        meant = f"did you mean {close[0]!r}?" if close else f"there are {[*scripts]}"
        msg = f"there is no benchmark {name!r}; {meant}"
        raise CommandError(msg)
    command = [sys.executable, str(scripts[name]), *arguments.rest]
    return subprocess.run(command, check=False).returncode


def benchmarks(folder: Path) -> dict[str, Path]:
    """Return the scripts that can be run, by name: files, and folders with a main file.

    What others import and has no function `main` of its own is shared, and no
    benchmark. `all` is another name of `results`.
    """
    files = {path.stem: path for path in folder.glob("*.py")}
    folders = {path.parent.name: path for path in folder.glob("*/__main__.py")}
    texts = {
        name: path.read_text(encoding="utf-8")
        for name, path in sorted((files | folders).items())
    }
    whole = "\n".join(texts.values())
    shared = set(re.findall(r"^\s*(?:from|import) (\w+)", whole, re.MULTILINE))
    found = {
        name: (files | folders)[name]
        for name, text in texts.items()
        if "\ndef main(" in text or ("__main__" in text and name not in shared)
    }
    return {"all": found["results"], **found} if "results" in found else found


def purpose(script: Path) -> str:
    """Return the first line of a script's docstring."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0]
