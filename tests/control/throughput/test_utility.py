"""The predictions of section 3.1, with the figures of the paper."""

from __future__ import annotations

import pytest

from anabranch.control.throughput.pipelining import predict, utility
from tests.control.example import EXAMPLE


def test_the_prediction_for_o3():
    """
    Section 3.1.1: t0 has 0.4 and t1 0.5 left, and the new thread 1.
    """
    assert pytest.approx({"t0": 0.4, "t1": 0.5, "o3": 1.0}) == predict(EXAMPLE, "o3")


UTILITIES = {"o4": 0.8, "o8": 0.6, "o9": 0.65, "o3": 1.0}


@pytest.mark.parametrize(("port", "expected"), UTILITIES.items())
def test_utilities_of_the_example(port, expected):
    assert pytest.approx(expected) == utility(EXAMPLE, port)
