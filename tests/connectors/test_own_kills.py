"""A job with own connectors that is killed and goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.connectors.own import Files, in_blocks

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[2]


def test_a_killed_job_reads_and_writes_every_row_once(tmp_path):
    """
    Killed before the sink got epoch 2, after it got epoch 3 but before anybody took
    note of that, and before epoch 5 was recorded.
    """
    faults, output = tmp_path / "faults", tmp_path / "output"
    faults.mkdir()
    output.mkdir()
    ended = []
    for fault in ("committed:2", "delivered:3", "ran:5", None):
        if fault is not None:
            (faults / fault).touch()
        job = [sys.executable, "-m", "tests.connectors.own_job", str(output)]
        done = subprocess.run(
            [*job, str(tmp_path / "checkpoint")],
            cwd=ROOT,
            env={**os.environ, "ANABRANCH_FAULTS": str(faults)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        ended.append(done.returncode)

    killed = -signal.SIGKILL
    assert [killed, killed, killed, 0] == ended, done.stderr
    expected = [f"{p} {row}" for p, row in in_blocks((30, 50, 20), 10)]
    assert expected == Files(str(output)).lines()
