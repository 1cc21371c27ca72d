"""Single flipped bits and truncations: each is found, or does no harm and shows so.

The checkpoint is the golden one of this format, with every kind of state.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import warnings
from pathlib import Path

import pytest

from anabranch.epochs.checkpoint.directory import Checkpoint
from anabranch.epochs.checkpoint.record import FORMAT, PartSum, read_record
from anabranch.epochs.checkpoint.seal import NO_KEY, Seal
from anabranch.epochs.outputs import StagedOutput
from anabranch.errors import CheckpointError
from anabranch.graph.graph import Op
from anabranch.operators.sinks import WriteFiles
from anabranch.runtime.failures import stop
from tests import needs
from tests.engines.spark.golden_checkpoint.golden import copy_golden

AT_A_TIME = needs.count_examples(100, 250)  # corruptions in one test
KEY = "a secret that nobody else knows"


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> Path:
    return copy_golden(FORMAT, "states", tmp_path_factory.mktemp("golden"))


def corrupt(data: bytes, chance: random.Random) -> bytes:
    """Flip one bit, or cut the end off."""
    at = chance.randrange(len(data))
    if chance.random() < 0.3:
        return data[:at]
    flipped = bytearray(data)
    flipped[at] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def files_in(directory: Path) -> list[Path]:
    """Return the files with something in them, each as often as it is likely chosen."""
    found = sorted(path for path in directory.rglob("*") if path.is_file())
    return [path for path in found if path.stat().st_size]


def replace_file(path: Path, data: bytes) -> None:
    path.unlink()  # it is a link to the golden one
    path.write_bytes(data)


def open_or_error(directory: Path, program: object) -> Checkpoint | CheckpointError:
    try:
        return Checkpoint(str(directory), program)
    except CheckpointError as error:
        return error


def open_again(directory: Path) -> tuple[int, str]:
    """Return the epoch that a run goes on from, and what it says."""
    program = json.loads((directory / "program.json").read_bytes())["program"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        checkpoint = Checkpoint(str(directory), program)
        checkpoint.close()
    assert checkpoint.last is not None
    return checkpoint.last.epoch, " ".join(str(one.message) for one in said)


@pytest.mark.parametrize("seed", needs.quick(1, range(20)))
def test_each_corruption_of_a_checkpoint_is_found_or_harmless(golden, tmp_path, seed):
    chance = random.Random(seed)
    program = json.loads((golden / "program.json").read_bytes())["program"]
    newest = read_record(golden, 2, NO_KEY)
    needed = {golden / "state" / unit / file for unit, file in newest.files}
    outcomes = {"refused": 0, "back to epoch 1": 0, "harmless": 0}
    for number in range(AT_A_TIME):
        made = tmp_path / str(number)
        shutil.copytree(golden, made, copy_function=os.link)
        victim = chance.choice(files_in(golden))
        damaged = made / victim.relative_to(golden)
        replace_file(damaged, corrupt(victim.read_bytes(), chance))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            opened = open_or_error(made, program)
        if isinstance(opened, CheckpointError):
            assert str(damaged) in str(opened)
            outcomes["refused"] += 1
            continue
        opened.close()
        if said:
            assert str(damaged) in str(said[0].message)
            assert "goes back to epoch 1" in str(said[0].message)
            assert 1 == opened.last.epoch
            outcomes["back to epoch 1"] += 1
        else:
            assert newest == opened.last
            assert victim not in needed
            # The record before the last, or a run, of which only the name counts.
            assert victim.parent.name in ("commits", "runs")
            outcomes["harmless"] += 1
        shutil.rmtree(made)

    assert all(outcomes.values()), outcomes


@pytest.mark.parametrize("seed", needs.quick(1, range(5)))
@pytest.mark.parametrize("key", [None, KEY])
def test_each_corruption_of_an_output_is_found(tmp_path, monkeypatch, seed, key):
    if key is not None:
        monkeypatch.setenv("ANABRANCH_CHECKPOINT_KEY", key)
    seal = Seal.from_environment()
    chance = random.Random(seed)
    op = Op("out", WriteFiles(str(tmp_path / "out"), "csv"))
    (tmp_path / "out").mkdir()
    parts = [tmp_path / "out" / f"part-{n:09}-0000.csv" for n in range(1, 6)]
    for number, part in enumerate(parts):
        part.write_text("a,b\n" + f"{number},x\n" * (5 * number + 1))

    def check() -> None:
        output = StagedOutput(op, None, stop, "identity", new=False)
        for part in parts:
            data = sound.get(part) or part.read_bytes()
            output.note(PartSum("out", part.name, len(data), seal.digest(data)))
        output.check(len(parts), seal, 0)

    sound: dict[Path, bytes] = {}
    check()
    for _ in range(AT_A_TIME):
        victim = chance.choice(parts)
        sound = {victim: victim.read_bytes()}
        victim.write_bytes(corrupt(sound[victim], chance))
        with pytest.raises(CheckpointError, match="is damaged") as caught:
            check()
        assert str(victim) in str(caught.value)
        victim.write_bytes(sound[victim])


def test_a_whole_checkpoint_is_opened_without_a_word(golden, tmp_path):
    made = shutil.copytree(golden, tmp_path / "copy")

    assert (2, "") == open_again(made)


def test_two_damaged_records_are_refused(golden, tmp_path):
    made = shutil.copytree(golden, tmp_path / "copy")
    for record in (made / "commits").iterdir():
        record.write_bytes(record.read_bytes()[:-9])

    with pytest.raises(CheckpointError, match=r"000000002\.json cannot be read"):
        open_again(made)


def test_a_sink_outside_that_counts_epochs_does_not_go_back(golden, tmp_path):
    """
    Epoch 2 would run again, perhaps with other items; a database has it already.
    """
    made = shutil.copytree(golden, tmp_path / "copy")
    path = made / "program.json"
    payload, _ = NO_KEY.detach(path, path.read_bytes())
    named = payload.replace(b'"kind": "for_each"', b'"kind": "write_postgres"', 1)
    path.write_bytes(NO_KEY.attach(named))
    record = made / "commits" / "000000002.json"
    record.write_bytes(record.read_bytes()[:-9])
    before = {path for path in made.rglob("*") if path.is_file()}

    with pytest.raises(CheckpointError, match=r"write_postgres\) may have epoch 2"):
        open_again(made)

    assert before < {path for path in made.rglob("*") if path.is_file()}


def test_with_a_key_only_files_that_were_written_with_it_are_read(
    golden, tmp_path, monkeypatch
):
    monkeypatch.setenv("ANABRANCH_CHECKPOINT_KEY", KEY)

    with pytest.raises(CheckpointError, match="was written without a key"):
        open_again(shutil.copytree(golden, tmp_path / "copy"))


def test_a_key_that_is_not_set_is_asked_for(tmp_path, monkeypatch):
    program = {"buckets": 16, "operators": {}, "states": {}, "types": []}
    monkeypatch.setenv("ANABRANCH_CHECKPOINT_KEY", KEY)
    Checkpoint(str(tmp_path / "checkpoint"), program).close()
    for other in (None, "another secret of some length"):
        if other is None:
            monkeypatch.delenv("ANABRANCH_CHECKPOINT_KEY")
        else:
            monkeypatch.setenv("ANABRANCH_CHECKPOINT_KEY", other)
        with pytest.raises(CheckpointError, match="key"):
            Checkpoint(str(tmp_path / "checkpoint"), program)


def test_a_short_key_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_CHECKPOINT_KEY", "short")

    with pytest.raises(CheckpointError, match="at least 16 characters; it has 5"):
        Checkpoint(str(tmp_path / "checkpoint"), {})


def test_a_checkpoint_that_others_can_write_is_refused(golden, tmp_path, monkeypatch):
    made = shutil.copytree(golden, tmp_path / "copy")
    (made / "state").chmod(0o777)

    with pytest.raises(CheckpointError, match="state: others can write to it"):
        open_again(made)

    monkeypatch.setenv("ANABRANCH_CHECKPOINT_KEY", KEY)
    program = {"buckets": 16, "operators": {}, "states": {}, "types": []}
    (tmp_path / "new").mkdir()
    (tmp_path / "new").chmod(0o777)
    Checkpoint(str(tmp_path / "new"), program).close()
