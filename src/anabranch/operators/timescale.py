"""Times and durations: parsing, measuring and converting back.

A time is a number, a `date` or a `datetime`. It is measured as a number: itself, or the
microseconds since 1970 (of a naive datetime and of a date on their own calendar). All
times that are compared with one another have one *scale*: "number", "date", "naive" or,
for datetimes with a zone, that zone.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, TypeAlias

from anabranch.errors import ArgumentError

Duration: TypeAlias = float | dt.timedelta  # a number is in the unit of the times
Scale: TypeAlias = (
    Any  # "number", "date", "naive" or a tzinfo: plain, since states hold it
)

_UNITS = {
    "us": dt.timedelta(microseconds=1),
    "ms": dt.timedelta(milliseconds=1),
    "s": dt.timedelta(seconds=1),
    "min": dt.timedelta(minutes=1),
    "h": dt.timedelta(hours=1),
    "d": dt.timedelta(days=1),
}
UNITS = tuple(_UNITS)
_TEXT = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(UNITS)})\s*")
_MICROSECOND = _UNITS["us"]
_DAY = _UNITS["d"]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NAIVE_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the calendar of naive datetimes
_FIRST_DAY = dt.date(1970, 1, 1)


def duration_of(given: str | Duration) -> Duration:
    """Return a duration: a text becomes a `timedelta`, anything else stays.

    >>> duration_of("250 ms"), duration_of("1.5 h"), duration_of(300)
    (datetime.timedelta(microseconds=250000), datetime.timedelta(seconds=5400), 300)
    """
    if not isinstance(given, str):
        return given
    found = _TEXT.fullmatch(given)
    if found is None:
        msg = (
            f"a duration must be a number, a timedelta or a text like '250 ms'; got "
            f"{given!r}; the units are {', '.join(UNITS)}"
        )
        raise ArgumentError(msg)
    return float(found[1]) * _UNITS[found[2]]


def is_positive(duration: Duration) -> bool:
    """Tell whether a duration is above 0.

    >>> is_positive(5), is_positive(dt.timedelta(0))
    (True, False)
    """
    if isinstance(duration, dt.timedelta):
        return duration > dt.timedelta(0)
    return duration > 0


def scale_of(value: Any) -> Scale:
    """Return the scale on which a time is measured.

    >>> scale_of(7), scale_of(dt.date(2026, 1, 1)), scale_of(_EPOCH)
    ('number', 'date', datetime.timezone.utc)
    """
    if isinstance(value, dt.datetime):
        return value.tzinfo if value.utcoffset() is not None else "naive"
    return "date" if isinstance(value, dt.date) else "number"


def measure(value: Any, scale: Scale, on: str) -> Any:
    """Return a time as a number; `on` names its attribute in errors.

    >>> measure(dt.date(1970, 1, 2), "date", "day")
    86400000000
    """
    if scale == "number" and not isinstance(value, dt.date):
        return _number(value, on)
    if scale_of(value) != scale:
        raise TypeError(_describe_mixture(value, scale, on))
    match scale:
        case "date":
            return (value - _FIRST_DAY) // _MICROSECOND
        case "naive":
            return (value - _NAIVE_EPOCH) // _MICROSECOND
    return (value - _EPOCH) // _MICROSECOND


def _number(value: Any, on: str) -> Any:
    try:
        finite = value - value == 0 and not isinstance(value, complex)
    except TypeError:
        finite = False
    if finite:
        return value
    msg = (
        f"{on!r} must be a finite number, a date or a datetime; got {value!r}; map the "
        f"items first, or filter such items out"
    )
    raise TypeError(msg)


def _describe_mixture(value: Any, scale: Scale, on: str) -> str:
    return (
        f"{on!r} must be of one kind throughout, {describe_scale(scale)}; got {value!r}, "
        f"{describe_scale(scale_of(value))}; map the items first, for example with "
        f"astimezone(datetime.UTC)"
    )


def describe_scale(scale: Scale) -> str:
    """Return the values of a scale in words.

    >>> describe_scale("naive"), describe_scale(dt.UTC)
    ('a datetime without a zone', 'a datetime in the zone UTC')
    """
    words = {
        "number": "a number",
        "date": "a date",
        "naive": "a datetime without a zone",
    }
    return words[scale] if isinstance(scale, str) else f"a datetime in the zone {scale}"


def restore(number: Any, scale: Scale) -> Any:
    """Return the time that a number represents.

    >>> restore(86_400_000_000, "date")
    datetime.date(1970, 1, 2)
    """
    match scale:
        case "number":
            return number
        case "date":
            return _FIRST_DAY + dt.timedelta(microseconds=number)
        case "naive":
            return _NAIVE_EPOCH + dt.timedelta(microseconds=number)
    return (_EPOCH + dt.timedelta(microseconds=number)).astimezone(scale)


def span_on(duration: Duration, scale: Scale, unit: str | None, use: str) -> Any:
    """Return a duration as a number on a scale; `use` names it in errors.

    >>> span_on(dt.timedelta(seconds=2), "number", "ms", "time")
    2000
    """
    if scale != "number":
        return _span_in_microseconds(duration, scale, use)
    if not isinstance(duration, dt.timedelta):
        return duration
    if unit is None:
        msg = (
            f"{use} must be a number where times are numbers of an unknown unit; got "
            f"{duration}; state the unit in event_time(..., unit=), one of "
            f"{', '.join(UNITS)}"
        )
        raise TypeError(msg)
    whole, rest = divmod(duration, _UNITS[unit])
    return whole if not rest else duration / _UNITS[unit]


def _span_in_microseconds(duration: Duration, scale: Scale, use: str) -> int:
    if not isinstance(duration, dt.timedelta):
        if duration == 0:
            return 0
        msg = (
            f"{use} must be a timedelta or a text like '5 min' where times are "
            f"datetimes; got {duration!r}"
        )
        raise TypeError(msg)
    if scale == "date" and duration % _DAY:
        msg = f"{use} must be whole days where times are dates; got {duration}"
        raise TypeError(msg)
    return duration // _MICROSECOND
