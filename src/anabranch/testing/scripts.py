"""A source that follows a script: items, malformed rows, pauses and failures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from anabranch.connectors.base import Malformed, Source
from anabranch.language.sources import read
from anabranch.language.stream import Stream


@dataclass(frozen=True)
class Pause:
    """Nothing arrives for some seconds.

    >>> import anabranch as ab
    >>> ab.testing.outputs(ab.testing.script(1, ab.testing.Pause(0.01), 2))
    [1, 2]
    """

    seconds: float


@dataclass(frozen=True)
class Fail:
    """Reading fails with an error.

    >>> import anabranch as ab
    >>> fail = ab.testing.Fail(OSError("unplugged"))
    >>> ab.testing.outputs(ab.testing.script(1, fail))
    Traceback (most recent call last):
        ...
    anabranch.errors.InputError: ...
    """

    error: Exception


class Script(Source):
    """Reads the steps of a script; a position is the number of steps done."""

    label = "script"

    def __init__(self, steps: tuple[Any, ...]) -> None:
        self._steps = steps

    def read(self, partition: str, position: Any) -> Iterator[tuple[Any, Any]]:
        done = position or 0
        for number, step in enumerate(self._steps[done:], done + 1):
            match step:
                case Pause(seconds):
                    time.sleep(seconds)
                case Fail(error):
                    raise error
                case Malformed() | _:
                    yield step, number


def script(*steps: Any, type: Any = None, name: str | None = None) -> Stream:
    """Read a script, step by step.

    A step is an item; `ab.Malformed(raw, reason)` for an unreadable row; `Pause` for
    some seconds without items; or `Fail` for an error of the source. Items out of time
    order are late, as with any source.

    >>> import anabranch as ab
    >>> numbers = ab.testing.script(1, ab.Malformed("x", "must be a number"), 3)
    >>> out = numbers.map(lambda n: -n).to_list()
    >>> _ = ab.run(out, on="sequential", on_error="skip")
    >>> out.items
    [-1, -3]
    """
    return read(Script(steps), type, name=name)
