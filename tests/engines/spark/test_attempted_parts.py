"""A part that two attempts of a task write at the same time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.epochs import faults
from anabranch.epochs.unit import egress as parts
from anabranch.epochs.wire import WireBatch
from anabranch.runtime.failures import stop


class Item(NamedTuple):
    number: int


ITEMS = [Item(n) for n in range(100)]


class Killed(BaseException):
    """Ends an attempt."""


def write(path):
    made = ab.compile(ab.from_iterable(ITEMS, type=Item).write_parquet("never"))
    (op,) = made.graph.sinks
    batch = WireBatch([np.arange(len(ITEMS))], None, None, ITEMS)
    return parts.write_part(op, Item, batch, path, stop).items


def test_an_attempt_that_dies_while_it_writes_does_no_harm_to_another(
    tmp_path, monkeypatch
):
    """
    Both write to the same path; that they have names of their own is another matter.
    """
    path = tmp_path / "part.parquet"

    def write_half(_, file):
        file.write(b"PAR1")
        raise Killed

    def meanwhile(place, epoch):
        monkeypatch.setattr(faults, "watchers", [])
        with monkeypatch.context() as patch:
            patch.setattr(pq, "write_table", write_half)
            with pytest.raises(Killed):
                write(path)

    monkeypatch.setattr(faults, "watchers", [meanwhile])

    assert 100 == write(path)
    assert [{"number": n} for n in range(100)] == pq.read_table(path).to_pylist()
