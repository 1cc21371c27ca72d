"""How the bench of peers judges what they write, and counts what users write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.harness.trades import make_trades, plain
from bench.peers.checking import rows_of, verdict
from bench.peers.counting import lines_of
from bench.peers.live import percentiles

WANTED = ["ts,symbol,price", "1,A,1.5", "2,B,2.5", "3,A,3.5", "4,B,4.5"]
CASES = {
    "the same is in order": (WANTED, "all, in order"),
    "another header or none is no difference": (WANTED[1:], "all, in order"),
    "floats may be written in another way": (
        ["1,A,1.50", "2,B,25e-1", "3,A,3.5", "4,B,4.5"],
        "all, in order",
    ),
    "keys apart": (
        ["1,A,1.5", "3,A,3.5", "2,B,2.5", "4,B,4.5"],
        "all, in order per key",
    ),
    "a key out of order": (
        ["3,A,3.5", "1,A,1.5", "2,B,2.5", "4,B,4.5"],
        "all, in no order",
    ),
    "a wrong value": (["1,A,1.5", "2,B,2.6", "3,A,3.5", "4,B,4.5"], "1 wrong of 4"),
    "a missing row": (WANTED[:-1], "1 missing of 4"),
    "a row twice": ([*WANTED, "4,B,4.5"], "1 too many of 4"),
    "nothing": ([], "4 missing of 4"),
}


@pytest.mark.parametrize(("rows", "said"), CASES.values(), ids=CASES)
def test_verdict(tmp_path, rows, said):
    (tmp_path / "wanted.csv").write_text("\n".join(WANTED))
    (tmp_path / "found.csv").write_text("\n".join(rows))

    assert said == verdict(tmp_path / "wanted.csv", tmp_path / "found.csv")


def test_parts_of_a_directory_are_read_by_name_and_marks_are_not(tmp_path):
    out = tmp_path / "out"
    (out / "sub").mkdir(parents=True)
    (out / "sub" / "part-1.csv").write_text("2,B,2.5\n")
    (out / "part-0.csv").write_text("ts,symbol,price\n1,A,1.5\n")
    (out / "_SUCCESS").write_text("")
    (out / ".part-0.csv.crc").write_text("x,y,z")

    assert [(1, "A", 1.5), (2, "B", 2.5)] == list(rows_of(out))


PROGRAM = '''
"""A program."""
import talk

SIZE = 3


def helper():
    """Helps."""
    return SIZE  # used


def unused():
    return 1


def chain(source):
    # a comment

    talk.began(source)
    return helper()
'''


def test_lines_of_a_job_are_its_function_and_what_that_needs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    assert 5 == lines_of(program, "chain")


def test_the_first_half_of_a_live_run_does_not_count(tmp_path):
    noted = tmp_path / "live.csv"
    ms = 1_000_000
    slow = [f"{n * ms},{(n + 500) * ms}" for n in range(1000)]
    quick = [f"{n * ms},{(n + 2) * ms}" for n in range(1000, 2000)]
    noted.write_text("\n".join(slow + quick))

    assert {"p50_ms": 2.0, "p99_ms": 2.0} == percentiles(noted, 2.0)


PROGRAMS = Path(__file__).parents[3] / "bench" / "peers" / "programs"


def test_a_plain_loop_counts_with_the_loop_of_its_job():
    """`run` has 10 lines of its own, beside those for the bench; a loop 4."""
    lines = {job: lines_of(PROGRAMS / "loop.py", job) for job in ("chain", "heavy")}

    assert {"chain": 14, "heavy": 12} == lines


def test_each_of_two_processes_gets_its_half_of_the_rows(tmp_path):
    source = make_trades(tmp_path / "in.csv", 101)
    subprocess.run(
        [
            sys.executable,
            PROGRAMS / "two_processes.py",
            "run",
            "chain",
            source,
            tmp_path / "o",
        ],
        env={
            **os.environ,
            "PYTHONPATH": f"{PROGRAMS}{os.pathsep}{PROGRAMS.parents[2]}",
        },
        check=True,
        capture_output=True,
    )
    plain("chain", source, 0, 101, tmp_path / "wanted.csv")

    assert "all, in order" == verdict(tmp_path / "wanted.csv", tmp_path / "o")
