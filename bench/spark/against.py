"""What a change costs or gains: this tree against another commit, in one run.

    anabranch bench spark/against COMMIT [JOB...] [--rows N] [--runs N]

Each side is a process of its own with its own Spark session, which stays for the
whole run; the sides take turns on the same input, so only one of them works at a
time. The jobs are those of `spark/throughput`. A ratio above 1 means that this tree
is faster.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.harness.timing import claim, interleaved, ratio, report
from bench.harness.trades import JOBS, make_trades

ROOT = Path(__file__).resolve().parents[2]
AT_LEAST = 0.97  # no change may cost more than 3%
AT_LEAST_OF_MIXED = 1.0  # columns around an operator in Python cost nothing
WARM_UPS = 3
HERE, THERE = "this tree", "the other commit"

# Runs in the tree that it measures: one job for each line that it is sent.
SIDE = """
import sys
from pathlib import Path
try:
    from bench.spark.throughput import open_session, ours
except ModuleNotFoundError:  # a commit in which bench has no folders
    from spark_throughput import open_session, ours
job, source, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
names = ours.__globals__
if job == "mixed":
    import mixed_job
    names["JOBS"][job] = mixed_job.mixed
open_session("local[2]")
for _ in sys.stdin:
    ours(job, source, folder, 2)
    print("done", flush=True)
"""

# A chain that other commits do not have: one of its functions cannot be compiled.
MIXED = """
try:
    from bench.harness.trades import Trade, in_cents, is_large, per_share
except ModuleNotFoundError:  # as above
    from trades import Trade, in_cents, is_large, per_share


def rounded(t: Trade) -> Trade:
    return t._replace(price=float(format(t.price, ".2f")))


def mixed(s):
    return s.map(in_cents).filter(is_large).map(rounded).map(per_share)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("commit")
    parser.add_argument("jobs", nargs="*", default=["chain", "vwap", "window", "mixed"])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    if unknown := set(arguments.jobs) - set(JOBS):
        parser.error(f"jobs are {', '.join(JOBS)}; not {', '.join(sorted(unknown))}")
    results, claims = {}, []
    with checkout(arguments.commit) as other, tempfile.TemporaryDirectory() as made:
        source = make_trades(Path(made) / "trades.csv", arguments.rows)
        for job in arguments.jobs:
            with ExitStack() as stack:
                sides = {
                    name: partial(
                        take_turn,
                        stack.enter_context(side(tree, job, source, Path(made) / name)),
                    )
                    for name, tree in ((HERE, ROOT), (THERE, other))
                }
                times = interleaved(sides, arguments.runs, warm_ups=WARM_UPS)
            rates = {
                name: sorted(round(arguments.rows / seconds) for seconds in found)
                for name, found in times.items()
            }
            results |= {f"{job}, tuples/s, {name}": r for name, r in rates.items()}
            found = ratio(times[THERE], times[HERE])
            least = AT_LEAST_OF_MIXED if job == "mixed" else AT_LEAST
            claims.append(
                claim(f"{job}: over {arguments.commit}", found, at_least=least)
            )
    report("against", results, claims=claims)


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Give the tree of another commit for as long as it is needed."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-against-"))
    git = ("git", "-C", str(ROOT), "worktree")
    subprocess.run(
        [*git, "add", "--quiet", "--detach", "--force", str(folder), commit], check=True
    )
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def side(
    tree: Path, job: str, source: Path, folder: Path
) -> Iterator[subprocess.Popen[str]]:
    """Give a process that runs the job of a tree whenever it is told to."""
    folder.mkdir(exist_ok=True)
    (folder / "mixed_job.py").write_text(MIXED)
    found = tree / "src", tree, tree / "bench", folder
    path = os.pathsep.join(map(str, found))
    process = subprocess.Popen(
        [sys.executable, "-c", SIDE, job, str(source), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        cwd=tree,
    )
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()


def take_turn(process: subprocess.Popen[str]) -> None:
    """Have a side run its job once."""
    process.stdin.write("go\n")
    process.stdin.flush()
    if process.stdout.readline() != "done\n":
        msg = "a side ended early; its error is above"
        raise RuntimeError(msg)


if __name__ == "__main__":
    main()
