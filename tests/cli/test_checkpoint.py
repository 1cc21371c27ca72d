"""`anabranch checkpoint` on a directory that a job could have left."""

from __future__ import annotations

import json
import pickle

import pyarrow.parquet as pq
import pytest

from anabranch.cli.main import main
from anabranch.epochs.checkpoint.directory import Checkpoint
from anabranch.epochs.checkpoint.files import write_log
from anabranch.epochs.checkpoint.record import Log, Record
from anabranch.epochs.checkpoint.seal import NO_KEY
from anabranch.epochs.state.buckets import prefix_of_bucket

OPERATOR = {
    "role": "state",
    "kind": "scan",
    "key": ["symbol"],
    "type": None,
    "fed by": [["read_csv"]],
    "parameters": {},
    "line": "vwap.py:12",
}
PROGRAM = {
    "buckets": 16,
    "operators": {
        "read_csv": {**OPERATOR, "role": "source", "kind": "read_csv", "key": []},
        "scan": OPERATOR,
    },
    "states": {"scan": {"unit": "u1", "number": 0, "region_key": ["symbol"]}},
    "types": [],
}


@pytest.fixture
def directory(tmp_path):
    made = Checkpoint(str(tmp_path / "checkpoint"), PROGRAM)
    folder = made.directory / "state" / "u1"
    folder.mkdir()
    states = [
        (prefix_of_bucket(3) + b"0000/s1:A", pickle.dumps(("A", [1.5]))),
        (prefix_of_bucket(9) + b"0000/s1:B", pickle.dumps(("B", [2]))),
    ]
    write_log(folder / "log", states, NO_KEY)
    log = Log("u1", "log", 1, ((3, 10),), 60)
    made.commit(Record(1, 1, positions={"read_csv": {"offset": 70}}, logs=(log,)), None)
    made.close()
    return str(tmp_path / "checkpoint")


def test_it_tells_epoch_positions_keys_and_bytes(directory, capsys):
    assert 0 == main(["checkpoint", directory])

    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0].endswith(": epoch 1")
    assert "read_csv read_csv read 0; offset 70 vwap.py:12" in lines
    assert "scan scan state in u1 by symbol vwap.py:12" in lines
    size = len(b"0000/s1:A") + len(pickle.dumps(("A", [1.5])))
    assert f"u1 3 1 {size}" in lines


def test_as_data_for_programs(directory, capsys):
    assert 0 == main(["checkpoint", directory, "--json"])

    found = json.loads(capsys.readouterr().out)
    assert [(3, 1), (9, 1)] == [(b["bucket"], b["keys"]) for b in found["buckets"]]


def test_states_are_exported_as_json_lines(directory, tmp_path):
    path = tmp_path / "states.jsonl"

    assert 0 == main(["checkpoint", directory, "--export", "u1/scan", "-o", str(path)])

    assert [{"key": "A", "state": [1.5]}, {"key": "B", "state": [2]}] == [
        json.loads(line) for line in path.read_text().splitlines()
    ]


def test_states_are_exported_as_parquet(directory, tmp_path):
    path = tmp_path / "states.parquet"

    assert 0 == main(["checkpoint", directory, "--export", "scan", "-o", str(path)])

    assert ["A", "B"] == pq.read_table(path).column("key").to_pylist()


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--export", "map", "-o", "x.jsonl"], "there is no state of 'map'"),
        (["--export", "scan"], "go together"),
        (["--export", "scan", "-o", "x.txt"], ".jsonl or .parquet"),
    ],
)
def test_what_cannot_be_done_is_told(directory, elsewhere, capsys, arguments, told):
    assert 1 == main(["checkpoint", directory, *arguments])

    assert told in " ".join(capsys.readouterr().err.split())
    assert not list(elsewhere.glob("x.*"))


def test_a_directory_that_is_no_checkpoint_is_told(tmp_path, capsys):
    assert 1 == main(["checkpoint", str(tmp_path)])

    assert "program.json" in " ".join(capsys.readouterr().err.split())
