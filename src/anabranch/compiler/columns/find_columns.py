"""Makes the kernels of the operators that can run in columns, and says why others cannot.

A stream runs in columns where the types of its items are known: from the declared type
of a source on, along operators whose functions can be translated. A function must be
proven to depend on its arguments alone. What it gives must be what the annotations of
its tuple type say; an int where a float is promised is Python's to carry on.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.compiler.columns.arithmetic import Module
from anabranch.compiler.columns.translate import (
    Translated,
    flatten_all,
    translate,
)
from anabranch.compiler.columns.values import (
    KIND_OF,
    ZERO,
    Items,
    Known,
    NoColumnsError,
    RecordValue,
    Scalar,
    Value,
    is_record_type,
    join,
    rebuild,
    shape_of,
)
from anabranch.graph.declarations import declaration_of
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.graph.types import fields_of
from anabranch.operators.custom import Scan
from anabranch.operators.stateless import Filter, Map, describe_function
from anabranch.operators.windows import Aggregate
from anabranch.plan.column_kernels import (
    COLUMN_KINDS,
    ColumnKernel,
    ColumnKind,
    ColumnShape,
    RunsAs,
)
from anabranch.python.source import shown_path
from anabranch.python.traits import Traits

_MOST_ROUNDS = 6  # for the kinds of a state to settle


@dataclass(frozen=True)
class ItemColumns:
    """The items of a stream in columns; `type` is that of the items."""

    type: Any
    kinds: tuple[ColumnKind, ...]

    def value(self, text: str) -> Value:
        """Return an item whose attributes have these texts."""
        scalars = tuple(
            Scalar((kind,), text.replace("#", str(n)))
            for n, kind in enumerate(self.kinds)
        )
        return RecordValue(self.type, scalars) if fields_of(self.type) else scalars[0]


def columns_of_type(found: Any) -> ItemColumns | None:
    """Return the columns of items of a type, None if it has none.

    >>> columns_of_type(float).kinds
    ('float',)
    """
    if found in KIND_OF and found is not type(None):
        return ItemColumns(found, (KIND_OF[found],))
    fields = fields_of(found)
    if not fields or not is_record_type(found):
        return None
    kinds = [KIND_OF.get(kind, "none") for kind in fields.values()]
    return None if "none" in kinds else ItemColumns(found, tuple(kinds))


def find_columns(graph: Graph, traits: Mapping[str, Traits]) -> tuple[RunsAs, ...]:
    """Return for each operator that computes whether it runs in columns, and why.

    >>> from anabranch.language.sources import from_iterable
    >>> from anabranch.language.drafts import build_graph
    >>> made = build_graph([from_iterable([1.0]).map(str, name="text").to_list()])
    >>> [r.runs for r in find_columns(made, {op.name: Traits("stateless") for op in made})]
    ['python']
    """
    known: dict[str, ItemColumns] = {}
    found: list[RunsAs] = []
    for op in graph:
        if isinstance(op.kind, SinkKind):
            continue
        columns = None if op.type is None else columns_of_type(op.type)
        if not isinstance(op.kind, SourceKind):
            try:
                kernel, columns = _kernel(op, traits[op.name], known)
                found.append(RunsAs(op.name, _why_columns(kernel), kernel))
            except NoColumnsError as refused:
                found.append(RunsAs(op.name, str(refused)))
            except Exception as error:  # noqa: BLE001 - whatever users write, it runs
                why = f"cannot be translated ({type(error).__name__}: {error})"
                found.append(RunsAs(op.name, why))
        if columns is not None:
            known[op.name] = columns
    return tuple(found)


def _why_columns(kernel: ColumnKernel) -> str:
    computed = sum(source is None for source in kernel.sources)
    if kernel.role == "filter":
        return "its predicate is compiled"
    return f"compiled; {computed} of {len(kernel.gives)} columns are computed"


def _kernel(
    op: Op, traits: Traits, known: Mapping[str, ItemColumns]
) -> tuple[ColumnKernel, ItemColumns]:
    if len(op.inputs) != 1 or not isinstance(op.kind, Map | Filter | Scan | Aggregate):
        msg = f"operators of the kind {op.kind.label} are not compiled"
        raise NoColumnsError(msg)
    if op.timing is not None:
        msg = "it follows the clock of its stream"
        raise NoColumnsError(msg)
    takes = _find_input(op, known)
    function = _find_function(op, traits)
    try:
        match op.kind:
            case Map():
                return _map(op, function, takes)
            case Filter():
                return _filter(op, function, takes)
            case Scan(initial=initial):
                _check_key(op, takes)
                return _scan(op, function, initial, takes)
        _check_key(op, takes)
        return _window(op, function, takes)
    except NoColumnsError as refused:
        line = refused.line or function.__code__.co_firstlineno
        file = shown_path(function.__code__.co_filename)
        msg = f"{describe_function(function)} {refused} ({file}:{line})"
        raise NoColumnsError(msg) from refused


def _find_input(op: Op, known: Mapping[str, ItemColumns]) -> ItemColumns:
    producer = op.inputs[0].operator
    if producer not in known:
        msg = f"the items of {producer} are not of a tuple type with plain attributes"
        raise NoColumnsError(msg)
    return known[producer]


def _find_function(op: Op, traits: Traits) -> types.FunctionType:
    """Return the function of an operator; refuse one that may depend on more."""
    if isinstance(op.kind, Aggregate) and op.kind.function is None:
        msg = "is an aggregate by named columns"
        raise NoColumnsError(msg)
    function = op.kind.user_code[0].function
    if not isinstance(function, types.FunctionType):
        msg = f"{describe_function(function)} is not a function written in Python"
        raise NoColumnsError(msg)
    keeps = isinstance(op.kind, Scan | Aggregate)
    proven = not traits.effects and (keeps or traits.state == "stateless")
    if not proven or declaration_of(function).state is not None:
        msg = (
            f"{describe_function(function)} is not proven to depend on its items alone"
        )
        raise NoColumnsError(msg)
    return function


def _check_key(op: Op, takes: ItemColumns) -> None:
    names = list(fields_of(takes.type) or ())
    for name in op.state_key:
        if name not in names or takes.kinds[names.index(name)] not in ("int", "str"):
            msg = f"has the key {name}, which is no attribute of type int or str"
            raise NoColumnsError(msg)


class _Text:
    """The text of a kernel in the making."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.reads: list[int] = []
        self.body: list[str] = []

    def field(self, number: int, at: str) -> str:
        """Return the text of an attribute of an item."""
        if number not in self.reads:
            self.reads.append(number)
        return f"x{number}[{at}]"

    def call(
        self, made: Translated, args: list[Value], first: str = "0", size: str = "0"
    ) -> None:
        """Call a function; give up with it."""
        scalars = list(flatten_all(args))
        texts = []
        for number in sorted(made.uses):
            texts += self.texts(scalars[number])
        rest = "".join(f", {text}" for text in texts)
        self.body.append(f"r = {made.name}(C, Q, W, {first}, {size}{rest})")
        self.body.append("if r[0]:")
        self.body.append("    return j")

    def texts(self, scalar: Scalar) -> list[str]:
        """Return the texts of the variables of a scalar; `!n` is attribute n."""
        if scalar.text.startswith("!"):
            return [self.field(int(scalar.text[1:]), "j")]
        if len(scalar.kinds) == 1:
            return [scalar.text]
        number = int(scalar.text)  # of its first array in the state
        return [
            f"s{number + n}[k]" for n in range(len(ColumnShape(scalar.kinds).arrays))
        ]

    def write(self, head: list[str], states: int, outs: int, columns: list[int]) -> str:
        """Return the whole text."""
        tables = [f"q{n}" for n in range(2 * len(self.module.tables))]
        fields = [f"x{n}" for n in self.reads]
        kept = [f"s{n}" for n in range(states)]
        given = [f"o{n}" for n in range(outs)]
        params = ["n", "C", *head, *fields, *tables, *kept, *given]
        window = ", ".join(f"x{n}" for n in columns) or "C"
        lines = [
            *self.module.texts,
            f"def kernel({', '.join(params)}):",
            f"    Q = ({', '.join(tables) or 'C'},)",
            f"    W = ({window},)",
            "    for j in range(n):",
            *(f"        {line}" for line in self.body),
            "    return n",
        ]
        return "\n".join(lines) + "\n"


def _outputs(
    op: Op, shape: ColumnShape, takes: ItemColumns, *, keep: bool = False
) -> ItemColumns:
    """Return the columns of what an operator gives; refuse what is not as declared."""
    if keep:
        return takes
    if shape.parts is not None and shape.type is None:
        msg = "gives a tuple without a type"
        raise NoColumnsError(msg)
    if shape.type is None:
        kinds = [kind for kind in shape.kinds if kind != "none"]
        if len(shape.kinds) != 1 or len(kinds) != 1:
            msg = f"gives {' or '.join(shape.kinds)}"
            raise NoColumnsError(msg)
        of = {kind: python for python, kind in KIND_OF.items()}[kinds[0]]
        found = ItemColumns(of, (kinds[0],))
    else:
        declared = columns_of_type(shape.type)
        if declared is None:
            msg = f"gives {shape.type.__name__}, whose attributes are not all plain"
            raise NoColumnsError(msg)
        found = declared
    if op.type is not None and op.type is not found.type:
        msg = f"gives {found.type.__name__}, which its annotation does not say"
        raise NoColumnsError(msg)
    for name, kind, scalar in zip(
        fields_of(found.type) or ["value"], found.kinds, shape.scalars(), strict=False
    ):
        if kind not in scalar.kinds:
            given = " or ".join(scalar.kinds)
            msg = f"gives {given} for {name}, which is declared as {kind}"
            raise NoColumnsError(msg)
    return found


def _store(
    text: _Text,
    made: Translated,
    args: list[Value],
    first: int,
    gives: ItemColumns,
) -> tuple[tuple[int | None, ...], int]:
    """Store the outputs, whose scalars begin with number `first` of a result.

    Return which are attributes of the item as they were, and how many were stored.
    """
    scalars = list(made.gives.scalars())
    params = list(flatten_all(args))
    sources: list[int | None] = []
    outs = 0
    place = 1 + sum(
        len(scalars[n].arrays) for n in range(first) if made.forwards[n] is None
    )
    for offset, kind in enumerate(gives.kinds):
        number = first + offset
        forwarded, scalar = made.forwards[number], scalars[number]
        if forwarded is not None:
            value = params[forwarded]
            if value.text.startswith("!"):
                sources.append(int(value.text[1:]))
                continue
            texts = text.texts(value)
        else:
            texts = [f"r[{place + n}]" for n in range(len(scalar.arrays))]
            place += len(texts)
        sources.append(None)
        if len(scalar.kinds) > 1:
            text.body.append(f"if {texts[0]} != {COLUMN_KINDS.index(kind)}:")
            text.body.append("    return j")
            texts = [texts[scalar.arrays.index(kind, 1)]]
        text.body.append(f"o{outs}[j] = {texts[0]}")
        outs += 1
    return tuple(sources), outs


def _map(
    op: Op, function: types.FunctionType, takes: ItemColumns
) -> tuple[ColumnKernel, ItemColumns]:
    text = _Text(Module())
    args = [takes.value("!#")]
    made = translate(text.module, function, args)
    gives = _outputs(op, made.gives, takes)
    text.call(made, args)
    sources, outs = _store(text, made, args, 0, gives)
    source = text.write([], 0, outs, [])
    return _make(op, "map", text, takes, gives, sources, source), gives


def _filter(
    op: Op, function: types.FunctionType, takes: ItemColumns
) -> tuple[ColumnKernel, ItemColumns]:
    text = _Text(Module())
    args = [takes.value("!#")]
    made = translate(text.module, function, args)
    if made.gives.parts is not None or len(made.gives.kinds) != 1:
        msg = "gives something else than a plain value to choose by"
        raise NoColumnsError(msg)
    (kind,) = made.gives.kinds
    text.call(made, args)
    if made.forwards[0] is None:
        found = "r[1]"
    else:  # the attribute itself is the predicate
        found = text.texts(list(flatten_all(args))[made.forwards[0]])[0]
    empty = text.module.string("") if kind == "str" else ZERO.get(kind, "")
    choice = {"bool": found, "none": "False"}.get(kind, f"{found} != {empty}")
    text.body.append(f"o0[j] = {choice}")
    source = text.write([], 0, 1, [])
    sources = tuple(range(len(takes.kinds)))
    kernel = _make(op, "filter", text, takes, takes, sources, source, keep=True)
    return kernel, takes


def _scan(
    op: Op, function: types.FunctionType, initial: Any, takes: ItemColumns
) -> tuple[ColumnKernel, ItemColumns]:
    shape = shape_of(Known(initial))
    for _ in range(_MOST_ROUNDS):
        text = _Text(Module())
        args = [_state_value(shape), takes.value("!#")]
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
    gives = _outputs(op, output, takes)
    text.body += ["k = slot[j]", "touched[k] = True"]
    text.call(made, args)
    count = len(list(new.scalars()))
    sources, outs = _store(text, made, args, count, gives)
    states = _keep_state(text, made, shape, args, count)
    source = text.write(["slot", "touched"], states, outs, [])
    kernel = _make(op, "scan", text, takes, gives, sources, source, state=shape)
    return kernel, gives


def _state_value(shape: ColumnShape) -> Value:
    """Return a state that lies in the arrays of a kernel."""
    scalars: list[Value] = []
    place = 0
    for one in shape.scalars():
        if one.kinds == ("none",):
            scalars.append(Known(None))
            continue
        single = len(one.kinds) == 1
        scalars.append(Scalar(one.kinds, f"s{place}[k]" if single else str(place)))
        place += len(one.arrays)
    return rebuild(shape, iter(scalars))


def _keep_state(
    text: _Text, made: Translated, shape: ColumnShape, args: list[Value], count: int
) -> int:
    """Write the new state; return how many arrays there are."""
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
            texts = _widen(texts, found, kept)
        for n, one in enumerate(texts):
            before.append(f"t{array + n} = {one}")
            after.append(f"s{array + n}[k] = t{array + n}")
        array += len(kept.arrays)
    text.body += [*before, *after]
    return array


def _widen(texts: list[str], found: ColumnShape, kept: ColumnShape) -> list[str]:
    if len(found.kinds) == 1:
        tag = str(COLUMN_KINDS.index(found.kinds[0]))
        parts = dict(zip(found.arrays, texts, strict=True))
    else:
        tag = texts[0]
        parts = dict(zip(found.arrays[1:], texts[1:], strict=True))
    return [tag, *(parts.get(kind, ZERO[kind]) for kind in kept.arrays[1:])]


def _window(
    op: Op, function: types.FunctionType, takes: ItemColumns
) -> tuple[ColumnKernel, ItemColumns]:
    assert isinstance(op.kind, Aggregate)  # noqa: S101
    window = op.kind.window
    if window.count is None or window.every is not None:
        msg = f"has a window by {window.text}"
        raise NoColumnsError(msg)
    text = _Text(Module())
    columns = tuple(
        Scalar((kind,), f"W[{n}][{{at}}]") for n, kind in enumerate(takes.kinds)
    )
    record = takes.type if fields_of(takes.type) else None
    args: list[Value] = [Items(record, columns, "lo", "size")]
    made = translate(text.module, function, args)
    gives = _outputs(op, made.gives, takes)
    text.reads = list(range(len(takes.kinds)))
    text.call(made, args, "starts[j]", "size")
    sources, outs = _store(text, made, args, 0, gives)
    source = text.write(["starts", "size"], 0, outs, text.reads)
    size = window.count
    kernel = _make(op, "window", text, takes, gives, sources, source, size=size)
    return kernel, gives


def _make(  # noqa: PLR0917 - the fields of a kernel
    op: Op,
    role: Any,
    text: _Text,
    takes: ItemColumns,
    gives: ItemColumns,
    sources: tuple[int | None, ...],
    source: str,
    *,
    keep: bool = False,
    state: ColumnShape | None = None,
    size: int = 0,
) -> ColumnKernel:
    return ColumnKernel(
        operator=op.name,
        role=role,
        takes=takes.kinds,
        reads=tuple(text.reads),
        gives=gives.kinds,
        sources=sources,
        type=None if keep else gives.type,
        text=source,
        state=state,
        strings=tuple(text.module.strings),
        tables=tuple(text.module.tables),
        size=size,
    )
