"""A job with own connectors that is killed and goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.connectors.own import Files, Ledger, Parted, in_blocks

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[2]


KILLED = -signal.SIGKILL
EXPECTED = [f"{p} {row}" for p, row in in_blocks((30, 50, 20), 10)]


def run_job(folder, name, faults):
    """Run the job in a process; return its exit code, and the faults that are left."""
    places = folder / "faults"
    places.mkdir(exist_ok=True)
    for fault in faults:
        (places / fault).touch()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.connectors.own_job", name),
            *(str(folder / "output"), str(folder / "checkpoint")),
        ],
        cwd=ROOT,
        env={**os.environ, "ANABRANCH_FAULTS": str(places)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, sorted(path.name for path in places.iterdir())


def test_a_killed_job_reads_and_writes_every_row_once(tmp_path):
    """
    Killed before the sink got epoch 2, after it got epoch 3 but before anybody took
    note of that, and before epoch 5 was recorded.
    """
    (tmp_path / "output").mkdir()
    runs = [["committed:2"], ["delivered:3"], ["ran:5"], []]

    ended = [run_job(tmp_path, "files", faults) for faults in runs]

    assert [(KILLED, []), (KILLED, []), (KILLED, []), (0, [])] == ended
    assert EXPECTED == Files(str(tmp_path / "output")).lines()


def test_a_sink_that_workers_write_gets_every_row_once_whoever_is_killed(tmp_path):
    """
    Workers are killed at every place of a delivery, and the driver before and after it.
    """
    runs = [
        ["sent:1", "committed:2"],
        ["prepared:3", "delivered:3"],
        ["delivering:4"],
    ]

    ended = [run_job(tmp_path, "ledger", faults) for faults in runs]

    assert [(KILLED, []), (KILLED, []), (0, [])] == ended
    assert EXPECTED == Ledger(tmp_path / "output").rows()


def test_parts_that_tasks_write_count_once_whoever_is_killed(tmp_path):
    """
    Tasks are killed while and after they write a part, and the driver before and after it
    commits the parts of an epoch.
    """
    runs = [
        ["half-written:1", "written:2", "delivering:2"],
        ["ran:3", "processed:3"],
        ["sent:4"],
        [],
    ]

    ended = [run_job(tmp_path, "parts", faults) for faults in runs]

    output = Parted(tmp_path / "output")
    assert [(KILLED, []), (KILLED, []), (KILLED, []), (0, [])] == ended
    assert EXPECTED == output.rows()
    assert 1 < max(len(parts) for parts in output.epochs())
