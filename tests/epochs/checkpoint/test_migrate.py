"""A checkpoint goes on with a program whose operators have other names."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.cli.main import main
from anabranch.errors import CheckpointError, OperatorError

BROKEN = [60]  # the number on which a map fails, until somebody mends it


class Number(NamedTuple):
    n: int
    key: int


def add(total: int, number: Number) -> tuple[int, Number]:
    return total + number.n, Number(total + number.n, number.key)


def make_program(folder, source: str, scan: str):
    broken = BROKEN[0]

    def check(number: Number) -> Number:
        if number.n == broken:
            raise ValueError(number)
        return number

    numbers = ab.read_csv(folder / "numbers.csv", Number, name=source)
    sums = numbers.map(check, name="check").key_by("key").scan(add, 0, name=scan)
    return sums.write_csv(folder / "sums.csv", name="sums")


@pytest.fixture
def folder(tmp_path):
    """A job that has failed, with a checkpoint of some epochs."""
    rows = "".join(f"{n},{n % 3}\n" for n in range(100))
    (tmp_path / "numbers.csv").write_text(f"n,key\n{rows}")
    with pytest.raises(OperatorError):
        ab.run(
            make_program(tmp_path, "numbers", "scan"),
            checkpoint=tmp_path / "old",
            epoch_items=20,
        )
    return tmp_path


def rename(folder, *renames, to="new"):
    options = [word for one in renames for word in ("--rename", one)]
    return main(
        ["checkpoint", "migrate", str(folder / "old"), *options, "-o", str(folder / to)]
    )


@pytest.mark.spark
def test_a_job_goes_on_under_other_names(folder, monkeypatch, capsys):
    """
    The same names in two places, and a chain of names, are told apart.
    """
    monkeypatch.setattr("tests.epochs.checkpoint.test_migrate.BROKEN", [-1])
    program = make_program(folder, "scan", "total")

    with pytest.raises(CheckpointError, match=r"operator 'total' .* is new"):
        ab.run(program, checkpoint=folder / "old", epoch_items=20)
    assert 0 == rename(folder, "scan=total", "numbers=scan")
    job = ab.run(program, checkpoint=folder / "new", epoch_items=20)

    assert job.metrics().epochs <= 3  # of five: the rest
    totals, expected = [0, 0, 0], []
    for n in range(100):
        totals[n % 3] += n
        expected.append(f"{totals[n % 3]},{n % 3}")
    assert ["n,key", *expected] == (folder / "sums.csv").read_text().splitlines()


REFUSED = {
    "no such operator": (["scna=total"], "it has no 'scna'; it has"),
    "a sink": (["sums=totals"], "a sink must keep its name"),
    "a name that is taken": (["scan=numbers"], "'numbers' is the name of another"),
    "two of one name": (["scan=one", "numbers=one"], "names must differ; got one, one"),
}


@pytest.mark.spark
def test_what_cannot_be_renamed_is_refused_and_nothing_is_left(folder, capsys):
    for renames, words in REFUSED.values():
        assert 1 == rename(folder, *renames)
        assert words in " ".join(capsys.readouterr().err.split())
    assert 1 == rename(folder, "scan=total", to="old")
    assert {"numbers.csv", "old"} == {
        path.name for path in folder.iterdir() if "sums" not in path.name
    }
