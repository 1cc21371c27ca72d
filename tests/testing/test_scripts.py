"""A script source gives what its script says, on every engine."""

from __future__ import annotations

import pytest

import anabranch as ab
from anabranch.errors import InputError
from anabranch.testing import Fail, Pause, script


@pytest.mark.parametrize("on", ["sequential", "local"])
def test_items_pauses_and_malformed_rows(on):
    lost = []
    bad = ab.Malformed("x", "must be a number; got 'x'")
    out = script(1, Pause(0.01), bad, 2).map(lambda n: n + 1).to_list()

    ab.run(out, on=on, on_error=ab.dead_letter(lost.append))

    assert [2, 3] == out.items
    assert ["x"] == [failure.item for failure in lost]


@pytest.mark.parametrize("on", ["sequential", "local"])
def test_a_source_that_fails_ends_the_job_behind_the_items_before(on):
    out = script(1, 2, Fail(OSError("unplugged")), 3).to_list()

    with pytest.raises(InputError, match="unplugged"):
        ab.run(out, on=on)

    assert [1, 2] == out.items
