"""A checkpoint that an earlier release has left is read by this one.

The jobs in `golden_checkpoint` were interrupted after two epochs were committed and one
was delivered. How many items that are follows from the first record.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.cli.console import load_module
from anabranch.cli.main import main
from anabranch.connectors import kafka
from anabranch.epochs.checkpoint.record import FORMAT, read_record
from anabranch.epochs.checkpoint.seal import NO_KEY
from anabranch.epochs.intake.connectors import RangedIntake
from anabranch.epochs.intake.items import GeneratedIntake
from anabranch.epochs.transport.pickle import PickledNames, Pickler
from anabranch.errors import CheckpointError
from anabranch.language.drafts import build_graph
from tests import needs
from tests.engines.spark.golden_checkpoint.golden import (
    FOLDER,
    PROGRAMS,
    copy_golden,
    run_golden,
)

FORMATS = (FORMAT, 6, 5, 4, 3)


def collected(program: str, folder: Path, **options):
    seen: dict[str, list[object]] = {}
    failed = run_golden(program, folder, seen, **options)
    return seen, failed


@pytest.mark.spark
@pytest.mark.parametrize("form", needs.quick(2, FORMATS))
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_job_goes_on_from_a_golden_checkpoint(program, form, tmp_path):
    checkpoint = copy_golden(form, program, tmp_path)
    before = read_record(checkpoint, 1, NO_KEY).delivered
    expected, not_taken = collected(program, tmp_path, on="sequential")

    seen, failed = collected(
        program, tmp_path, checkpoint=checkpoint, epoch_items=13, degree=3
    )

    assert {
        name: [str(item) for item in items[before[f"out_{name}"] :]]
        for name, items in expected.items()
    } == {name: [str(item) for item in items] for name, items in seen.items()}
    assert [str(item) for item in not_taken[2:]] == [str(item) for item in failed]
    assert FORMAT == json.loads((checkpoint / "program.json").read_text())["format"]


@pytest.mark.spark
def test_a_state_of_a_lost_class_stops_the_job_and_loses_no_item(tmp_path):
    """
    Dead letters are for items; a state that cannot be read is no fault of theirs.
    """
    checkpoint = copy_golden(4, "states", tmp_path)  # without digests
    for path in (checkpoint / "state").rglob("*.arrow"):
        data = path.read_bytes()
        path.write_bytes(
            data.replace(b"golden_job_program:Sizes", b"golden_job_program:Sines")
        )

    path = checkpoint / "program.json"  # hosts keep states by the identity
    described = json.loads(path.read_text())
    path.write_text(json.dumps({**described, "identity": uuid.uuid4().hex}))

    with pytest.raises(CheckpointError, match=r"golden_job\.Sines") as caught:
        collected("states", tmp_path, checkpoint=checkpoint, epoch_items=13, degree=3)

    assert "the state of 'sizes' for key" in str(caught.value)


def test_a_program_file_has_one_name_in_checkpoints(tmp_path):
    """
    Its module is called otherwise where another one has its name already.
    """
    found = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        (folder / "named_twice.py").write_text("class City:\n    pass\n")
        city = load_module(folder / "named_twice.py").City
        found.append((city, PickledNames().own_name(city)))
    (one, first), (two, second) = found

    assert ("named_twice:City", "named_twice:City") == (first, second)
    assert one.__module__ != two.__module__
    assert PickledNames().find("named_twice:City") is two
    assert PickledNames().find("named_twice_program:City") is two


STATES = {  # after 40 rows of `events.csv`, as awk sums them up
    "scan": {"a": [112], "b": [109], "c": [89]},
    "sizes": {
        "a": [{"last": "SMALL", "large": 6}],
        "b": [{"last": "LARGE", "large": 7}],
        "c": [{"last": "LARGE", "large": 5}],
    },
}


@pytest.mark.parametrize("form", FORMATS)
def test_states_in_a_golden_checkpoint_are_shown(form, tmp_path, capsys):
    checkpoint = copy_golden(form, "states", tmp_path)

    assert 0 == main(["checkpoint", "show", str(checkpoint)])

    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0].endswith(": epoch 2")
    assert any("numbers from_iterable read 40; at 40" in line for line in lines)
    assert any("offset 301, line 42, row 41, number 41" in line for line in lines)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("operator", STATES)
def test_states_in_a_golden_checkpoint_are_exported(form, operator, tmp_path):
    checkpoint = copy_golden(form, "states", tmp_path)
    path = tmp_path / "states.jsonl"

    assert 0 == main(
        ["checkpoint", str(checkpoint), "--export", operator, "-o", str(path)]
    )

    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert STATES[operator] == {row["key"]: row["state"] for row in rows}


class Topic:
    """A topic with 100 messages in each of two partitions."""

    def __init__(self, source):
        pass

    def find_partitions(self):
        return [("trades", 0), ("trades", 1)]

    def find_bounds(self, partition):
        return 0, 100


# As records hold them: the next row or offset, and the next number of an item.
TOPIC = {"offsets": {"0": 97, "1": 30}, "number": 128}
GENERATED = {"at": 40}


def test_a_position_in_a_topic_is_understood(monkeypatch):
    monkeypatch.setattr(kafka, "Topic", Topic)
    stream = ab.kafka("nowhere:9092", "trades", follow=False)
    graph = build_graph([stream.to_list()])
    intake = RangedIntake(graph.sources[0], Pickler(graph))

    intake.seek(json.loads(json.dumps(TOPIC)))

    assert TOPIC == intake.position()
    assert [("0", 97, 100, 128), ("1", 30, 37, 131)] == [
        (piece.range.partition, piece.range.start, piece.range.end, piece.first)
        for piece in intake.take(10, 1, exactly=True)
    ]


def test_a_position_in_a_generator_is_understood():
    intake = GeneratedIntake("numbers")

    intake.seek(GENERATED)

    assert [41] == [one.first for one in intake.take(5, 1, exactly=True)]


def test_a_format_of_a_later_release_is_refused(tmp_path, capsys):
    checkpoint = copy_golden(FORMAT, "groups", tmp_path)
    path = checkpoint / "program.json"
    path.write_text(path.read_text().replace(f'"format": {FORMAT}', '"format": 99'))

    assert 1 == main(["checkpoint", str(checkpoint)])
    assert "is of format 99" in " ".join(capsys.readouterr().err.split())


def test_this_format_names_no_module_of_ours():
    files = [p for p in (FOLDER / f"format-{FORMAT}").rglob("*") if p.is_file()]
    pickled = [p for p in files if p.suffix in (".arrow", ".pickle")]

    assert pickled
    for path in pickled:
        data = path.read_bytes()
        assert data.count(b"anabranch.") == data.count(b"anabranch.<checkpoint>"), path
