"""`anabranch graph`: draw a program and its parallel regions."""

from __future__ import annotations

import argparse

from anabranch.cli.console import (
    CommandError,
    add_engine,
    add_target,
    local_path,
    words,
)
from anabranch.cli.programs import load_sinks
from anabranch.job import compile_sinks
from anabranch.plan.draw import draw_svg


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "graph",
        help="draw a program and its parallel regions",
        description="Draw a program and its parallel regions as an SVG.",
        epilog="example:\n  anabranch graph vwap.py -o vwap.svg\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_target(parser)
    add_engine(parser)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=local_path,
        metavar="FILE.svg",
        help="the file to write",
    )
    parser.set_defaults(command=graph)


def graph(arguments: argparse.Namespace) -> int:
    """Write the drawing."""
    compilation = compile_sinks(*load_sinks(arguments.target), on=arguments.on)
    drawing = draw_svg(compilation.graph, compilation.plan)
    try:
        arguments.output.write_text(drawing + "\n", encoding="utf-8")
    except OSError as error:
        msg = f"{arguments.output} must be writable; {error.strerror}"
        raise CommandError(msg) from error
    words().print(f"drew {arguments.output}", markup=False)
    return 0
