"""Run every benchmark one after the other and write docs/results.md from their records.

    anabranch bench all [--quick] [--only safe/*,spark/order] [--skip peers] [--page]

Each benchmark is a process of its own. What it reports (see harness/timing.py) is kept in
bench/records, what it prints in out/results; a later run replaces only what it runs again.
`--page` runs nothing and writes the page from what is kept. `--quick` shows that everything
works: its figures mean nothing, and all of it goes to out/results/quick.
"""

from __future__ import annotations

import argparse
import fnmatch
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from anabranch.cli.bench import benchmarks, command_of, flat_name, variables_of
from bench.harness.page import FAILED, write_page
from bench.harness.runs import RUNS, Run
from bench.harness.timing import QUICK, RECORDS

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
PAGE = ROOT / "docs" / "results.md"
APART = {"all", "spark/against"}  # they run others, and claim nothing of a release


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--only", default="*", help="names or patterns, by commas")
    parser.add_argument("--skip", default="", help="names or patterns, by commas")
    parser.add_argument("--timeout", type=float, default=7200.0, help="of one, s")
    arguments = parser.parse_args()
    kept = Kept(BENCH / "records", ROOT / "out" / "results", PAGE)
    if arguments.quick:
        quick = kept.printed / "quick"
        kept = Kept(quick, quick, quick / "results.md")
    kept.records.mkdir(parents=True, exist_ok=True)
    kept.printed.mkdir(parents=True, exist_ok=True)
    chosen = [
        run
        for run in all_runs()
        if matches(run.bench, arguments.only) and not matches(run.bench, arguments.skip)
    ]
    if not arguments.page:
        forget({run.bench for run in chosen}, kept)
        failed = [
            run.bench
            for number, run in enumerate(chosen)
            if not execute(run, kept, arguments, f"{number + 1} of {len(chosen)}")
        ]
        if failed:
            print(f"results: failed: {', '.join(failed)}", file=sys.stderr)
    names = sorted({run.bench for run in all_runs()})
    write_page(kept.page, kept.records, kept.printed, names)
    print(f"results: {kept.page}", file=sys.stderr)


@dataclass(frozen=True)
class Kept:
    """Where records and printed words are kept, and the page that is made of them."""

    records: Path
    printed: Path
    page: Path


def all_runs() -> list[Run]:
    """Return what there is to run: all scripts, those with arguments as they are set."""
    names = set(benchmarks(BENCH)) - APART
    named = {run.bench for run in RUNS}
    rest = [Run(name) for name in sorted(names - named)]
    return [*rest, *(run for run in RUNS if run.bench in names)]


def matches(name: str, patterns: str) -> bool:
    """Tell whether a name is one of these, or like one of these."""
    return any(
        fnmatch.fnmatch(flat_name(name), flat_name(pattern))
        for pattern in patterns.split(",")
    )


def forget(benches: set[str], kept: Kept) -> None:
    """Remove what earlier runs of these benchmarks left."""
    for bench in benches:
        records = kept.records.glob(f"{bench}-*.json")
        for path in [*records, *kept.printed.glob(f"{bench}-*.txt")]:
            path.unlink()


def execute(run: Run, kept: Kept, arguments: argparse.Namespace, number: str) -> bool:
    """Run a benchmark; what it prints is shown and kept."""
    given = run.quick if arguments.quick else run.arguments
    print(f"results: {number}: {run.bench} {' '.join(given)}", file=sys.stderr)
    variables = {**variables_of(BENCH), RECORDS: str(kept.records)}
    if arguments.quick:
        variables[QUICK] = "1"
    started_s = time.perf_counter()
    label = given[0].replace("/", "-").replace(" ", "-") if given else "printed"
    words = kept.printed / f"{run.bench}-{label}.txt"
    words.parent.mkdir(parents=True, exist_ok=True)
    with words.open("w", encoding="utf-8") as printed:
        try:
            code = subprocess.run(
                [*command_of(run.bench), *given],
                stdout=printed,
                env=variables,
                timeout=arguments.timeout,
                check=False,
                cwd=ROOT,
            ).returncode
        except subprocess.TimeoutExpired:
            code = 1
    if code != 0:
        with words.open("a", encoding="utf-8") as printed:
            printed.write(f"{FAILED} (exit status {code})\n")
    print(words.read_text(encoding="utf-8"))
    took_s = time.perf_counter() - started_s
    said = "done" if code == 0 else "FAILED"
    print(f"results: {run.bench}: {said} after {took_s:.0f} s", file=sys.stderr)
    return code == 0


if __name__ == "__main__":
    main()
