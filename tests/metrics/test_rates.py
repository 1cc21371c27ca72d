"""Gains, and when they are beyond chance."""

from __future__ import annotations

import pytest

from anabranch.metrics.load import Gain, gain


def test_a_gain_is_the_ratio_of_the_means():
    assert pytest.approx(1.5) == gain([90, 110], [140, 160]).ratio


def test_more_scatter_makes_a_wider_margin():
    calm = gain([99, 101] * 5, [149, 151] * 5)
    wild = gain([50, 150] * 5, [100, 200] * 5)

    assert calm.ratio == wild.ratio
    assert calm.margin < wild.margin
    assert calm.exceeds(0.03)
    assert not gain([50, 150], [100, 200]).exceeds(0.03)


def test_more_measurements_make_a_narrower_margin():
    assert (
        gain([90, 110] * 50, [95, 115] * 50).margin
        < gain([90, 110] * 5, [95, 115] * 5).margin
    )


def test_a_small_gain_is_none_however_sure():
    assert not Gain(ratio=1.02, margin=0.0).exceeds(0.03)


def test_nothing_is_gained_on_a_stream_that_stood_still():
    assert not gain([0.0, 0.0], [100.0]).exceeds(0.03)
