import datetime as dt

import pytest

from anabranch.errors import ArgumentError
from anabranch.operators.clock import duration_of, measure, restore, scale_of

EASTERN = dt.timezone(dt.timedelta(hours=-5))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250 ms", 0.25), ("5min", 300), ("2 h", 7200), ("1 d", 86400), ("3 us", 3e-6)],
)
def test_a_text_is_a_number_and_a_unit(text, seconds):
    assert dt.timedelta(seconds=seconds) == duration_of(text)


@pytest.mark.parametrize("text", ["", "5", "min", "5 weeks", "-5 s", "9999999999 d"])
def test_other_texts_are_no_durations(text):
    with pytest.raises(ArgumentError, match="a duration must be"):
        duration_of(text)


@pytest.mark.parametrize(
    "value",
    [
        7,
        2.5,
        dt.date(2026, 11, 17),
        dt.datetime(2026, 11, 17, 5, 6, 7, 8),  # noqa: DTZ001 - naive on purpose
        dt.datetime(2026, 11, 17, 5, 6, 7, 8, tzinfo=EASTERN),
    ],
)
def test_what_is_measured_can_be_put_back(value):
    scale = scale_of(value)

    back = restore(measure(value, scale, "ts"), scale)

    assert value == back
    assert scale == scale_of(back)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "noon", None])
def test_what_is_no_time_is_refused(value):
    with pytest.raises(TypeError, match="'ts' must be a finite number"):
        measure(value, "number", "ts")
