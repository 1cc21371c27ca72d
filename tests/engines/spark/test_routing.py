"""Every item reaches exactly one channel, and a key always the same one."""

import numpy as np
import pytest

from anabranch.engines.spark.routing import by_key, by_range
from anabranch.engines.spark.states import bucket_of
from anabranch.engines.spark.task import EpochTask
from anabranch.engines.spark.wire import Batch
from anabranch.runtime.columns import form_of
from anabranch.runtime.punctuation import WINDOW
from tests.engines.spark.items import Trade, trades


def batch(items, *, table=False):
    positions = [np.arange(len(items))]
    made = Batch(positions, form_of(Trade), None, list(items))
    return made.compact() if table else made


def task(channels, end=100):
    return EpochTask(1, 0, (channels,), 0, end)


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("key", [("symbol",), ("symbol", "volume")])
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_a_key_has_one_channel_and_order_is_kept_within_it(table, key, channels):
    items = trades(100)

    divided = list(by_key(batch(items, table=table), key, task(channels), 0))

    assert sorted(items) == sorted(x for _, part in divided for x in part.items)
    homes = {}
    for channel, part in divided:
        assert sorted(part.items) == part.items
        for item in part.items:
            found = tuple(getattr(item, name) for name in key)
            assert homes.setdefault(found, channel) == channel


def test_the_channel_of_a_key_is_the_owner_of_its_bucket():
    made = task(3)
    for channel, part in by_key(batch(trades(50)), ("symbol",), made, 0):
        for item in part.items:
            assert made.channel_of_bucket(0, bucket_of(item.symbol)) == channel


def test_a_punctuation_goes_to_every_channel_in_its_place():
    items = [*trades(20), WINDOW, *trades(20)]

    divided = dict(by_key(batch(items), ("symbol",), task(3), 0))

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
