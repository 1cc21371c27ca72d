"""What a program is tuned for while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.control.settings import Settings


@dataclass(frozen=True)
class Throughput:
    """As many items a second as possible."""

    settings: Settings = field(default_factory=Settings)


def throughput() -> Throughput:
    """Tune a program for as many items a second as possible; the default.

    Threads and replicas are added while the program runs, as long as each of them is
    seen to help (see `Job.history`).

    >>> import anabranch as ab
    >>> sink = ab.from_iterable([1, 2]).map(abs).to_list()
    >>> ab.run(sink, on="local", goal=ab.throughput()).status
    'finished'
    """
    return Throughput()
