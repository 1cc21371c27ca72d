"""`anabranch completion`: a script by which a shell completes commands and options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import shtab

EXAMPLES = """\
examples:
  anabranch completion bash > ~/.local/share/bash-completion/completions/anabranch
  anabranch completion zsh > ~/.zfunc/_anabranch
"""


def add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    make_parser: Callable[[], argparse.ArgumentParser],
) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands in a shell",
        description="Print a script that lets a shell complete commands and options.",
        epilog=EXAMPLES,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))

    def complete(arguments: argparse.Namespace) -> int:
        sys.stdout.write(shtab.complete(make_parser(), arguments.shell) + "\n")
        return 0

    parser.set_defaults(command=complete)
