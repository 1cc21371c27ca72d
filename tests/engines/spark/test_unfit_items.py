"""Items that a file cannot hold are named, whatever is before the sink."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import OutputError
from tests.engines.spark.imitation import undisturbed


class Held(NamedTuple):
    n: int
    data: bytes


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("epoch_items", [1, 100])
def test_an_item_that_a_file_cannot_hold_is_named_behind_an_operator(
    tmp_path, cluster_of, form, epoch_items
):
    """The operator gives no positions, since parts are written as they come."""
    cluster_of(undisturbed)
    items = [Held(0, b"a"), Held(1, b"b"), Held(2, b"\xff"), Held(3, b"\xfe")]
    kept = ab.from_iterable(items, Held).filter(lambda item: item.n > 0)
    write = getattr(kept, f"write_{form}")

    with pytest.raises(OutputError, match=r"item 3 of from_iterable: Held\(n=2"):
        ab.run(write(tmp_path / "out"), on="spark", degree=2, epoch_items=epoch_items)
