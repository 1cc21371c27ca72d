"""The steps of generated programs whose streams have a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.programs.steps import COLUMNS, MOST_WINDOWS
from tests.programs.writer import Var, Writer

HALF = "half"  # a function that gives a key
BOUNDS = (
    'ts=ab.window_end(), key=ab.any("key"), zone=ab.first("zone"), value=ab.count()'
)


def clock_step(w: Writer) -> None:
    """A clock, behind which other steps stand; mostly of a stream out of order."""
    expression, var = _clocked(w)
    w.let(expression, var, ordered=False)


def _clocked(w: Writer) -> tuple[str, Var]:
    var = w.pick()
    shaken = w.rng.choice(("", ".map(shake)", ".map(shake)", ".map(jump)"))
    lateness = w.rng.choice((0, 3, 10, 12))
    late = w.rng.choice(("drop", "current"))
    between = w.rng.choice(
        (
            *("", "", ".filter(is_even)", ".map(bump)", ".map(rekey)"),
            '.lookup(SHIFTS, on="zone", into=shift_by)',
            '.lookup(SHIFTS, on="zone", into=shift_by, default=1)',
        )
    )
    expression = (
        f'{var.name}{shaken}.event_time("ts", lateness={lateness}, late="{late}")'
    )
    return expression + between, replace(var, punctuated=False)


def timed_window_step(w: Writer) -> None:
    """Windows and sessions that close by the clock."""
    expression, var = _clocked(w)
    if var.items * 4 > MOST_WINDOWS:
        return
    key, names = _key(w)
    window = w.rng.choice(
        (
            "time=10",
            "time=1",
            "time=20, every=5",
            "time=3, every=10",
            "gap=2",
            "gap=9",
        )
    )
    how = w.rng.choice(
        (
            ".aggregate(fingerprint)",
            f".aggregate({COLUMNS}, into=Event)",
            f".aggregate({BOUNDS}, into=Event)",
            f'.aggregate({BOUNDS}, into=Event).window(time=20, on="ts").aggregate(total)',
        )
    )
    w.let(
        f'{expression}{key}.window({window}, on="ts"){how}',
        var,
        key=names,
        ordered=False,
        items=4 * var.items,
    )


def alarm_step(w: Writer) -> None:
    expression, var = _clocked(w)
    if var.items * 4 > MOST_WINDOWS:
        return
    key, names = _key(w)
    operator = w.rng.choice(("Alarm", "Echoes"))
    w.let(
        f"{expression}{key}.apply({operator})",
        var,
        key=names,
        ordered=False,
        items=4 * var.items,
    )


def forget_step(w: Writer) -> None:
    """Keys that are forgotten when they are old."""
    expression, var = _clocked(w)
    after = w.rng.choice((1, 5, 20))
    names = w.rng.choice(
        (("key",), ("zone",), ("key", "zone"), (HALF,), ("zone", HALF))
    )
    key = _parts(names)
    call = w.rng.choice(
        (
            "scan(running_total, 0)",
            "apply(Counter)",
            "window(count=3).aggregate(fingerprint)",
            'window(delta=10, on="ts").aggregate(total)',
        )
    )
    w.let(
        f"{expression}.key_by({key}, forget_after={after}).{call}",
        var,
        key=names,
        ordered=False,
        items=3 * var.items,
    )


def in_order_step(w: Writer) -> None:
    expression, var = _clocked(w)
    w.let(f"{expression}.in_order()", var, ordered=False)


def clocks_meet_step(w: Writer) -> None:
    """Streams with clocks come together, and the slower clock counts."""
    small = w.small(4)
    if not small:
        return
    left, right = w.pick(small), w.pick(small)
    sides = [
        f"{var.name}.map({w.rng.choice(('shake', 'jump', 'plain'))})"
        f'.event_time("ts", lateness={w.rng.choice((0, 3, 12))})'
        for var in (left, right)
    ]
    items = left.items + right.items
    if w.rng.random() < 0.5:
        end = w.rng.choice(('.key_by("key").window(time=10)', ".window(gap=3)"))
        expression = f"ab.union({', '.join(sides)}){end}.aggregate(fingerprint)"
        names: tuple[str, ...] = ("key",) if "key" in end else ()
    else:
        on = w.rng.choice(('on="key", ', 'on=("key", "zone"), ', ""))
        within = w.rng.choice((1, 5))
        expression = (
            f"{sides[0]}.join({sides[1]}, {on}within={within}, match=are_close, "
            f"into=pair_up)"
        )
        names, items = (), 4 * items
    w.let(expression, left, key=names, ordered=False, punctuated=False, items=items)


def _key(w: Writer) -> tuple[str, tuple[str, ...]]:
    names = w.rng.choice(
        (("key",), ("key",), ("zone",), ("key", "zone"), (HALF,), ("key", HALF), ())
    )
    return f".key_by({_parts(names)})", names


def _parts(names: tuple[str, ...]) -> str:
    return ", ".join(name if name == HALF else repr(name) for name in names)


TIMED: dict[str, tuple[Callable[[Writer], None], int]] = {
    "clock": (clock_step, 6),
    "timed_window": (timed_window_step, 8),
    "alarm": (alarm_step, 6),
    "forget": (forget_step, 6),
    "in_order": (in_order_step, 4),
    "clocks_meet": (clocks_meet_step, 5),
}
