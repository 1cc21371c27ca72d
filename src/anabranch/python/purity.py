"""The effects of an operator's code beyond computing its outputs.

Its functions are followed with the items that reach it. So is the user code that
engines run implicitly: they read the attributes used in keys, windows and columns,
compare and add them, construct the items of a file, and pickle items to send them
between processes.
"""

from __future__ import annotations

import collections
import contextlib
import datetime as dt
import enum
import functools
import types
import uuid
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from anabranch.graph.graph import Op
from anabranch.graph.types import fields_of
from anabranch.operators.clock import EventTime, InOrder
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.fan_in import Barrier, Merge
from anabranch.operators.getters import KeyFunction
from anabranch.operators.join import Join, Lookup
from anabranch.operators.windows import Aggregate, Window
from anabranch.python import ir
from anabranch.python.arrivals import (
    ANYTHING,
    NOBODY,
    SOMETHING,
    Arrival,
    arrival_of,
    look_into,
)
from anabranch.python.attributes import read_attribute
from anabranch.python.classes import classes_of, items_of
from anabranch.python.implicit import IMPLICIT
from anabranch.python.interpret import (
    CallFollower,
    follow_call,
    outermost,
    place_of_call,
)
from anabranch.python.lower import lower_callable
from anabranch.python.objects import (
    CALLABLES,
    CONTAINERS,
    MISSING,
    class_attribute,
    contents,
    field_names,
    function_in,
    holds_set,
    instance_attribute,
    is_instance_of_users,
    is_scalar,
    is_scalar_type,
    is_users_class,
    is_users_code,
    is_users_method,
    reducer_of,
    walk_held,
)
from anabranch.python.reach import (
    find_lazy,
    find_operands,
    find_reachable,
    list_elements,
    look_inside,
    note_unknown,
    read_existing,
    watch_kept,
    watch_keys,
    watch_tied,
)
from anabranch.python.source import (
    path_to_show,
)
from anabranch.python.steps import iterate, run_implicit, run_unpacking
from anabranch.python.universe import Universe
from anabranch.python.values import (
    CHANGES_INPUT,
    ELEMENTS,
    NOTHING,
    AbstractInterpreter,
    Arguments,
    BoundMethod,
    Closure,
    Existing,
    Findings,
    Fresh,
    Here,
    InputPart,
    Lost,
    Method,
    Place,
    Plain,
    Root,
    SharedPart,
    SomeScalar,
    Value,
)

_FUNCTIONS = (BoundMethod, Method, Closure)


def departing(run: AbstractInterpreter, value: Value) -> Arrival:
    """Return the types of an operator's output and of its contents."""
    found = NOBODY
    local = {made for made, _ in run.local_classes.values()}
    for root in find_operands(run, value):
        found |= _find_types(run, root)
        _note_handed_on(run, root)
        if isinstance(root, Fresh) and (root.type is None or root.type in local):
            for made in local:  # the receiver may run its methods
                run.program.add_class(made)
    top = [_find_types(run, root).top for root in value]
    return found._replace(top=frozenset().union(*top))


def _note_handed_on(run: AbstractInterpreter, root: Root) -> None:
    """Record an object that an operator emits but did not make."""
    match root:
        case Existing(obj=obj) if _has_attributes(obj):
            run.found.hands_on[id(obj)] = obj
        case SharedPart(target=target) if target in run.found.touched:
            run.found.hands_on[target] = run.found.touched[target].target


def _has_attributes(obj: Any) -> bool:
    """Tell whether an object may be changed: a container, an instance, or a class or
    function of the user's.
    """
    if isinstance(obj, types.FunctionType):
        return is_users_code(obj.__code__)
    if isinstance(obj, type):
        return is_users_class(obj)
    return not isinstance(obj, (*CALLABLES, types.ModuleType))


def _find_types(  # noqa: C901, PLR0911 - one case for each kind
    run: AbstractInterpreter, root: Root
) -> Arrival:
    universe = run.universe
    match root:
        case Plain(kind):
            return arrival_of([SomeScalar if kind is None else kind])
        case Fresh(site) if site in run.opaque_sites:
            return SOMETHING
        case Fresh(_, type() as kind):
            return arrival_of([kind])
        case Fresh():
            return SOMETHING
        case InputPart(None):  # an item or any part of one
            return universe.arriving._replace(top=universe.arriving.types)
        case InputPart() | SharedPart():
            classes = classes_of(root, universe)
            unknown = universe.arriving if isinstance(root, InputPart) else ANYTHING
            if classes is None:
                return SOMETHING._replace(sets=unknown.sets)
            return arrival_of(classes)
        case Existing(obj=types.ModuleType()):
            return NOBODY
        case Existing(obj=obj) if isinstance(obj, CALLABLES):
            return arrival_of([type(obj)])
        case Existing(obj=obj):
            return look_into([obj], often=True)
    if isinstance(root, _FUNCTIONS):  # the receiver may call it
        return arrival_of([types.FunctionType])
    if not run.found.effects:
        return NOBODY  # nothing is lost: such a call fails
    return ANYTHING


_FIRST = ("__init__", "setup")


def find_own_write(cls: type) -> Place | None:
    """Return where a method assigns an attribute of its own instance, or None.

    Assignments in `__init__` and `setup` do not count: the attribute may never change
    again.

    >>> class Same:
    ...     def process(self, item):
    ...         yield item
    >>> find_own_write(Same) is None
    True
    """
    for each in cls.__mro__[:-1]:
        for name, function in vars(each).items():
            if not isinstance(function, FunctionType) or name in _FIRST:
                continue
            source = lower_callable(function)
            line = None if source is None else _line_of_write(source.code)
            if line is not None:
                return Place(path_to_show(function.__code__.co_filename), line)
    return None


def _line_of_write(code: ir.Function) -> int | None:
    """Return the first line that assigns an attribute of the instance, or inside
    one.
    """
    if not code.parameters:
        return None
    lines = [
        one.line
        for function in (code, *ir.functions_in(code.body))
        for one in ir.walk(function.body)
        if isinstance(one, ir.SetAttribute | ir.SetElement)
        and _is_own(one, function, code.parameters[0])
    ]
    return min(lines, default=None)


def _is_own(
    one: ir.SetAttribute | ir.SetElement, function: ir.Function, instance: str
) -> bool:
    """Tell whether a target is an attribute of the instance, or an element of one."""
    held, made = isinstance(one, ir.SetAttribute), function.maker_of(one.value)
    while isinstance(made, ir.GetAttribute | ir.GetElement):
        held = isinstance(made, ir.GetAttribute)
        made = function.maker_of(made.value)
    return held and isinstance(made, ir.LoadName) and made.name == instance


Use: TypeAlias = Literal["value", "truth", "each", "several"]
_COPIED = (list, dict, set, tuple, frozenset, collections.deque)


class Code(NamedTuple):
    """A user's callable and the annotations of its arguments."""

    function: Any
    types: tuple[Any, ...]
    by_name: bool = False  # called with keywords that are not listed
    use: Use = "value"


def findings_of_function(universe: Universe, code: Code) -> Findings:
    """Return the findings about a function called with input items.

    What the engines do with its result counts as well: they test its truth, or iterate
    over it.
    """
    items: list[Value] = [items_of(each, universe) for each in code.types]
    rest: Value = frozenset([InputPart(object)]) if code.by_name else NOTHING
    run, result = follow_call(universe, code.function, Arguments(items, rest=rest))
    given = _use_result(run, code.function, result, code.use)
    run.found.gives = departing(run, given)
    lazy = find_lazy(result) if code.use == "each" else NOTHING
    _note_kept(run, given, given | lazy if lazy else NOTHING)
    return run.found


def _note_kept(  # noqa: C901, PLR0912 - one case for each kind of value
    run: AbstractInterpreter, given: Value, held: Value
) -> None:
    """Record whether an operator may keep what it gives, and change it later."""
    found = run.found
    within = find_reachable(run, held | run.kept)
    changing = [root for root in within if _may_change(run, root)]
    foreign = any(not _has_no_views(root) for root in changing)
    changes_input = any(e.text.endswith(CHANGES_INPUT) for e in found.effects)
    for root in find_operands(run, given):
        match root:
            case Plain(None):  # perhaps a row of an array
                changes = foreign
            case Fresh(_, kind) if _is_immutable(kind):
                continue
            case Fresh() if _has_no_views(root):
                if root not in within:
                    continue
                changes = root in changing
            case Fresh() | Lost(made=True):  # perhaps a view of something else
                changes = bool(changing)
            case InputPart() if any(isinstance(one, InputPart) for one in within):
                changes = changes_input
            case Lost():
                changes = True
            case Method(owner=owner) | BoundMethod(owner=owner):
                changes = owner in changing
            case Existing(obj=obj) if not isinstance(
                obj, (*CALLABLES, types.ModuleType)
            ):
                changes = id(obj) in found.changes
            case SharedPart(target=target):
                changes = target in found.changes
            case _:
                continue
        found.keeps_given = True
        found.changes_given = found.changes_given or changes
        if changes and (
            isinstance(root, Existing | SharedPart) or root == Lost(made=False)
        ):
            found.changes_shared = True


def _has_no_views(root: Root) -> bool:
    """Tell whether an object shares its memory with no other, as a row of an array
    does.
    """
    kind = root.type if isinstance(root, Fresh) else None
    return _is_plain_object(root) and (kind in _COPIED or is_users_class(kind))


def _may_change(run: AbstractInterpreter, root: Root) -> bool:
    """Tell whether an object that was made here may be changed."""
    if not isinstance(root, Fresh) or _is_immutable(root.type):
        return False
    unknown = any(e.kind == "unknown" for e in run.found.effects)
    return (
        unknown
        or bool(run.found.writes_anything)
        or root.site in run.changed_sites
        or root.site in run.opaque_sites
    )


def _is_immutable(kind: Any) -> bool:
    return isinstance(kind, type) and (
        is_scalar_type(kind) or issubclass(kind, tuple | frozenset)
    )


def _use_result(
    run: AbstractInterpreter, function: Any, result: Value, use: Use
) -> Value:
    """Return the result after an engine has used it, running the methods that
    involves.
    """
    here = outermost(function)
    if use == "truth":
        run_implicit(run, result, "truth", here)
    if use in ("value", "truth"):
        return result
    if use == "each":
        return iterate(run, result, here)
    # a number, or several
    several = frozenset(root for root in result if not isinstance(root, Plain))
    return result | iterate(run, several, here)


def findings_of_scan(universe: Universe, kind: Scan, item: Any) -> Findings:
    """Return the findings about `step`; it may change the state it is given.

    The state it returns is the argument of a later call.
    """
    run = CallFollower(universe)
    here = outermost(kind.step)
    step = read_existing(run, kind.step, "step", here)
    for each in walk_held(kind.initial):  # copied when a key first occurs
        run.found.touch("initial", each, here.place)
    state = _state_object(run, kind.initial)
    while True:
        args = Arguments([state, items_of(item, universe)])
        given = run.call(step, args, here)
        run_unpacking(run, given, here)
        later = state | _parts_at(run, given, 0)
        if later == state:
            outputs = _parts_at(run, given, 1)
            watch_kept(run, state)
            watch_tied(run, state)
            run.found.gives = departing(run, outputs)
            _note_kept(run, outputs, state)
            return run.found
        state = later


def _state_object(run: AbstractInterpreter, initial: Any) -> Value:
    """Return the value of the initial state: a deep copy per key."""
    here = outermost(type(initial))
    copies_itself = class_attribute(type(initial), "__deepcopy__") is not MISSING
    if copies_itself and is_users_class(type(initial)) and not is_member(initial):
        return note_unknown(run, "initial copies itself", here)
    return _copy_of(run, initial, ("initial state",))


def is_member(obj: Any) -> bool:
    """Tell whether an object is an enum member, which a copy is as well."""
    own = is_users_method(type(obj), "__deepcopy__")
    return isinstance(obj, enum.Enum) and not own


def _copy_of(run: AbstractInterpreter, obj: Any, place: tuple[Any, ...]) -> Value:
    """Return a copy of an object, with the parts that can be distinguished."""
    if is_scalar(obj) and not holds_set(obj):
        return frozenset([Plain(type(obj))])
    if isinstance(obj, (*CALLABLES, types.ModuleType)) or is_member(obj):
        here = outermost(obj)
        return read_existing(run, obj, "a part of initial", here)
    made = Fresh(run.heap.site(place), type(obj))
    names: Any = getattr(type(obj), "_fields", None)
    if isinstance(obj, tuple) and names is not None:
        for name, each in zip(names, tuple.__iter__(obj), strict=False):
            part = _copy_of(run, each, (*place, name))
            run.heap.put(made.site, name, part)
            run.heap.put(made.site, ELEMENTS, part)
        return frozenset([made])
    held = contents(obj) if type(obj) in _COPIED else None
    if held is None:
        run.heap.put(made.site, ELEMENTS, frozenset([Fresh(made.site)]))
        for name in _attribute_names(obj):
            each = instance_attribute(obj, name)
            if type(each) in _COPIED:  # known to be a set, or to hold some
                run.heap.put(made.site, name, _copy_of(run, each, (*place, name)))
        return frozenset([made])
    for index, each in enumerate(held):
        part = _copy_of(run, each, (*place, index))
        where = f"[{index}]" if type(obj) is tuple else ELEMENTS
        run.heap.put(made.site, where, part)
    return frozenset([made])


def _attribute_names(obj: Any) -> set[str]:
    """Return the names of a user's object's attributes; runs no code."""
    if not is_instance_of_users(obj):
        return set()
    names = {*(field_names(type(obj)) or ())}
    with contextlib.suppress(AttributeError):
        names |= object.__getattribute__(obj, "__dict__").keys()
    return names


def _parts_at(run: AbstractInterpreter, pair: Value, index: int) -> Value:
    """Return the first, or the second, of a pair."""
    found: set[Any] = set()
    for root in pair:
        match root:
            case Fresh(site, kind) if kind is tuple:
                found |= run.heap.get(site, f"[{index}]")
                found |= run.heap.get(site, ELEMENTS)
            case _:
                found |= look_inside(run, frozenset([root]))
    return frozenset(found)


def findings_of_operator(universe: Universe, kind: Apply, item: Any) -> Findings:
    """Return the findings about an `Operator`, whose attributes are its own."""
    run = CallFollower(universe)
    here = outermost(kind.operator)
    text = f"an argument of {kind.operator.__name__}"
    args = Arguments(
        [read_existing(run, each, text, here) for each in kind.arguments],
        {n: read_existing(run, v, text, here) for n, v in kind.keywords},
    )
    cls = read_existing(run, kind.operator, kind.operator.__name__, here)
    instance = run.call(cls, args, here)
    version, outputs = -1, NOTHING
    while version != run.heap.version:
        version = run.heap.version
        for name in ("setup", "process", "punctuation", "on_time", "finish"):
            given = [items_of(item, universe)] if name == "process" else []
            given = [NOTHING] if name == "on_time" else given
            method = read_attribute(run, instance, name, here)
            result = run.call(method, Arguments(given), here)
            if name != "setup":
                outputs |= iterate(run, result, here)
    run.found.gives = departing(run, outputs)
    watch_kept(run, instance)
    _note_kept(run, outputs, instance)
    ends = kind.overrides("punctuation") or kind.overrides("finish")
    if not ends and not run.found.effects:
        run.found.keeps_nothing = _keeps_nothing(
            run, instance, items_of(item, universe), here
        )
    if not run.found.keeps_nothing:
        watch_tied(run, instance)
    return run.found


def _keeps_nothing(run: CallFollower, instance: Value, item: Value, here: Here) -> bool:
    """Tell whether `process` leaves the instance and its contents unchanged.

    By now it is known what the attributes may be. The call is followed once more and
    must change nothing reachable from the instance. Only objects that cannot change in
    another way may be reachable: a function may have variables of its own, and an
    iterator is consumed without being changed.
    """
    held = find_reachable(run, instance)
    made = [root for root in held if isinstance(root, Fresh)]
    if not all(isinstance(r, Plain | Existing) or _is_plain_object(r) for r in held):
        return False
    run.changed_sites.clear()
    process = read_attribute(run, instance, "process", here)
    result = run.call(process, Arguments([item]), here)
    iterate(run, result, here)
    return run.changed_sites.isdisjoint(root.site for root in made)


def _is_plain_object(root: Root) -> bool:
    """Tell whether an object made here changes only by being written to."""
    kind = root.type if isinstance(root, Fresh) else None
    if not isinstance(kind, type):
        return False
    if not is_users_class(kind):
        return kind in CONTAINERS
    entries = (raw for base in kind.__mro__ for raw in vars(base).values())
    return not any(isinstance(raw, functools.cached_property) for raw in entries)


def findings_of_items(universe: Universe, items: Any) -> Findings | None:
    """Return the findings about iterating over an object; None if that runs no code.

    >>> findings_of_items(Universe([]), [1, 2]) is None
    True
    """
    if not is_instance_of_users(items):
        return None
    run = CallFollower(universe)
    reader = class_attribute(type(items), "__iter__")
    if reader is MISSING:  # Python reads items[0], items[1] and so on
        reader = class_attribute(type(items), "__getitem__")
    here = outermost(reader)
    value = read_existing(run, items, "the source", here)
    given = list_elements(run, value, here)  # runs `__iter__`
    list_elements(run, given, here)  # and `__next__` of its result
    return run.found


# A copy of one of these is made by its `__new__`.
_MADE_BY_NEW: Final = (tuple, str, bytes, int, float, complex, frozenset, dt.date)
# The types of keys that engines can partition.
_KEYS: Final = (int, str, float, bytes, tuple, dt.date, dt.time, uuid.UUID, enum.Enum)


class _Reading(NamedTuple):
    """An attribute that an engine reads, and the special methods it then runs."""

    attribute: str
    runs: str | None
    is_key: bool = False


def findings_of_readings(
    universe: Universe, op: Op, items: Iterable[Any]
) -> Findings | None:
    """Return the findings about the attributes that an operator is told to read.

    `items` are the annotations of the items on each input.
    """
    wanted = list(_readings(op))
    if not wanted:
        return None
    run = CallFollower(universe)
    here = _place_of(op)
    given = frozenset[Any]().union(*(items_of(each, universe) for each in items))
    for reading in wanted:
        value: Value = given
        for name in reading.attribute.split("."):
            value = read_attribute(run, value, name, here)
        reached = find_operands(run, value)
        if reading.is_key:
            _check_key(run, reached, reading.attribute, here)
        if reading.runs is not None:
            run_implicit(run, reached, reading.runs, here)
        if reading.runs == "counts":
            watch_keys(run, reached, here)
    return run.found


def _readings(op: Op) -> Iterator[_Reading]:
    for name in op.keyed_by:
        if isinstance(name, KeyFunction):
            continue  # its result is in the findings about the function
        yield _Reading(name, None, is_key=True)
    by_time = isinstance(op.kind, Join) and op.kind.within is not None
    if op.timing is not None and (by_time or op.timing.forget_after is not None):
        yield _Reading(op.timing.on, "measure")
    if isinstance(op.kind, Barrier | Join | Lookup | Merge):
        yield from (_Reading(name, None, is_key=True) for name in op.kind.on)
    yield from _readings_of_kind(op)


def _readings_of_kind(op: Op) -> Iterator[_Reading]:
    windows: tuple[Window, ...] = ()
    match op.kind:
        case Aggregate(window=window, columns=columns):
            windows = (window,)
            for _, column in columns:
                if column.attribute is not None:
                    runs = column.function if column.function in IMPLICIT else None
                    yield _Reading(column.attribute, runs)
        case Join(left_window=left, right_window=right):
            windows = (left, right)
        case EventTime(on=name) | InOrder(on=name):
            yield _Reading(name, "measure")
        case Merge(by=name):
            yield _Reading(name, "merge")
    for window in windows:
        if window.on is not None:
            yield _Reading(window.on, "measure")


def _check_key(
    run: AbstractInterpreter, value: Value, attribute: str, here: Here
) -> None:
    """Refuse keys that may be equal although an engine distinguishes them."""
    universe = run.universe
    for root in value:
        classes = classes_of(root, universe)
        for cls in universe.classes if classes is None else classes:
            if (
                is_users_class(cls)
                and issubclass(cls, _KEYS)
                and _decides_equality(cls)
            ):
                text = f"{attribute} may be a {cls.__name__}, which says itself what equals"
                note_unknown(run, text, here)


def _decides_equality(cls: type) -> bool:
    return any(_is_users(class_attribute(cls, name)) for name in IMPLICIT["key"])


def _is_users(raw: Any) -> bool:
    code = getattr(function_in(raw), "__code__", None)
    return isinstance(code, types.CodeType) and is_users_code(code)


def findings_of_construction(universe: Universe, op: Op, kind: Any) -> Findings | None:
    """Return the findings about constructing an item of a record type, as a source
    does.

    Code that cannot be followed is ignored: a validation may be anything.
    """
    fields = fields_of(kind)
    if fields is None or not is_users_class(kind):
        return None
    run = CallFollower(universe)
    here = _place_of(op)
    values = [_read_value(run, each) for each in fields.values()]
    cls = read_existing(run, kind, kind.__name__, here)
    run.call(cls, Arguments(values), here)
    return _keep_proved(run.found)


def _keep_proved(found: Findings) -> Findings:
    """Return findings without the effects that cannot be followed."""
    found.effects = {e: None for e in found.effects if e.kind != "unknown"}
    found.writes_anything = found.calls_anyone = None
    return found


def _read_value(run: AbstractInterpreter, annotation: Any) -> Value:
    """Return a newly read value of a field's annotated type."""
    if is_users_class(annotation) and fields_of(annotation) is None:
        return frozenset([Fresh(run.heap.site(annotation), annotation)])
    return frozenset([Plain(annotation if isinstance(annotation, type) else None)])


def findings_of_pickling(universe: Universe, op: Op, kind: Any) -> Iterator[Findings]:
    """Yield the effects of sending items to another process, beyond the copy.

    Code that cannot be followed is ignored: such hooks reach into their object.
    """
    for cls in {*universe.arriving.types, *([kind] if isinstance(kind, type) else [])}:
        for callee, args in _sending(cls) if is_users_class(cls) else ():
            run = CallFollower(universe)
            run.call(frozenset([callee]), args, _place_of(op))
            yield _keep_proved(run.found)


def _sending(cls: type) -> Iterator[tuple[Root, Arguments]]:
    """Yield the calls by which an object of a class is pickled and rebuilt."""
    for name in IMPLICIT["pickle"]:
        function = function_in(class_attribute(cls, name))
        if isinstance(function, types.FunctionType) and _is_users(function):
            yield (
                BoundMethod(Fresh(0, cls), function),
                Arguments([frozenset([Plain(), InputPart(object)])]),
            )
    reducer = reducer_of(cls)
    if reducer is not None:
        item = frozenset([Fresh(0, cls)])
        yield Existing(reducer, reducer.__name__), Arguments([item])
    if issubclass(cls, _MADE_BY_NEW) and _is_users(class_attribute(cls, "__new__")):
        yield Existing(cls, cls.__name__), Arguments(rest=frozenset([Plain()]))


def _place_of(op: Op) -> Here:
    """Return where an operator reads: the line that made it."""
    return place_of_call(op.name, op.site.file, op.site.line)
