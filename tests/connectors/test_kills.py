"""Jobs that are killed between the commit of an epoch and the sinks outside."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.connectors.items import as_json, readings, totals
from tests.needs import PSYCOPG, why_left_out

psycopg = pytest.importorskip("psycopg", reason=why_left_out(PSYCOPG))
pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def table(database):
    name = f"t_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(database.dsn) as connection:
        connection.execute(f"CREATE TABLE {name} (n serial, sensor text, total bigint)")
    return name


def test_a_killed_job_writes_every_row_once(broker, database, table, tmp_path):
    """
    Killed before the sinks got epoch 2, and after they got epoch 3 but before anybody
    took note of that: Postgres holds every row once, in order.
    """
    items = readings(200)
    topic = broker.topic()
    broker.send(topic, as_json(items))
    faults = tmp_path / "faults"
    faults.mkdir()
    arguments = (database.dsn, table, broker.servers, topic)
    ended = []
    for fault in ("committed:2", "delivered:3", None):
        if fault is not None:
            (faults / fault).touch()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.connectors.killed_job"),
                *(*arguments, str(tmp_path / "checkpoint")),
            ],
            cwd=ROOT,
            env={**os.environ, "ANABRANCH_FAULTS": str(faults)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        ended.append(done.returncode)

    with psycopg.connect(database.dsn) as connection:
        found = connection.execute(f"SELECT sensor, total FROM {table} ORDER BY n")
        rows = found.fetchall()
    assert [-signal.SIGKILL, -signal.SIGKILL, 0] == ended, done.stderr
    assert totals(items) == rows
