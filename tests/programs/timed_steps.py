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
    lateness = w.rng.choice((0, 3, 10, 12, '"3 s", unit="s"'))
    late = w.rng.choice(("drop", "current"))
    between = w.rng.choice(
        (
            *("", "", ".filter(is_even)", ".map(bump)", ".map(rekey)"),
            *(".flat_map(perhaps)", ".split(to_itself, 1)[0]", ".map(shift)"),
            '.key_by("zone").scan(running_total, 0).key_by()',
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
            f".aggregate({BOUNDS}, into=Event).window(gap=7).aggregate(total)",
        )
    )
    late = w.rng.choice((', late="drop"', ', late="current"'))
    late = late if "shift" in expression or w.rng.random() < 0.3 else ""
    if 'unit="s"' in expression:
        window = _with_unit(window)
    w.let(
        f'{expression}{key}.window({window}, on="ts"{late}){how}',
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
            "block(sum_block, pop=2, push=1)",
            *("apply(Alarm)", "apply(Echoes)", "apply(Sheaves)"),
        )
    )
    if var.items * 5 > MOST_WINDOWS:
        return
    in_seconds = 'unit="s"' in expression
    after = f'"{after} s"' if in_seconds else after
    # A later clock may have times without a unit.
    again = f".key_by({key})" if in_seconds else ""
    w.let(
        f"{expression}.key_by({key}, forget_after={after}).{call}{again}",
        var,
        key=names,
        ordered=False,
        items=5 * var.items,
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
        end, names = w.rng.choice(BEHIND_MEETING)
        expression = f"ab.union({', '.join(sides)}){end}"
        items *= 5
    else:
        on = w.rng.choice(('on="key", ', 'on=("key", "zone"), ', ""))
        within = w.rng.choice((1, 5))
        end, names = w.rng.choice((("", ()), ("", ()), *BEHIND_MEETING))
        expression = (
            f"{sides[0]}.join({sides[1]}, {on}within={within}, match=are_close, "
            f"into=pair_up){end}"
        )
        items *= 12
    if items <= 3 * MOST_WINDOWS:
        w.let(expression, left, key=names, ordered=False, punctuated=False, items=items)


# What follows the clock of two streams. The time of a pair may be another than that of
# its items, so it may be late.
BEHIND_MEETING = (
    ('.key_by("key").window(time=10, late="drop").aggregate(fingerprint)', ("key",)),
    ('.window(gap=3, late="current").aggregate(fingerprint)', ()),
    (".in_order()", ()),
    ('.key_by("key").apply(Alarm)', ("key",)),
    ('.key_by("zone", forget_after=4).scan(running_total, 0)', ("zone",)),
)


def dated_step(w: Writer) -> None:
    """What follows a clock of datetimes or dates, with lengths that have a unit."""
    small = w.small(12)
    if not small:
        return
    var = w.pick(small)
    shaken = w.rng.choice((".map(shake)", ".map(jump)", ""))
    f, unit, step = w.rng.choice(
        (
            *(("dated", "s", "SECOND"), ("zoned", "s", "SECOND")),
            *(("unzoned", "s", "SECOND"), ("by_day", "d", "DAY")),
        )
    )
    late = w.rng.choice(("drop", "current"))
    lateness = w.rng.choice((f'"3 {unit}"', f"10 * {step}", "0"))
    clocked = (
        f"{var.name}.key_by(){shaken}.map({f})"
        f'.event_time("at", lateness={lateness}, late="{late}")'
    )
    bounds = 'at={}, key=ab.any("key"), zone=ab.count(), value=ab.sum("value")'
    starts, ends = (bounds.format(f"ab.window_{end}()") for end in ("start", "end"))
    end = w.rng.choice(
        (
            f'.window(time="7 {unit}").aggregate({ends})',
            f'.window(time="20 {unit}", every=5 * {step}).aggregate({starts})',
            f'.window(gap="4 {unit}").aggregate({ends})',
            f'.window(gap="4 {unit}").aggregate(mark_moments)',
            f".apply(DatedAlarm, {step})",
            f'.join(again, on="key", within="3 {unit}", into=pair_moments)',
            ".in_order().scan(number_moment, 0)",
        )
    )
    key = w.rng.choice(("", '.key_by("key")', '.key_by("key", "zone")'))
    forgetting = f'.key_by("key", forget_after="6 {unit}").scan(number_moment, 0)'
    end = forgetting if w.rng.random() < 0.15 else key + end
    if "again" in end:
        again = w.fresh()
        w.lines.append(f"{again} = {clocked}")
        clocked, end = again, end.replace("again", again)
    w.let(
        f'{clocked}{end}.map(undated).key_by().event_time("ts", late="current")',
        replace(var, key=()),
        ordered=False,
        punctuated=False,
        items=12 * var.items,
    )


def latest_step(w: Writer) -> None:
    """The latest item of another stream."""
    left, right = w.pick(), w.pick()
    on = w.rng.choice(('on="key"', 'on=("key", "zone")'))
    call = w.rng.choice(
        (
            f"join_latest({right.name}, {on}, into=pair_up)",
            f"lookup({right.name}, {on}, into=pair_up)",
            f"lookup({right.name}, {on}, into=pair_or_none, default=None)",
        )
    )
    w.let(
        f"{left.name}.{call}",
        replace(left, key=()),
        ordered=False,
        punctuated=False,
    )


def fragile_clock_step(w: Writer) -> None:
    """What fails behind a clock: late items, and functions of windows and timers."""
    expression, var = _clocked(w)
    if var.items * 4 > MOST_WINDOWS:
        return
    late = w.rng.choice(('late="error"', 'late="drop"'))
    expression = expression.replace('late="drop"', late).replace(' unit="s",', "")
    expression = expression.replace('"3 s",', "3,")
    key, names = _key(w)
    late = w.rng.choice(("error", "drop"))
    call = w.rng.choice(
        (
            f'window(time=10, late="{late}").aggregate(fragile_total)',
            f'window(time=20, every=5, late="{late}").aggregate(fragile_total)',
            f'window(gap=3, late="{late}").aggregate(fragile_total)',
            "apply(FragileAlarm)",
            "in_order().map(fragile_map)",
        )
    )
    w.let(
        f"{expression}{key}.{call}",
        var,
        key=names,
        ordered=False,
        items=4 * var.items,
    )


def _with_unit(window: str) -> str:
    """Give the lengths of a window a unit: `time=10` becomes `time="10 s"`."""
    parts = (part.partition("=") for part in window.split(", "))
    return ", ".join(f'{name}="{length} s"' for name, _, length in parts)


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
    "dated": (dated_step, 6),
    "latest": (latest_step, 2),
}
FRAGILE_TIMED = {"fragile_clock": (fragile_clock_step, 8)}
