"""The steps from which programs are generated: each writes one operator, or a figure.

`STEPS` maps the name of a step to its function and its weight. A step returns without
writing anything where no stream fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.programs.writer import Var, Writer

MOST_WINDOWS = 800  # items after which a stream should not grow any more
COLUMNS = (
    'ts=ab.last("ts"), key=ab.any("key"), zone=ab.first("zone"), value=ab.sum("value")'
)
EXACT = (
    'ts=ab.max("ts"), key=ab.last("key"), zone=ab.first("zone"), n=ab.count(), '
    'low=ab.min("value"), total=ab.sum("value")'
)
TOPS = 'ts=ab.max("ts"), tops=ab.highest("value"), keys=ab.counts("key"), low=ab.lowest("ts")'
SOME = 'ts=ab.last("ts"), some=ab.any("key"), n=ab.count()'
FILTERS = ("is_even", "outside", "is_rare") * 3 + ("never",)
TALLY = (
    'ts=ab.max("ts"), key=ab.any("key"), n=ab.count(), low=ab.min("value"), '
    'high=ab.max("value"), mean=ab.mean("value")'
)


def map_step(w: Writer) -> None:
    var = w.pick()
    f = w.rng.choice(("bump", "rezone", "rekey", "shift", "plain", "fold_time"))
    w.let(f"{var.name}.map({f})", var, ordered=var.ordered and f != "fold_time")


def filter_step(w: Writer) -> None:
    var = w.pick()
    p = w.rng.choice(FILTERS)
    w.let(f"{var.name}.filter({p})", var)


def flat_map_step(w: Writer) -> None:
    if small := w.small(3):
        var = w.pick(small)
        f, most = w.rng.choice((("up_to_three", 3), ("twice", 2), ("perhaps", 1)))
        w.let(f"{var.name}.flat_map({f})", var, items=var.items * most)


def scan_step(w: Writer) -> None:
    var = w.keyed()
    step = w.rng.choice(("running_total, 0", "difference, None", "numbered, 0"))
    w.let(f"{var.name}.scan({step})", var)


def apply_step(w: Writer) -> None:
    var = w.keyed()
    operator = w.rng.choice(("Counter", "Changes, 3", "Sheaves", "Bells"))
    ordered = var.ordered and operator == "Changes, 3"
    w.let(f"{var.name}.apply({operator})", var, ordered=ordered, items=3 * var.items)


def aggregate_step(w: Writer) -> None:
    """A window of any kind, summed up in any way, as a stream of events again."""
    var = w.keyed()
    window, factor = _window(w, var)
    if var.items * factor > MOST_WINDOWS:
        return
    how = w.rng.choice(
        (
            ".aggregate(total)",
            ".aggregate(fingerprint)",
            f".aggregate({COLUMNS}, into=Event)",
            f".aggregate({COLUMNS}, n=ab.count()).map(from_row)",
            f".aggregate({TALLY}, into=Tally).map(from_tally)",
        )
    )
    expression = f"{var.name}.window({window}){how}"
    w.let(
        expression, var, ordered=False, punctuated=False, items=1 + var.items * factor
    )


def totals_step(w: Writer) -> None:
    """A window over all items, whose columns can be computed in parts and merged."""
    var = w.pick()
    start = var.name if not var.key else f"{var.name}.key_by()"
    window, factor = _window(w, var)
    if var.items * factor > MOST_WINDOWS:
        return
    columns, end = w.rng.choice(
        (
            (EXACT, "from_totals"),
            (f"{EXACT}, into=Totals", "from_totals"),
            (SOME, "from_some"),
            (TOPS, "from_tops"),
        )
    )
    expression = f"{start}.window({window}).aggregate({columns}).map({end})"
    plain = replace(var, key=(), ordered=False, punctuated=False)
    w.let(expression, plain, items=1 + var.items * factor)


def _window(w: Writer, var: Var) -> tuple[str, int]:
    """Return the arguments of a window and how many windows an item may be in."""
    rng = w.rng
    late = rng.choice(("drop", "current"))
    when_late = "" if var.ordered else f', late="{late}"'
    kinds = [
        (f"count={rng.choice((1, 2, 3, 7))}", 1),
        (f"count={rng.choice((1, 2, 5))}, every={rng.choice((1, 2, 3))}", 1),
        (f'time={rng.choice((1, 5, 20))}, on="ts"{when_late}', 1),
        (f'time=10, every={rng.choice((3, 5, 10))}, on="ts"{when_late}', 4),
        (f'delta={rng.choice((2, 10))}, on="ts"', 1),
        (f'delta=10, every=4, on="{rng.choice(("ts", "value"))}"', 1),
    ]
    if var.punctuated:
        kinds += [("punctuation=True", 1)] * 6
    return rng.choice(kinds)


def punctuate_step(w: Writer) -> None:
    var = w.pick()
    when = w.rng.choice(("is_rare", "outside", "is_even"))
    w.let(f"{var.name}.punctuate({when})", var, punctuated=True)


def sentences_step(w: Writer) -> None:
    """Punctuations that pass another operator before they close windows."""
    var = w.keyed()
    when = w.rng.choice(("is_rare", "outside", "is_even"))
    between = w.rng.choice(
        ("", ".filter(is_even)", ".map(bump)", ".apply(Sheaves)", ".apply(Bells)")
    )
    expression = (
        f"{var.name}.punctuate({when}){between}"
        f".window(punctuation=True).aggregate(fingerprint)"
    )
    w.let(expression, var, ordered=False, punctuated=False)


def split_step(w: Writer) -> None:
    if small := w.small(2):
        var = w.pick(small)
        route, n = w.rng.choice(
            (("by_zone", 3), ("by_parity", 2), ("to_several", 2), ("to_itself", 1))
        )
        w.let_several(f"{var.name}.split({route}, {n})", var, n)


def union_step(w: Writer) -> None:
    streams = _several(w)
    w.let(f"ab.union({_names(streams)})", _together(streams), ordered=False)


def merge_step(w: Writer) -> None:
    streams = _several(w)
    w.let(f'ab.merge({_names(streams)}, by="ts")', _together(streams))


def barrier_step(w: Writer) -> None:
    streams = _several(w)
    end = ", into=blend)" if w.rng.random() < 0.7 else ").map(from_pair)"
    w.let(f"ab.barrier({_names(streams)}{end}", _together(streams), ordered=False)


def meeting_step(w: Writer) -> None:
    """Streams that meet key by key."""
    streams = _several(w)
    on = w.rng.choice(('on="key"', 'on="zone"', 'on=("key", "zone")'))
    how = w.rng.choice(("merge", "barrier"))
    end = {"merge": f'by="ts", {on})', "barrier": f"{on}, into={{}})"}[how]
    end = end.format(w.rng.choice(("blend", "pair_up")))
    if "pair" in end:
        streams = streams[:2]
    w.let(f"ab.{how}({_names(streams)}, {end}", _together(streams), ordered=False)


def pairs_step(w: Writer) -> None:
    """A fan-out whose branches give one item for each, so that they meet in pairs."""
    var = w.pick(w.small(2) or None)
    if var.items * 3 > MOST_WINDOWS:
        return
    sums = w.rng.choice(("key", "zone"))
    ways = [
        "",
        f".map({w.rng.choice(('bump', 'rezone', 'rekey', 'plain'))})",
        f'.key_by("{sums}").scan({w.rng.choice(("running_total, 0", "numbered, 0"))})',
        ".map(bump).map(rezone)",
        ".punctuate(is_even)",
        ".filter(outside)",
        ".block(double_block, pop=1, push=2)",
    ]
    chosen = w.rng.choices(ways, (2, 6, 3, 3, 1, 1, 1), k=w.rng.choice((2, 2, 3)))
    both = [
        w.let(f"{var.name}{way}", var, punctuated=var.punctuated and "block" not in way)
        if way
        else var
        for way in chosen
    ]
    w.use(*both)
    into = w.rng.choice(("into=blend)", "into=blend).map(bump)"))
    w.let(
        f"ab.barrier({_names(both)}, {into}",
        replace(var, key=()),
        ordered=False,
        punctuated=False,
        items=2 * var.items,
    )


def diamond_step(w: Writer) -> None:
    """A fan-out whose branches have work of their own and meet again."""
    var = w.pick(w.small(2) or None)
    if var.items * 2 > MOST_WINDOWS:
        return
    one = w.let(f"{var.name}.map({w.rng.choice(('bump', 'rezone', 'plain'))})", var)
    two = w.let(f"{var.name}.filter({w.rng.choice(('is_even', 'outside'))})", var)
    pair = [one, two] if w.rng.random() < 0.5 else [two, one]
    w.use(*pair)
    how = w.rng.choice(("union", "merge", "barrier"))
    end = {"union": ")", "merge": ', by="ts")', "barrier": ", into=blend)"}[how]
    ordered = var.ordered and how == "merge"
    w.let(f"ab.{how}({_names(pair)}{end}", _together(pair), ordered=ordered)


def join_step(w: Writer) -> None:
    small = [var for var in w.streams if var.items <= MOST_WINDOWS // 4]
    if not small:
        return
    left, right = w.pick(small), w.pick(small)
    on = w.rng.choice(('on="key", ', 'on=("key", "zone"), ', ""))
    windows = ("1", "3", 'ab.Window(time=5, on="ts")', 'ab.Window(delta=9, on="value")')
    sides = f"left_window={w.rng.choice(windows)}, right_window={w.rng.choice(windows)}"
    match = w.rng.choice(("", ", match=are_close"))
    end = ", into=pair_up)" if w.rng.random() < 0.6 else ").map(from_pair)"
    both = _together([left, right])
    expression = f"{left.name}.join({right.name}, {on}{sides}{match}{end}"
    w.let(expression, both, ordered=False, items=4 * both.items)


def block_step(w: Writer) -> None:
    var = w.keyed()
    block, factor = w.rng.choice(
        (
            ("sum_block, pop=2, push=1", 1),
            ("swap_block, pop=2, push=2", 1),
            ("double_block, pop=1, push=2", 2),
            ("peek_block, pop=3, push=2, peek=4", 1),
            ("smooth_block, pop=1, push=1, peek=3", 1),
        )
    )
    if var.items * factor <= MOST_WINDOWS:
        w.let(
            f"{var.name}.block({block})",
            var,
            ordered=False,
            punctuated=False,
            items=var.items * factor,
        )


def split_join_step(w: Writer) -> None:
    if not (small := w.small(2)):
        return
    var = w.pick(small)
    start = var.name if not var.key else f"{var.name}.key_by()"  # rates are per stream
    half = "lambda s: s.block(sum_block, pop=2, push=1)"
    double = "lambda s: s.block(double_block, pop=1, push=2)"
    smooth = "lambda s: s.block(smooth_block, pop=1, push=1, peek=3)"
    bump = "lambda s: s.map(bump)"
    thin = "lambda s: s.filter(is_even)"
    sums = 'lambda s: s.key_by("key").scan(running_total, 0)'
    chain = "ab.pipeline(lambda s: s.map(plain), lambda s: s.map(rezone))"
    splitter, branches, joiner = w.rng.choice(
        (
            ("ab.duplicate()", (bump, chain), "ab.round_robin()"),
            ("ab.duplicate()", (bump, half), "ab.round_robin([2, 1])"),
            ("ab.duplicate()", (sums, thin), "ab.round_robin()"),
            ("ab.round_robin()", (thin, sums), "ab.round_robin()"),
            ("ab.duplicate()", (half, bump, double), "ab.round_robin([1, 2, 4])"),
            ("ab.round_robin()", (bump, chain), "ab.round_robin()"),
            ("ab.round_robin([2, 1])", (bump, smooth), "ab.round_robin([2, 1])"),
            ("ab.round_robin([1, 2])", (chain, half), "ab.round_robin()"),
            ("ab.round_robin(2)", (half, double, bump), "ab.round_robin([1, 4, 2])"),
        )
    )
    expression = (
        f"{start}.pipe(ab.split_join({splitter}, [{', '.join(branches)}], {joiner}))"
    )
    w.let(
        expression,
        replace(var, key=()),
        ordered=False,
        punctuated=False,
        items=len(branches) * var.items,
    )


def iterate_step(w: Writer) -> None:
    _iterate(w, w.pick())


def rounds_step(w: Writer) -> None:
    """Rounds at punctuations, behind which streams may part and meet."""
    var = w.pick()
    when = w.rng.choice(("is_rare", "outside", "is_even"))
    between = w.rng.choice(("", "", ".map(bump)", ".filter(outside)"))
    marked = f"{var.name}.punctuate({when}){between}"
    _iterate(w, replace(var, name=marked, punctuated=True))


def _iterate(w: Writer, var: Var) -> None:
    body = w.rng.choice(("bump_body", "thin_body", "diamond_body", "window_body"))
    rounds = w.rng.choice((1, 2, 3))
    if body == "diamond_body" and var.items * 2**rounds > MOST_WINDOWS:
        return
    until = w.rng.choice(("", ", until=is_small"))
    factor = 2**rounds if body == "diamond_body" else 1
    w.let(
        f"{var.name}.iterate({body}, rounds={rounds}{until})",
        var,
        ordered=False,
        items=var.items * factor,
    )


def fragile_step(w: Writer) -> None:
    """An operator that fails on some items."""
    var = w.keyed()
    call = w.rng.choice(
        (
            "map(fragile_map)",
            "flat_map(fragile_parts)",
            "scan(fragile_step, 0)",
            "window(count=3).aggregate(fragile_total)",
            "apply(Fragile)",
        )
    )
    if var.items * 2 <= MOST_WINDOWS:
        w.let(
            f"{var.name}.{call}",
            var,
            ordered=False,
            punctuated=var.punctuated and "window" not in call,
            items=var.items * 2,
        )


def _several(w: Writer) -> list[Var]:
    """Choose two or three streams, perhaps one of them twice."""
    small = w.small(3) or [min(w.streams, key=lambda var: var.items)]
    return [w.pick(small) for _ in range(w.rng.choice((2, 2, 3)))]


def _names(streams: list[Var]) -> str:
    return ", ".join(var.name for var in streams)


def _together(streams: list[Var]) -> Var:
    """Return what holds of streams that have come together."""
    keys = {var.key for var in streams}
    return replace(
        streams[0],
        key=keys.pop() if len(keys) == 1 else (),
        ordered=all(var.ordered for var in streams),
        punctuated=False,
        items=sum(var.items for var in streams),
    )


FRAGILE = {"fragile": (fragile_step, 8)}  # only in programs that may fail
STEPS: dict[str, tuple[Callable[[Writer], None], int]] = {
    "map": (map_step, 4),
    "filter": (filter_step, 3),
    "flat_map": (flat_map_step, 3),
    "scan": (scan_step, 4),
    "apply": (apply_step, 4),
    "aggregate": (aggregate_step, 6),
    "punctuate": (punctuate_step, 4),
    "sentences": (sentences_step, 2),
    "split": (split_step, 2),
    "union": (union_step, 2),
    "merge": (merge_step, 2),
    "barrier": (barrier_step, 1),
    "diamond": (diamond_step, 2),
    "join": (join_step, 2),
    "block": (block_step, 3),
    "split_join": (split_join_step, 2),
    "iterate": (iterate_step, 1),
}
PARTING = {  # only in programs that part and meet
    "totals": (totals_step, 3),
    "meeting": (meeting_step, 4),
    "pairs": (pairs_step, 4),
    "rounds": (rounds_step, 3),
}
GRAPHS = {  # weights of the steps of programs that part and meet all the time
    "map": 4,
    "filter": 2,
    "flat_map": 2,
    "scan": 4,
    "apply": 1,
    "aggregate": 3,
    "punctuate": 1,
    "split": 4,
    "union": 5,
    "merge": 1,
    "barrier": 1,
    "diamond": 4,
    "join": 6,
    "split_join": 2,
    "totals": 3,
    "iterate": 2,
    "meeting": 4,
    "pairs": 4,
    "rounds": 3,
}
MARKED = {  # of programs full of punctuations, and of operators that answer to them
    "map": 3,
    "filter": 2,
    "flat_map": 2,
    "scan": 2,
    "apply": 5,
    "punctuate": 9,
    "sentences": 3,
    "split": 3,
}
