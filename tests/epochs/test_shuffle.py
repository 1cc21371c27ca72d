"""Every item reaches exactly one channel, and a key always the same one."""

import math
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from anabranch.connectors.files.arrow_items import form_of
from anabranch.epochs.shuffle import SentKeys, TaskRows, by_key, by_range
from anabranch.epochs.state.states import bucket_of
from anabranch.epochs.task import (
    REPORT,
    EpochAttempt,
    EpochTask,
    ProcessRows,
    TaskStage,
)
from anabranch.epochs.wire import WireBatch
from anabranch.operators.stateless import WINDOW
from tests.engines.spark.items import Trade, trades


def batch(items, *, table=False):
    positions = [np.arange(len(items))]
    made = WireBatch(positions, form_of(Trade), None, list(items))
    return made.compact() if table else made


def task(channels, end=100):
    stage = TaskStage(range(1), (channels,))
    return EpochTask(stage, EpochAttempt(), ProcessRows(range(end)))


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("key", [("symbol",), ("symbol", "volume")])
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_a_key_has_one_channel_and_order_is_kept_within_it(table, key, channels):
    items = trades(100)

    divided = list(
        by_key(batch(items, table=table), key, task(channels), 0, SentKeys())
    )

    assert sorted(items) == sorted(x for _, part in divided for x in part.items)
    homes = {}
    for channel, part in divided:
        assert sorted(part.items) == part.items
        for item in part.items:
            found = tuple(getattr(item, name) for name in key)
            assert homes.setdefault(found, channel) == channel


def test_items_that_are_routed_by_several_attributes_stay_columns():
    made, sent = batch(trades(100), table=True), SentKeys()

    divided = dict(by_key(made, ("symbol", "volume"), task(3), 0, sent))

    same = dict(
        by_key(batch(trades(100)), ("symbol", "volume"), task(3), 0, SentKeys())
    )
    assert all(one.listed is None for one in (made, *divided.values()))
    assert {c: p.items for c, p in same.items()} == {
        c: p.items for c, p in divided.items()
    }


def test_the_channel_of_a_key_is_the_owner_of_its_bucket():
    made = task(3)
    for channel, part in by_key(batch(trades(50)), ("symbol",), made, 0, SentKeys()):
        for item in part.items:
            assert made.stage.table_of(0)[bucket_of(item.symbol, 16)] == channel


def test_a_punctuation_goes_to_every_channel_in_its_place():
    items = [*trades(20), WINDOW, *trades(20)]

    divided = dict(by_key(batch(items), ("symbol",), task(3), 0, SentKeys()))

    assert {0, 1, 2} == set(divided)
    for part in divided.values():
        place = part.items.index(WINDOW)
        assert 20 == part.positions[0][place]
        assert all(p < 20 for p in part.positions[0][:place])
        assert all(p > 20 for p in part.positions[0][place + 1 :])


@pytest.mark.parametrize("channels", [1, 3, 7])
def test_ranges_are_contiguous_and_whole(channels):
    items = trades(90)

    divided = list(by_range(batch(items), task(channels, end=90), 0))

    assert sorted(channel for channel, _ in divided) == [c for c, _ in divided]
    assert items == [item for _, part in divided for item in part.items]


class Tick(NamedTuple):
    ts: int
    price: float

    @property
    def hour(self):
        return self.ts // 10

    @property
    def inverse(self):
        return 1 // (self.ts - 2)


def divide(items, *key):
    made = WireBatch([np.arange(len(items))], form_of(Tick), None, items).compact()
    divided = by_key(made, key, task(3), 0, SentKeys())
    return {item.ts: channel for channel, part in divided for item in part.items}


@pytest.mark.parametrize("key", [("hour",), ("hour", "price"), ("price.real", "hour")])
def test_a_property_is_a_key_of_items_that_travel_as_columns(key):
    items = [Tick(ts, 1.0) for ts in range(40)]

    channels = divide(items, *key)

    assert 40 == len(channels)
    assert all(channels[ts] == channels[ts // 10 * 10] for ts in channels)


@pytest.mark.parametrize("key", [("inverse",), ("price",), ("price", "ts")])
def test_an_item_without_a_good_key_goes_where_its_operator_refuses_it(key):
    items = [Tick(1, 1.0), Tick(2, math.nan), Tick(3, 1.0)]

    assert 0 == divide(items, *key)[2]


@pytest.mark.parametrize("bad", [5, SimpleNamespace(k=[]), SimpleNamespace(k=object())])
def test_other_items_are_not_lost_beside_one_without_a_key(bad):
    items = [SimpleNamespace(k=n) for n in range(9)]
    made = WireBatch([np.arange(10)], None, None, [*items, bad])

    divided = {
        id(x): c
        for c, part in by_key(made, ("k",), task(3), 0, SentKeys())
        for x in part.items
    }

    assert 0 == divided[id(bad)]
    own = task(3)
    wanted = [own.stage.table_of(0)[bucket_of(item.k, 16)] for item in items]
    assert wanted == [divided[id(item)] for item in items]


def test_rows_that_skip_a_stage_pass_through_all_of_its_partitions():
    following = SimpleNamespace(number=1)
    layout = SimpleNamespace(together=lambda levels: [[following]] if levels else [])
    stage = TaskStage(range(1), (1, 3, 6), then=range(1, 2))
    skipping = EpochTask(stage, EpochAttempt(), ProcessRows(range(9)))
    rows = TaskRows()
    for unit, channels in ((1, 3), (2, 6), (REPORT, 4)):
        for channel in range(channels):
            rows.add(unit, channel, 0, b"blob")

    (made,) = rows.batches(skipping, layout)

    dests = made.column("dest").to_pylist()
    assert [0, 1, 2] == dests[:3]
    assert [0, 1, 2, 0, 1, 2] == dests[3:9]
    assert [0, 1, 2, 0] == dests[9:]
