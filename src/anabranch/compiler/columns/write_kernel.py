"""Writes the kernel text of an operator: a loop over items around its function.

Each role has its own form. A map stores the results of its function; a filter whether
they are true; a scan keeps its state in arrays, one element per key; a flat_map writes
its outputs consecutively; a window calls its function with a range of indices.
"""

from __future__ import annotations

import datetime as dt
import functools
import types
from collections.abc import Iterator, Sequence
from typing import Any

from anabranch.compiler.columns.arithmetic import Module
from anabranch.compiler.columns.translate import (
    Translated,
    translate,
    translate_columns,
    translate_outputs,
)
from anabranch.compiler.columns.values import (
    ZERO,
    Items,
    Known,
    NoColumnsError,
    Scalar,
    Value,
    describe_shape,
    flatten_all,
    join,
    kind_of_known,
    rebuild,
    shape_of,
    shape_of_type,
)
from anabranch.graph.graph import Op
from anabranch.operators.clock import EventTime, EventTimeKernel, is_exact_step
from anabranch.operators.timed import spans_of
from anabranch.operators.windows import Aggregate, Window, lengths_of
from anabranch.plan.column_kernels import (
    COLUMN_KINDS,
    ColumnKernel,
    ColumnKind,
    ColumnRole,
    ColumnShape,
    ColumnWindow,
)

_MOST_ROUNDS = 6  # for the kinds of a state to stabilize


class KernelText:
    """A kernel text under construction; it takes items of a shape."""

    def __init__(self, op: Op, takes: ColumnShape) -> None:
        self.op = op
        self.takes = takes
        self.scalars = list(takes.scalars())
        self.module = Module()
        self.reads: list[int] = []
        self.body: list[str] = []
        self.stored: list[ColumnShape] = []
        self.in_place = False  # see `ColumnWindow`

    @property
    def item(self) -> Value:
        """An item as a function argument; `!n` is its scalar n."""
        values: list[Value] = [
            Known(None)
            if one.kinds == ("none",)
            else Scalar(one.kinds, f"!{n}", type=one.type)
            for n, one in enumerate(self.scalars)
        ]
        return rebuild(self.takes, iter(values))

    @property
    def items(self) -> Items:
        """The items of a window, in the columns of the kernel.

        The first of these is their order, if they are read in place.
        """
        columns, place = [], 1
        at = "W[0][{at}]" if self.in_place else "{at}"
        for one in self.scalars:
            texts = [f"W[{place + n}][{at}]" for n in range(len(one.arrays))]
            place += len(texts)
            single = len(texts) == 1
            parts = () if single else tuple(texts)
            text = texts[0] if single else ""
            columns.append(Scalar(one.kinds, text, None, parts, one.type))
        return Items(self.takes, tuple(columns), "lo", "size")

    def call(
        self, made: Translated, args: Sequence[Value], first: str = "0", size: str = "0"
    ) -> None:
        """Call a function; give up if it does."""
        scalars = list(flatten_all(args))
        texts = [t for n in sorted(made.uses) for t in self.texts(scalars[n])]
        rest = "".join(f", {text}" for text in texts)
        self.body.append(f"r = {made.name}(C, Q, W, {first}, {size}{rest})")
        self.body.append("if r[0]:")
        self.body.append("    return j")

    def spread(self, made: Translated, args: Sequence[Value]) -> None:
        """Call a function that writes its outputs from index `p` on, and count them."""
        scalars = list(flatten_all(args))
        texts = [t for n in sorted(made.uses) for t in self.texts(scalars[n])]
        rest = "".join(f", {one}" for one in [*texts, "O", "p"])
        self.body += [
            f"r = {made.name}(C, Q, W, 0, 0{rest})",
            "if r[0]:",
            "    return j",
            "if r[1] < 0:",
            "    return -1",
            "counts[j] = r[1] - p",
            "p = r[1]",
        ]

    def texts(self, scalar: Scalar) -> list[str]:
        """Return the texts of a scalar's variables; `!n` is scalar n of an item."""
        if not scalar.text.startswith("!"):
            return scalar.texts
        number = int(scalar.text[1:])
        if number not in self.reads:
            self.reads.append(number)
        return [f"x{number}{s}[j]" for s in self.scalars[number].suffixes]

    def outputs(self, shape: ColumnShape) -> ColumnShape:
        """Return the shape of the operator's outputs; refuse undeclared ones."""
        if shape.parts is None and shape.kinds == ("none",):
            msg = "gives nothing but None"
            raise NoColumnsError(msg)
        declared = shape_of_type(shape.type) if shape.parts is not None else None
        if self.op.type is not None:
            wanted = shape_of_type(self.op.type)
            if wanted is not None and not _is_like(wanted, shape):
                msg = (
                    f"gives {describe_shape(shape)}, which its annotation does not say"
                )
                raise NoColumnsError(msg)
            declared = wanted or declared
        if declared is None:
            return shape
        kept = map(_choose_kinds, declared.scalars(), shape.scalars())
        return rebuild_shape(declared, kept)

    def store(
        self,
        made: Translated,
        args: Sequence[Value],
        gives: ColumnShape,
        first: int = 0,
    ) -> tuple[int | None, ...]:
        """Store the outputs, whose scalars begin with number `first` of a result.

        Return which of them are unchanged scalars of the item.
        """
        scalars = list(made.gives.scalars())
        params = list(flatten_all(args))
        sources: list[int | None] = []
        place = 1 + sum(
            len(scalars[n].arrays) for n in range(first) if made.forwards[n] is None
        )
        for offset, kept in enumerate(gives.scalars()):
            number = first + offset
            forwarded, found = made.forwards[number], scalars[number]
            if forwarded is not None:
                value = params[forwarded]
                if value.text.startswith("!") and found == kept:
                    sources.append(int(value.text[1:]))
                    continue
                texts = self.texts(value)
            else:
                texts = [f"r[{place + n}]" for n in range(len(found.arrays))]
                place += len(texts)
            sources.append(None)
            self._store_scalar(texts, found, kept)
        return tuple(sources)

    def _store_scalar(
        self, texts: list[str], found: ColumnShape, kept: ColumnShape
    ) -> None:
        """Store a scalar of some kinds as one of others; give up if it is neither."""
        number = len(self.stored)
        self.stored.append(kept)
        if len(kept.kinds) == 1:
            (kind,) = kept.kinds
            if len(found.kinds) > 1:
                self.body.append(f"if {texts[0]} != {COLUMN_KINDS.index(kind)}:")
                self.body.append("    return j")
                texts = texts[found.arrays.index(kind, 1) :] if kind != "none" else []
            if kind != "none":
                self.body.append(f"o{number}[j] = {texts[0]}")
            return
        others = [k for k in found.kinds if k not in kept.kinds]
        if others:
            tags = " or ".join(f"{texts[0]} == {COLUMN_KINDS.index(k)}" for k in others)
            self.body.append(f"if {tags}:")
            self.body.append("    return j")
        for suffix, text in zip(kept.suffixes, widen(texts, found, kept), strict=True):
            self.body.append(f"o{number}{suffix}[j] = {text}")

    def write(
        self,
        head: Sequence[str] = (),
        states: Sequence[str] = (),
        outs: Sequence[str] | None = None,
        *,
        before: Sequence[str] = (),
        columns: bool = False,
    ) -> str:
        """Return the whole text; `columns` if all are passed as `W`."""
        window = self._window_columns() if columns else "C"
        tables = [f"q{n}" for n in range(2 * len(self.module.tables))]
        fields = [f"x{n}{s}" for n in self.reads for s in self.scalars[n].suffixes]
        if outs is None:
            outs = [
                f"o{n}{s}" for n, one in enumerate(self.stored) for s in one.suffixes
            ]
        params = ["n", "C", *head, *fields, *tables, *states, *outs]
        lines = [
            *self.module.texts,
            f"def kernel({', '.join(params)}):",
            f"    Q = ({', '.join(tables) or 'C'},)",
            f"    W = ({window},)",
            *(f"    {line}" for line in before),
            "    for j in range(n):",
            *(f"        {line}" for line in self.body),
            "    return n",
        ]
        return "\n".join(lines) + "\n"

    def _window_columns(self) -> str:
        """Return the window columns that the functions read, by number."""
        text = "\n".join(self.module.texts)
        names, place = ["places" if self.in_place else "C"], 1
        self.reads = []
        for number, one in enumerate(self.scalars):
            suffixes = one.suffixes
            if any(f"W[{place + n}]" in text for n in range(len(suffixes))):
                self.reads.append(number)
                names += [f"x{number}{suffix}" for suffix in suffixes]
            else:
                names += ["C"] * len(suffixes)
            place += len(suffixes)
        return ", ".join(names)

    def kernel(
        self,
        role: ColumnRole,
        gives: ColumnShape,
        sources: tuple[int | None, ...],
        text: str,
        *,
        state: ColumnShape | None = None,
        window: ColumnWindow | None = None,
    ) -> ColumnKernel:
        """Return the kernel of a text."""
        return ColumnKernel(
            operator=self.op.name,
            role=role,
            takes=self.takes,
            reads=tuple(self.reads),
            gives=gives,
            sources=sources,
            text=text,
            state=state,
            constants=tuple((kind_of(one), one) for one in self.module.constants),
            tables=tuple(self.module.tables),
            window=window,
        )


def kind_of(constant: Any) -> ColumnKind:
    """Return the kind of a coded constant."""
    kind = kind_of_known(constant)
    assert kind is not None  # noqa: S101 - it is one of the module's
    return kind


def _is_like(declared: ColumnShape, found: ColumnShape) -> bool:
    """Tell whether two shapes are tuples of the same types, or both are scalars."""
    if declared.parts is None or found.parts is None:
        return declared.parts is found.parts
    if declared.type is not found.type or len(declared.parts) != len(found.parts):
        return False
    return all(map(_is_like, declared.parts, found.parts))


def _choose_kinds(declared: ColumnShape, found: ColumnShape) -> ColumnShape:
    """Return the stored kinds of a scalar: the declared ones, unless they never
    occur.
    """
    as_declared = {*declared.kinds} & {*found.kinds} and declared.type is (
        found.type or declared.type
    )
    return declared if as_declared else found


def rebuild_shape(shape: ColumnShape, scalars: Iterator[ColumnShape]) -> ColumnShape:
    """Return a shape with other scalars."""
    if shape.parts is None:
        return next(scalars)
    parts = tuple(rebuild_shape(part, scalars) for part in shape.parts)
    return ColumnShape((), shape.type, parts)


def widen(texts: list[str], found: ColumnShape, kept: ColumnShape) -> list[str]:
    """Return a scalar in the variables of one with more kinds."""
    if len(found.kinds) == 1:
        tag = str(COLUMN_KINDS.index(found.kinds[0]))
        parts = dict(zip(found.arrays, texts, strict=True))
    else:
        tag = texts[0]
        parts = dict(zip(found.arrays[1:], texts[1:], strict=True))
    return [tag, *(parts.get(kind, ZERO[kind]) for kind in kept.arrays[1:])]


Function = types.FunctionType | functools.partial  # type: ignore[type-arg]


def write_map(op: Op, function: Function, takes: ColumnShape) -> ColumnKernel:
    """Return the kernel of a map."""
    text = KernelText(op, takes)
    args = [text.item]
    made = translate(text.module, function, args)
    gives = text.outputs(made.gives)
    text.call(made, args)
    sources = text.store(made, args, gives)
    return text.kernel("map", gives, sources, text.write())


def write_filter(op: Op, function: Function, takes: ColumnShape) -> ColumnKernel:
    """Return the kernel of a filter."""
    text = KernelText(op, takes)
    args = [text.item]
    made = translate(text.module, function, args, truth=True)
    text.call(made, args)
    if made.forwards[0] is None:
        found = "r[1]"
    else:  # the attribute itself is the predicate
        (found,) = text.texts(list(flatten_all(args))[made.forwards[0]])
    text.body.append(f"o0[j] = {found}")
    source = text.write(outs=["o0"])
    everything = tuple(range(len(text.scalars)))
    return text.kernel("filter", takes, everything, source)


def write_split(op: Op, function: Function, takes: ColumnShape) -> ColumnKernel:
    """Return the kernel of a split by a function that names one stream, or several."""
    text = KernelText(op, takes)
    args = [text.item]
    try:
        made = translate(text.module, function, args)
    except NoColumnsError:
        return _write_routes(op, function, takes)
    if made.gives.parts is not None or made.gives.kinds not in (("int",), ("bool",)):
        return _write_routes(op, function, takes)
    text.call(made, args)
    port = "r[1]"
    if made.forwards[0] is not None:
        (port,) = text.texts(list(flatten_all(args))[made.forwards[0]])
    text.body += [
        f"p = int({port})",
        f"if p < 0 or p >= {op.kind.outputs}:",
        "    return j",
        "o0[j] = p",
    ]
    everything = tuple(range(len(text.scalars)))
    return text.kernel("split", takes, everything, text.write(outs=["o0"]))


def _write_routes(op: Op, function: Function, takes: ColumnShape) -> ColumnKernel:
    """Return the kernel of a split by a function that names any number of streams."""

    def check(shape: ColumnShape) -> ColumnShape:
        if shape.parts is not None or shape.kinds != ("int",):
            msg = f"gives {describe_shape(shape)} for the number of a stream"
            raise NoColumnsError(msg)
        return shape

    text = KernelText(op, takes)
    args = [text.item]
    made = translate_outputs(text.module, function, args, check)
    if made.forwards[0] is not None:
        msg = "names streams by an attribute"
        raise NoColumnsError(msg)
    text.spread(made, args)
    before = ["O = (o0,)", "p = 0"]
    source = text.write(outs=["counts", "o0"], before=before)
    return text.kernel("routes", made.gives, (None,), source)


def write_union(op: Op, takes: ColumnShape) -> ColumnKernel:
    """Return the kernel of a union, which has nothing to compute."""
    everything = tuple(range(len(list(takes.scalars()))))
    return KernelText(op, takes).kernel("union", takes, everything, "")


def write_clock(op: Op, takes: ColumnShape) -> ColumnKernel:
    """Return the kernel of `event_time`, which only reads a column of times."""
    assert isinstance(op.kind, EventTime)  # noqa: S101
    place = takes.place_of(op.kind.on)
    kinds = () if place is None else list(takes.scalars())[place].kinds
    lateness = None
    if len(kinds) == 1 and kinds[0] in ("int", "float", "datetime", "date"):
        scale = _SCALES.get(kinds[0], "number")
        lateness, _ = EventTimeKernel(op.kind).spans(scale)
    if not _is_span(lateness, kinds):
        msg = f"has a clock on {op.kind.on}, whose type does not go with the lateness"
        raise NoColumnsError(msg)
    everything = tuple(range(len(list(takes.scalars()))))
    window = ColumnWindow(op.kind, place, kinds[0])
    return KernelText(op, takes).kernel("clock", takes, everything, "", window=window)


_SCALES = {"datetime": "naive", "date": "date"}


def _is_span(span: Any, kinds: tuple[ColumnKind, ...]) -> bool:
    """Tell whether a duration suits times of some kind, in 64 bits."""
    wanted = (int, float) if kinds == ("float",) else (int,)
    return type(span) in wanted and 0 <= span < 1 << 60


def _goes_with_clock(window: Window, kinds: tuple[ColumnKind, ...]) -> bool:
    """Tell whether times are of a kind that a window behind a clock accepts."""
    if len(kinds) != 1 or kinds[0] not in ("int", "float", "datetime", "date"):
        return False
    size, every = spans_of(window)(_SCALES.get(kinds[0], "number"))
    exact = kinds != ("float",) or size == every  # sliding sums are rounded differently
    return exact and _is_span(size, kinds) and _is_span(every, kinds)


def write_flat_map(op: Op, function: Function, takes: ColumnShape) -> ColumnKernel:
    """Return the kernel of a flat_map: outputs are consecutive.

    It counts those of each item. A result of -1 means that there was no room.
    """
    text = KernelText(op, takes)
    args = [text.item]
    made = translate_outputs(text.module, function, args, text.outputs)
    params = list(flatten_all(args))
    sources = [
        None if forwarded is None else int(params[forwarded].text[1:])
        for forwarded in made.forwards
    ]
    computed = [
        one
        for one, source in zip(made.gives.scalars(), sources, strict=True)
        if source is None
    ]
    outs = [f"o{n}{s}" for n, one in enumerate(computed) for s in one.suffixes]
    text.spread(made, args)
    before = [f"O = ({', '.join(outs) or 'C'},)", "p = 0"]
    source = text.write(outs=["counts", *outs], before=before)
    return text.kernel("flat_map", made.gives, tuple(sources), source)


def write_scan(
    op: Op, function: Function, initial: Any, takes: ColumnShape
) -> ColumnKernel:
    """Return the kernel of a scan."""
    shape = shape_of(Known(initial))
    for _ in range(_MOST_ROUNDS):
        text = KernelText(op, takes)
        args = [_state_value(shape), text.item]
        made = translate(text.module, function, args)
        pair = made.gives
        if pair.parts is None or pair.type is not None or len(pair.parts) != 2:  # noqa: PLR2004
            msg = "does not give a tuple of two"
            raise NoColumnsError(msg)
        wider = join(shape, pair.parts[0])
        if wider == shape:
            break
        shape = wider
    else:
        msg = "has a state whose type does not settle"
        raise NoColumnsError(msg)
    new, output = pair.parts
    gives = text.outputs(output)
    text.body += ["k = slot[j]", "touched[k] = True"]
    text.call(made, args)
    count = len(list(new.scalars()))
    sources = text.store(made, args, gives, count)
    states = _keep_state(text, made, shape, args, count)
    names = [f"s{n}" for n in range(states)]
    source = text.write(["slot", "touched"], names)
    return text.kernel("scan", gives, sources, source, state=shape)


def _state_value(shape: ColumnShape) -> Value:
    """Return a state in the arrays of a kernel."""
    scalars: list[Value] = []
    place = 0
    for one in shape.scalars():
        if one.kinds == ("none",):
            scalars.append(Known(None))
            continue
        texts = tuple(f"s{place + n}[k]" for n in range(len(one.arrays)))
        single = len(one.kinds) == 1
        parts = () if single else texts
        scalars.append(Scalar(one.kinds, texts[0], None, parts, one.type))
        place += len(texts)
    return rebuild(shape, iter(scalars))


def _keep_state(
    text: KernelText,
    made: Translated,
    shape: ColumnShape,
    args: Sequence[Value],
    count: int,
) -> int:
    """Write the new state; return the number of arrays."""
    params = list(flatten_all(args))
    place, array = 1, 0
    before, after = [], []
    scalars = list(made.gives.scalars())[:count]
    for number, (kept, found) in enumerate(zip(shape.scalars(), scalars, strict=True)):
        forwarded = made.forwards[number]
        if forwarded is not None:
            texts = text.texts(params[forwarded])
        else:
            texts = [f"r[{place + n}]" for n in range(len(found.arrays))]
            place += len(texts)
        if len(kept.kinds) > 1:
            texts = widen(texts, found, kept)
        for n, one in enumerate(texts):
            before.append(f"t{array + n} = {one}")
            after.append(f"s{array + n}[k] = t{array + n}")
        array += len(kept.arrays)
    text.body += [*before, *after]
    return array


def write_window(op: Op, function: Function | None, takes: ColumnShape) -> ColumnKernel:
    """Return the kernel of an aggregate, by a function of the list or by columns."""
    assert isinstance(op.kind, Aggregate)  # noqa: S101
    text = KernelText(op, takes)
    window = find_window(op, takes)
    text.in_place = window.in_place
    args: list[Value] = [text.items]
    if function is not None:
        made = translate(text.module, function, args)
    else:
        bound = (window.bound or "int",)
        args += [Scalar(bound, f"{name}[j]") for name in ("since", "until")]
        made = translate_columns(text.module, op.kind, args)
    gives = text.outputs(made.gives)
    text.call(made, args, "starts[j]", "ends[j] - starts[j]")
    sources = text.store(made, args, gives)
    head = ["starts", "ends", *(["since", "until"] if window.bound else [])]
    if window.in_place:
        head.append("places")
    source = text.write(head, columns=True)
    return text.kernel("window", gives, sources, source, window=window)


def find_window(op: Op, takes: ColumnShape) -> ColumnWindow:
    """Return which items an aggregate's windows contain, and their attribute."""
    assert isinstance(op.kind, Aggregate)  # noqa: S101
    window = op.kind.window
    bounds = any(c.function.startswith("window_") for _, c in op.kind.columns)
    if window.count is not None:
        return ColumnWindow(window)
    if window.punctuation or window.gap is not None or window.on is None:
        msg = f"has a window by {window.text}"
        raise NoColumnsError(msg)
    place = takes.place_of(window.on)
    kinds = () if place is None else list(takes.scalars())[place].kinds
    sizes = {type(one) for one in (window.time, window.delta, window.every)}
    sizes -= {type(None)}
    match kinds:
        case _ if window.clocked:
            fits = _goes_with_clock(window, kinds)
        case ("int",) if sizes == {int}:
            fits = True
        case ("float",):
            fits = not sizes - {int, float}
        case ("datetime" | "date",):
            fits = window.time is not None and sizes == {dt.timedelta}
        case _:
            fits = False
    if not fits:
        msg = f"has a window by {window.text}, which does not go with its type"
        raise NoColumnsError(msg)
    if kinds == ("float",) and window.time is not None:
        lengths = spans_of(window)("number") if window.clocked else lengths_of(window)
        if not all(map(is_exact_step, lengths)):
            msg = f"has a window by {window.text}, and floats round multiples of that"
            raise NoColumnsError(msg)
    return ColumnWindow(window, place, kinds[0], kinds[0] if bounds else None)
