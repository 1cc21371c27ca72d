"""`anabranch explain` and `anabranch graph`: a program and its parallel regions, as
text and drawn.

`explain` says what is parallel, what is not, and why; with the record of a run, also
what happened in it, and why.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from textwrap import wrap

from anabranch.cli.console import (
    CommandError,
    add_engine,
    add_target,
    load_sinks,
    local_path,
    words,
)
from anabranch.cli.dashboard import check
from anabranch.job import compile_sinks
from anabranch.metrics.run_record import Follower, Story
from anabranch.plan.draw import draw_svg

EXAMPLES = """\
examples:
  anabranch explain vwap.py
  anabranch explain vwap.py:prices --json | jq .regions
  anabranch explain --run run.jsonl            what happened, of a run with --ui
"""
_WIDTH = 88
_SHOWN = 3  # failed items


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "explain",
        help="say what runs in parallel, what does not, and why",
        description="Say which operators of a program run in parallel, which do not, and "
        "because of which line; the program is not run. With --run: what happened in a "
        "recorded run, what limited it, and why it was adapted.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "target",
        nargs="?",
        metavar="FILE[:NAME]",
        help="a Python file, and in it a sink, a list of sinks or a function that "
        "returns them; without NAME: program, main, sinks or the only sink",
    )
    parser.add_argument(
        "--run",
        type=local_path,
        metavar="RECORD",
        help="the record that a run with --ui has written",
    )
    add_engine(parser)
    parser.add_argument("--json", action="store_true", help="as data, for programs")
    parser.set_defaults(command=explain)


def explain(arguments: argparse.Namespace) -> int:
    """Print the explanation."""
    if (arguments.target is None) == (arguments.run is None):
        msg = (
            "one thing is explained at a time; say FILE[:NAME] for a program, or --run "
            "RECORD for a run"
        )
        raise CommandError(msg)
    if arguments.run is not None:
        check(arguments.run)
        story = Follower(arguments.run).story()
        data, text = story.to_dict(), "\n".join(describe_run(story))
    else:
        compilation = compile_sinks(*load_sinks(arguments.target), on=arguments.on)
        data, text = compilation.to_dict(), compilation.explain()
    print(json.dumps(data, indent=2) if arguments.json else text)  # noqa: T201 - the result
    return 0


def describe_run(story: Story) -> Iterator[str]:
    """Yield a description of a run, line by line.

    >>> story = Story({"name": "vwap.py", "on": "local", "operators": 4, "parallel": 3})
    >>> story.add({"sample": {"at_s": 2.0, "read": 50, "delivered": 40}})
    >>> story.add({"end": {"status": "finished", "error": None}})
    >>> for line in describe_run(story):
    ...     print(line)
    vwap.py on local: finished after 2.0 s; 50 items read, 40 delivered, 25 items/s
    3 of 4 operators could run in parallel
    nothing was changed while it ran
    """
    program, data = story.program, story.to_dict()
    now = data["now"]
    at_s, read = now.get("at_s", 0.0), now.get("read", 0)
    yield (
        f"{program.get('name')} on {program.get('on')}: {story.status} after "
        f"{at_s:.1f} s; {read:,} items read, {now.get('delivered', 0):,} delivered, "
        f"{read / max(at_s, 1e-9):,.0f} items/s"
    )
    if story.error is not None:
        yield from _indent(f"error: {story.error}")
    yield (
        f"{program.get('parallel')} of {program.get('operators')} operators could run "
        f"in parallel"
    )
    for one in program.get("sequential", ()):
        yield from _indent(f"{one['operator']} was sequential: {one['why']}")
    if data["limit"] is not None:
        limit = data["limit"]
        yield from wrap(f"what limited it: {limit['what']}; {limit['why']}", _WIDTH)
    yield from _describe_load(story)
    failed = sum(now.get("failed", {}).values())
    if failed:
        yield f"{failed:,} items failed and were left out; the last of them:"
    for text in data["failures"][-_SHOWN:]:
        yield from _indent(f"failed: {text}")
    if not data["changes"]:
        yield "nothing was changed while it ran"
    for change in data["changes"]:
        yield f"{change['at_s']:.1f} s: {change['what']}"
        yield from _indent(f"why: {change['why']}")
        yield from _indent(f"effect: {change['effect'] or 'not measured'}")


def _describe_load(story: Story) -> Iterator[str]:
    """Yield latency, backlog and replicas, as far as they were measured."""
    p99 = [one["p99_ms"] for one in story.samples if "p99_ms" in one]
    if p99:
        bound = story.program.get("bound_ms")
        goal = "" if bound is None else f", with a bound of {bound:.0f} ms"
        yield f"latency p99: {p99[-1]:.1f} ms at the end, {max(p99):.1f} at worst{goal}"
    backlog = [one["backlog"] for one in story.samples if "backlog" in one]
    if backlog:
        yield f"backlog: {backlog[-1]} items at the end, {max(backlog)} at most"
    degrees = [one["degrees"] for one in story.samples if one.get("degrees")]
    if degrees:
        last = ", ".join(f"{name} {n}" for name, n in degrees[-1].items())
        yield f"replicas at the end: {last}"


def _indent(text: str) -> list[str]:
    return wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="        ")


def add_graph(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "graph",
        help="draw a program and its parallel regions",
        description="Draw a program and its parallel regions as an SVG.",
        epilog="example:\n  anabranch graph vwap.py -o vwap.svg\n",
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
    parser.set_defaults(command=draw)


def draw(arguments: argparse.Namespace) -> int:
    """Write the drawing."""
    if arguments.output.suffix.lower() != ".svg":
        msg = f"-o must name a file that ends in .svg; got {arguments.output}"
        raise CommandError(msg)
    compilation = compile_sinks(*load_sinks(arguments.target), on=arguments.on)
    drawing = draw_svg(compilation.graph, compilation.plan)
    try:
        arguments.output.write_text(drawing + "\n", encoding="utf-8")
    except OSError as error:
        msg = f"{arguments.output} must be writable; {error.strerror}"
        raise CommandError(msg) from error
    words().print(f"drew {arguments.output}", markup=False)
    return 0
