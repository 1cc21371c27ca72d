"""Every strategy has its merge."""

from __future__ import annotations

import pytest

from anabranch.runtime.ordering.by_number import (
    RelaxedMerge,
    RoundRobinMerge,
    SeqnoMerge,
    StrictMerge,
)
from anabranch.runtime.ordering.by_position import PositionMerge
from anabranch.runtime.ordering.choose import make_merge
from anabranch.runtime.ordering.merge import SingleQueue

KINDS = {
    "single": SingleQueue,
    "round_robin": RoundRobinMerge,
    "seqno": SeqnoMerge,
    "strict": StrictMerge,
    "relaxed": RelaxedMerge,
    "position": PositionMerge,
}


@pytest.mark.parametrize("strategy", KINDS)
def test_every_strategy_has_its_merge(strategy):
    merge = make_merge(strategy, [0, 0, 0])

    assert KINDS[strategy] is type(merge)
    assert merge.queues == 3
