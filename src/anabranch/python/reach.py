"""Reachability: what a value leads to, what runs on access, what differs per process.

Only user classes can run code on access: `__getitem__`, `__iter__`, `__add__` and so on
are followed like calls. For a value of unknown type, every class of the program that
defines the name is a candidate.

Two things differ between processes although no code says so. Text hashes are
randomized, so a set of texts is iterated in another order; and an object without a
`__repr__` of its own shows its address. Numbers and tuples of numbers hash alike
everywhere. And a sent item is a copy, no longer the object that a global refers to:
`is` distinguishes them, and so does everything that falls back on it, such as `==` of
objects without an `__eq__` and a NaN in a container.
"""

from __future__ import annotations

import collections
import copy
import enum
import functools
import math
import operator
import pickle
import pprint
import types
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args, get_origin

import numpy as np

from anabranch.graph.declarations import is_trusted
from anabranch.python import ir
from anabranch.python.classes import classes_of, member_of, parts_of_annotation
from anabranch.python.implicit import BUILTINS, IMPLICIT, RESULTS
from anabranch.python.known import (
    can_be_shared,
    facts_about,
    facts_of,
    module_of,
    why_impure,
)
from anabranch.python.objects import (
    CALLABLES,
    CONTAINERS,
    class_attribute,
    contents,
    function_in,
    holds_nan,
    holds_set,
    is_instance_of_users,
    is_scalar,
    is_scalar_type,
    is_singleton,
    is_table_type,
    is_users_class,
    is_users_code,
    list_held,
    list_storages,
    methods_run_by,
    parts_of_object,
    types_in,
    walk_held,
)
from anabranch.python.values import (
    A_CLASS,
    LOST,
    MADE,
    NOTHING,
    PLAIN,
    AbstractInterpreter,
    Arguments,
    Asked,
    BoundMethod,
    Change,
    Closure,
    Effect,
    Existing,
    Findings,
    Frame,
    Fresh,
    Here,
    InputPart,
    LibraryObject,
    Lost,
    Method,
    Parent,
    Place,
    Plain,
    Root,
    SharedPart,
    SomeScalar,
    Value,
    join,
)

# Python asks a sequence without `__iter__` for these, one after the other.
NUMBERED: Value = frozenset([Plain(int)])
_LOOKED_UP_BY = ("__getitem__", "__missing__")
# They look up nothing in their arguments, or by number only.
_COUNTING_MODULES = (
    *("math", "json", "re", "itertools", "heapq", "bisect", "statistics", "hashlib"),
    *("struct", "zlib", "_heapq", "_bisect", "_hashlib", "_struct"),
)
# Of these, if made here, keys and values are kept apart.
TABLES = (dict, collections.defaultdict, collections.OrderedDict, collections.Counter)


def note_unknown(run: AbstractInterpreter, text: str, here: Here) -> Value:
    """Record code that cannot be followed: any function may run."""
    at = here.place
    run.found.effect("unknown", text, at)
    run.found.calls_anyone = run.found.calls_anyone or at
    return LOST


def note_unknown_code(run: AbstractInterpreter, text: str, here: Here) -> Value:
    """Record that unreadable code runs: it may do anything."""
    at = here.place
    run.found.effect("unknown", text, at)
    run.found.writes_anything = run.found.writes_anything or at
    return LOST


def note_unknown_package(
    run: AbstractInterpreter, text: str, given: Value, here: Here
) -> Value:
    """Record a call into an unknown package, which may change only its arguments."""
    run.found.effect("unknown", text, here.place)
    escape(run, given, here)
    return MADE


def escape(run: AbstractInterpreter, given: Value, here: Here) -> None:
    """Record that values escape: their new owner may change them."""
    at = here.place
    for root in find_reachable(run, given):
        match root:
            case Existing(obj=obj):
                _escape_existing(run, obj, at)
            case BoundMethod(owner=Existing(obj=obj)) | Method(owner=Existing(obj=obj)):
                _escape_existing(run, obj, at)
            case SharedPart(_, target) if target:
                run.found.changes.setdefault(target, Change(None, *at))
            case Parent(owner=Existing(obj=obj)):
                _escape_existing(run, obj, at)
            case Lost(made=False):
                run.found.writes_anything = run.found.writes_anything or at


def _escape_existing(run: AbstractInterpreter, obj: Any, at: Place) -> None:
    if isinstance(obj, types.ModuleType):
        run.found.writes_anything = run.found.writes_anything or at
        return
    for each in walk_held(obj):
        run.found.escape(each, at)


def read_existing(run: AbstractInterpreter, obj: Any, text: str, here: Here) -> Value:
    """Return the value of an object that existed before the call."""
    if is_scalar(obj) and not holds_set(obj):
        nan = holds_nan(obj)
        return frozenset([Existing(obj, text) if nan else Plain(type(obj))])
    if isinstance(obj, types.MethodType) and isinstance(
        obj.__func__, types.FunctionType
    ):
        owner = read_existing(run, obj.__self__, text, here)
        return frozenset(BoundMethod(root, obj.__func__) for root in owner)
    facts = facts_of(type(obj))
    if (
        isinstance(obj, (*CALLABLES, *CONTAINERS, types.ModuleType))
        or is_instance_of_users(obj)
        or hasattr(type(obj), "__anabranch__")
        or (facts is not None and facts.can_be_shared)
        or is_trusted(type(obj).__module__)
    ):
        if not isinstance(obj, (*CALLABLES, types.ModuleType)):
            run.found.touch(text, obj, here.place)
        foreign = run.universe.foreign_part(obj, can_be_shared)
        if foreign is not None:
            return _read_foreign(run, obj, f"{text} holds a {foreign}", here)
        return frozenset([Existing(obj, text)])
    why = why_impure(type(obj))
    if why is not None:
        run.found.effect("impure", f"{text} {why}", here.place)
        _escape_existing(run, obj, here.place)
        return MADE
    kind = type(obj).__name__
    is_used_up = isinstance(obj, Iterator)
    also = ", an iterator," if is_used_up else ""
    what = f"{text} is a {kind}{also} that outlives the call"
    return _read_foreign(run, obj, what, here, "changes" if is_used_up else "unknown")


def _read_foreign(
    run: AbstractInterpreter,
    obj: Any,
    text: str,
    here: Here,
    kind: Literal["changes", "unknown"] = "unknown",
) -> Value:
    """Return a package's object; using it may change it."""
    run.found.effect(kind, text, here.place)
    run.found.touch(text, obj, here.place)
    _escape_existing(run, obj, here.place)
    return MADE


def list_elements(
    run: AbstractInterpreter, value: Value, here: Here, key: Value = NUMBERED
) -> Value:
    """Return the possible elements of a value, by iteration or by a key."""
    return join(_list_elements_of(run, root, here, key) for root in value)


def list_values(run: AbstractInterpreter, value: Value, here: Here) -> Value:
    """Return the possible values of a mapping under its own keys."""
    return list_elements(run, value, here, find_reachable(run, value) | PLAIN)


_SEEN_THROUGH = (collections.ChainMap, types.MappingProxyType)
_NEVER_ADDS = (*_COUNTING_MODULES, "builtins", "collections", "copy")


def watch_missing(run: AbstractInterpreter, value: Value, here: Here) -> None:
    """Record that a lookup may add a key to a `defaultdict` that outlives the call."""
    for root in value:
        match root:
            case Existing(obj=obj, text=text, variable=variable):
                for each in (obj, *list_storages(obj)):
                    if _adds_keys(each):
                        what = f"reading {text} may add a key to it"
                        run.found.change(each, what, here.place, variable)
            case SharedPart(text, target, kinds) if any(
                issubclass(kind, collections.defaultdict) for kind in kinds or ()
            ):
                what = f"reading {text} may add a key to it"
                run.found.change_inside(target, what, here.place)
            case Fresh(_, kind) if kind in _SEEN_THROUGH:
                watch_missing(run, look_inside(run, frozenset([root])), here)


def _adds_keys(obj: Any) -> bool:
    return isinstance(obj, collections.defaultdict) and obj.default_factory is not None


def look_up(
    run: AbstractInterpreter, root: Root, here: Here, key: Value = NUMBERED
) -> Value:
    """Return the possible values under a key or an index."""
    if isinstance(root, Fresh) and root.type in TABLES:
        return run.heap.values(root.site)
    if isinstance(root, Existing) and type(root.obj) is dict:
        held = contents(root.obj)
        if held is not None:
            inside, values = f"what lies in {root.text}", held[len(root.obj) :]
            return join(read_existing(run, each, inside, here) for each in values)
    return _list_elements_of(run, root, here, key)


def _list_elements_of(  # noqa: PLR0911 - one return for each kind
    run: AbstractInterpreter, root: Root, here: Here, key: Value
) -> Value:
    match root:
        case Fresh(site):
            ran = _run_access(run, root, here, key)
            rows = {root} if root.type is np.ndarray else ()  # views of it
            return (run.heap.elements(site) | ran).union(rows)
        case InputPart(kind):
            ran = _run_access(run, root, here, key)
            return ran.union(parts_of_annotation(kind, run.universe))
        case Existing():
            return _list_elements_of_existing(run, root, here, key)
        case SharedPart(text) if text == A_CLASS:
            return frozenset([SharedPart(f"what lies in {text}")])
        case SharedPart():
            return _run_access(run, root, here, key) | {root}
        case Lost():
            return frozenset([root])
        case Method(owner) if isinstance(owner, Existing) or not _is_open(owner):
            # no method: what the owner holds
            return PLAIN | _list_elements_of(run, owner, here, key)
    return PLAIN


def _is_open(root: Root) -> bool:
    facts = facts_about(root)
    return facts is not None and facts.open


def _run_access(run: AbstractInterpreter, root: Root, here: Here, key: Value) -> Value:
    ran = run_special(run, root, IMPLICIT["element"], here, key=key)
    return ran | look_inside(run, ran)  # the result of `__iter__` is iterated


def _list_elements_of_existing(  # noqa: PLR0911 - one return for each kind
    run: AbstractInterpreter, root: Existing, here: Here, key: Value
) -> Value:
    obj, text = root.obj, root.text
    if is_scalar(obj):  # a NaN
        return PLAIN
    inside = f"what lies in {text}"
    if isinstance(obj, types.FunctionType):
        return frozenset([root])  # it has none itself, but another candidate may
    ran = _run_access(run, root, here, key)
    if isinstance(obj, type) and issubclass(obj, enum.Enum):
        return ran | frozenset([member_of(obj)])
    if isinstance(obj, type):
        special = class_attribute(obj, "__class_getitem__")
        function = function_in(special)
        if isinstance(function, types.FunctionType) and is_users_code(
            function.__code__
        ):
            return note_unknown(run, f"{here.text} runs {text}", here)
        if isinstance(function, types.FunctionType | types.ClassMethodDescriptorType):
            return ran | {root}  # of typing.Generic or a builtin: the class itself
    if not isinstance(obj, CONTAINERS):
        return ran | frozenset([SharedPart(inside, id(obj), _parts_like(run, obj))])
    held = contents(obj)
    if held is None:
        kinds = types_in(obj)
        flat = kinds and all(map(is_scalar_type, kinds))
        within = SharedPart(inside, id(obj), run.universe.kinds_within(obj))
        return ran | (PLAIN if flat else frozenset([within]))
    return ran | join(read_existing(run, each, inside, here) for each in held)


def _parts_like(run: AbstractInterpreter, obj: Any) -> frozenset[type] | None:
    """Return the class of a table if its columns, and they alone, are like it."""
    facts = facts_of(type(obj))
    if facts is None or not facts.open:
        return None
    within = run.universe.kinds_within(obj)
    flat = within is not None and all(
        is_scalar_type(each) or is_table_type(each) for each in within
    )
    return frozenset([type(obj)]) if flat or not is_table_type(type(obj)) else within


def look_inside(run: AbstractInterpreter, value: Value) -> Value:
    """Return the values reachable in one step, running nothing."""
    found: set[Root] = set()
    for root in value:
        match root:
            case Fresh(site):
                found |= run.heap.inside(site)
            case InputPart(kind):
                found.update(parts_of_annotation(kind, run.universe))
            case Existing(obj=obj, text=text) if not isinstance(obj, CALLABLES):
                found |= _look_inside_existing(run, obj, f"what lies in {text}")
            case SharedPart(text) if text == A_CLASS:
                continue  # only its attributes lead on
            case SharedPart() | Lost():
                found.add(root)
    return frozenset(found)


def _is_named(obj: Any) -> bool:
    """Tell whether an object is a constant, or a function without references to
    others.
    """
    if isinstance(obj, types.BuiltinFunctionType):
        return isinstance(obj.__self__, types.ModuleType | type(None))
    return is_scalar(obj) or type(obj) in _FUNCTIONS_ALONE


def _look_inside_existing(run: AbstractInterpreter, obj: Any, text: str) -> Value:
    if isinstance(obj, np.ndarray) and not obj.dtype.hasobject:
        return PLAIN
    listed = contents(obj) if isinstance(obj, CONTAINERS) else None
    if listed is not None and all(map(_is_named, listed)):
        return frozenset(
            Plain(type(each)) if is_scalar(each) else Existing(each, text)
            for each in listed
        )
    kinds = None
    closed = isinstance(obj, CONTAINERS) or is_table_type(type(obj))
    if closed or is_instance_of_users(obj):
        kinds = run.universe.kinds_within(obj)
    return frozenset([SharedPart(text, id(obj), kinds)])


def find_reachable(run: AbstractInterpreter, value: Value) -> Value:
    """Return a value with everything reachable from it, running nothing."""
    while not (more := look_inside(run, value)) <= value:
        value |= more
    return value


_EAGER = (list, tuple, dict, set, frozenset, collections.deque, types.GeneratorType)


def find_lazy(value: Value) -> Value:
    """Return the iterators that make their elements one by one, as `map` does.

    What a generator makes is known from its names.
    """
    return frozenset(
        root
        for root in value
        if not (isinstance(root, Fresh) and root.type in _EAGER)
        and not isinstance(root, Plain | Existing | InputPart)
    )


def find_operands(run: AbstractInterpreter, value: Value) -> Value:
    """Return the values that a builtin may apply operators to; only their classes
    matter.

    For an existing object these are its present contents, for others the possible ones.
    """
    found: set[Root] = set()
    waiting = list(value)
    while waiting:
        root = waiting.pop()
        if root in found:
            continue
        found.add(root)
        if not isinstance(root, Existing):
            waiting.extend(look_inside(run, frozenset([root])))
        elif (listed := parts_of_object(root.obj)) is not None:
            run.found.opened.add(id(root.obj))
            waiting.extend(Existing(each, root.text) for each in listed)
        elif isinstance(root.obj, CONTAINERS) or is_table_type(type(root.obj)):
            kinds = run.universe.kinds_within(root.obj)
            waiting.append(SharedPart(root.text, id(root.obj), kinds))
    return frozenset(found)


def run_special(
    run: AbstractInterpreter,
    root: Root,
    names: Iterable[str],
    here: Here,
    args: Arguments | None = None,
    *,
    key: Value = NUMBERED,
) -> Value:
    """Run the user's special methods that an operation on `root` may invoke.

    Lookups are given `key`: a number where Python counts.
    """
    ran: list[Value] = []
    for name in names:
        for function in find_candidates(run, root, name):
            if not is_users_code(function.__code__):
                text = f"{here.text} runs {function.__qualname__} of a package"
                ran.append(note_unknown(run, text, here))
                continue
            callee: Value = frozenset([BoundMethod(root, function)])
            given = args or Arguments(rest=frozenset([root, Plain()]))
            if name in _LOOKED_UP_BY:
                given = Arguments([key])
            ran.append(run.call(callee, given, here))
            _run_on_result(run, ran[-1], function, here)
    return join(ran)


def _run_on_result(
    run: AbstractInterpreter, result: Value, function: types.FunctionType, here: Here
) -> None:
    """Run the methods that Python applies to a special method's result: `__bool__`,
    `__next__`.
    """
    names = RESULTS.get(function.__name__)
    for root in result if names is not None else ():
        if not isinstance(root, Plain):
            run_special(run, root, names or (), here)


def run_builtin(run: AbstractInterpreter, obj: Any, value: Value, here: Here) -> Value:
    """Run the special methods that a built-in function may invoke on its arguments;
    return what those that belong to it give.
    """
    names = BUILTINS.get(obj) if isinstance(obj, Hashable) else None
    if names is None:
        module = module_of(obj)
        if module not in _NEVER_ADDS:
            watch_missing(run, find_operands(run, value), here)
        counts = module in _COUNTING_MODULES
        return run_operators(run, value, here, PLAIN if counts else None)
    args = Arguments(rest=find_reachable(run, value) | PLAIN)
    roots = find_operands(run, value)
    return join(run_special(run, root, names, here, args) for root in roots)


def run_operators(
    run: AbstractInterpreter, value: Value, here: Here, key: Value | None = None
) -> Value:
    """Run every special method that a builtin may invoke on a value or its parts;
    return what they give.

    Lookups are given `key`, or else anything reachable.
    """
    made = [NOTHING]
    args = Arguments(rest=find_reachable(run, value) | PLAIN)
    by_key = args if key is None else Arguments([key])
    for root in find_operands(run, value):
        classes = classes_of(root, run.universe)
        for function in run.universe.operators(classes):
            given = by_key if function.__name__ in _LOOKED_UP_BY else args
            ran = run.call(frozenset([BoundMethod(root, function)]), given, here)
            _run_on_result(run, ran, function, here)
            made.append(ran)
    return join(made)


def find_candidates(
    run: AbstractInterpreter, root: Root, name: str
) -> Sequence[types.FunctionType]:
    """Return the user's functions that `name` may mean for a value."""
    classes = classes_of(root, run.universe)
    if classes is None:
        return run.universe.definitions(name)
    return [each for cls in classes for each in methods_run_by(cls, name)]


_NUMBERS = (int, float, bool, complex)
_SETS = (set, frozenset)
_FUNCTIONS_ALONE = (types.FunctionType, types.MethodDescriptorType, type)
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
# Their result is independent of the order of their arguments.
ORDER_FREE = frozenset(
    map(
        id,
        (
            *(sorted, min, max, set, frozenset, len, any, all, bool, isinstance, type),
            *(issubclass, callable, hasattr, copy.copy, copy.deepcopy, sum),
        ),
    )
)
_GO_THROUGH = frozenset(
    map(
        id,
        (
            *(list, tuple, iter, enumerate, zip, map, filter, dict, sum, sorted, min),
            *(max, bytes, bytearray, functools.reduce, math.fsum, math.prod, range),
        ),
    )
)
_GO_THROUGH_MODULES = ("itertools", "collections", "heapq", "statistics", "numpy")
_SHOWING = frozenset(map(id, (str, repr, ascii, format, pprint.pformat)))
_COMPARING = frozenset(map(id, (sorted, min, max)))
_TEXTS = tuple(reversed(IMPLICIT["text"]))
# Methods that iterate over their argument, or take the first element.
_ORDERED_METHODS = frozenset(
    ["join", "extend", "extendleft", "update", "fromkeys", "format", "format_map"]
)


Sure: TypeAlias = Literal["perhaps", "known", "surely"]


def _goes_through(function: Any) -> bool:
    """Tell whether a built-in function iterates over its argument."""
    return id(function) in _GO_THROUGH or module_of(function) in _GO_THROUGH_MODULES


def _is_rebuilt_alike(obj: Any) -> bool:
    """Tell whether a captured set keeps its order after being sent twice.

    Only numbers qualify: the hash of anything else may differ.

    >>> _is_rebuilt_alike({1, 2, 3}), _is_rebuilt_alike({"a", "b"})
    (True, False)
    """
    if type(obj) not in _SETS or not all(map(_is_made_of_numbers, obj)):
        return False
    sent = pickle.loads(pickle.dumps(obj))
    again = pickle.loads(pickle.dumps(sent))
    return list(obj) == list(sent) == list(again)


def _is_made_of_numbers(obj: Any) -> bool:
    if type(obj) is tuple:
        return all(map(_is_made_of_numbers, obj))
    return type(obj) in _NUMBERS


def watch_iteration(
    run: AbstractInterpreter, value: Value, here: Here, *, given: Sure = "perhaps"
) -> None:
    """Record that the iteration order matters here, if the value is a set.

    `given` is the certainty required: code that plainly iterates counts if the value
    may be a set, a call that takes anything only if it is one.
    """
    unordered = [
        root for root in value if _is_set(run, root, given) and _is_unordered(run, root)
    ]
    run.found.orders_items |= any(isinstance(root, InputPart) for root in unordered)
    if unordered:
        text = (
            f"{here.text} depends on the order of a set, which differs from "
            "process to process; use sorted(...)"
        )
        run.found.effect("impure", text, here.place)
    _note_ordered(run, value, here, given)


_UNLIKE = (
    "depends on the order of a set, which a copy in another process loses; "
    "use sorted(...), or the keys of a dict"
)


def _note_ordered(
    run: AbstractInterpreter, value: Value, here: Here, given: Sure
) -> None:
    """Record that the order of a set is read, which may have been copied by then.

    The order depends on the history of a set, of which a copy knows nothing.
    """
    text = f"{here.text} {_UNLIKE}"
    known: Sure = "surely" if given == "surely" else "known"
    for root in value:
        if isinstance(root, InputPart):
            if _is_set(run, root, given) and _is_unordered(run, root):
                run.found.effect("identity", text, here.place)
        elif isinstance(root, Fresh | Existing) and _is_set(run, root, known):
            run.found.tied.setdefault(root, Asked(root, text, *here.place))


def find_origins(found: Findings, asked: Asked) -> Value:
    """Return a set with all that it may have been made of, whose order it inherits."""
    origins, waiting = set[Root](), [asked.root]
    while waiting:
        root = waiting.pop()
        if root not in origins:
            origins.add(root)
            if isinstance(root, Fresh):
                waiting.extend(found.made_of.get(root.site, ()))
    return frozenset(origins)


def _is_set(run: AbstractInterpreter, root: Root, given: Sure) -> bool:
    if given == "perhaps":
        return True
    classes = classes_of(root, run.universe)
    is_set = [issubclass(each, _SETS) for each in classes or ()]
    return any(is_set) if given == "known" else bool(is_set) and all(is_set)


def watch_call(run: AbstractInterpreter, obj: Any, args: Arguments, here: Here) -> None:
    """Check the arguments of a built-in function."""
    if id(obj) in _SHOWING:
        watch_text(run, args.all(), here)
        return
    if obj in (set, frozenset, collections.Counter):
        watch_keys(run, args.all(), here)
        remember_order(run, args.all(), run.heap.site((here.step, obj)))
    if id(obj) in _COMPARING_PARTS or (
        getattr(obj, "__name__", None) in _LOOKING_UP
        and isinstance(getattr(obj, "__self__", None), (type, *CONTAINERS))
    ):
        watch_parts(run, args.all() | _owner_of(obj), here)
    if id(obj) in _COMPARING:
        _watch_comparison(run, args.all(), here)
        if "key" not in args.keywords:  # tuples ask first what is equal in them
            compared = look_inside(run, args.all())
            watch_equal_nans(run, compared, compared, here)
    if obj in (map, filter) and all(
        isinstance(r, Existing) for r in args.positional[0]
    ):
        made = getattr(here.step, "target", "")  # nothing here sees the calls
        if is_taken_in_any_order(run, made, here.frame):
            return
    order_free = id(obj) in ORDER_FREE and "key" not in args.keywords
    if not order_free or (obj is sum and not are_whole_numbers(run, args)):
        given: Sure = "perhaps" if _goes_through(obj) else "surely"
        watch_iteration(run, args.all(), here, given=given)


def is_taken_in_any_order(
    run: AbstractInterpreter, made: ir.Register, frame: Frame
) -> bool:
    """Tell whether a register goes to one call, which does not show its order."""
    code = frame.code
    match [u for u in code.users.get(made, ()) if not isinstance(u, ir.Add)]:
        case [ir.Call(function=function, arguments=given) as call]:
            callee = frame.registers.get(function, NOTHING)
            return (
                bool(callee)
                and call not in run.rounding
                and not any(each.name for each in given)
                and all(
                    isinstance(r, Existing) and id(r.obj) in ORDER_FREE for r in callee
                )
            )
    return False


def _watch_comparison(run: AbstractInterpreter, value: Value, here: Here) -> None:
    """Record a minimum over a set with incomparable members."""
    for root in value:
        if not _is_set(run, root, "known") or not _is_unordered(run, root):
            continue
        kinds = [classes_of(each, run.universe) for each in _find_members(run, root)]
        found = frozenset().union(*(each or () for each in kinds))
        if any(issubclass(each, frozenset) or is_users_class(each) for each in found):
            watch_iteration(run, frozenset([root]), here)


def watch_method(
    run: AbstractInterpreter, owner: Root, name: str, args: Arguments, here: Here
) -> None:
    """Check the owner and the arguments of a method call."""
    classes = classes_of(owner, run.universe) or frozenset()
    of_set = bool(classes) and all(issubclass(each, _SETS) for each in classes)
    if name == "pop":
        watch_iteration(run, frozenset([owner]), here)
    elif name in _ORDERED_METHODS and not of_set:
        watch_iteration(run, args.all(), here)
    elif of_set and name.endswith("update") and isinstance(owner, Fresh):
        remember_order(run, args.all(), owner.site)
    if name in ("format", "format_map"):
        watch_text(run, args.all(), here)
    elif name in _TEXTS:
        watch_text(run, frozenset([owner]), here)


def watch_text(run: AbstractInterpreter, value: Value, here: Here) -> None:
    """Record that a value is converted to text that reveals its address or order."""
    watch_iteration(run, find_operands(run, value), here, given="known")
    for root in find_operands(run, value):
        if _shows_address(run, root, inside=root not in value):
            text = f"{here.text} shows where an object lies in memory"
            run.found.effect("impure", text, here.place)


def _shows_address(run: AbstractInterpreter, root: Root, *, inside: bool) -> bool:
    if isinstance(root, Closure | BoundMethod | Method):
        return True
    if isinstance(root, Existing) and isinstance(root.obj, _FUNCTIONS):
        return True
    names = _TEXTS[:1] if inside else _TEXTS
    return any(
        cls is types.GeneratorType
        or all(getattr(cls, name) is getattr(object, name) for name in names)
        for cls in classes_of(root, run.universe) or ()
        if cls is not LibraryObject
    )


def are_whole_numbers(run: AbstractInterpreter, args: Arguments) -> bool:
    """Tell whether the sum of the arguments is independent of their order."""
    return all(
        isinstance(each, Plain) and each.type in (int, bool)
        for root in args.all()
        for each in look_inside(run, frozenset([root]))
    )


def _is_unordered(run: AbstractInterpreter, root: Root) -> bool:
    """Tell whether a value may be a set whose order differs in another process.

    A set made elsewhere is rebuilt when it is sent; its order then depends on its
    former capacity, whatever the hashes are.
    """
    classes = classes_of(root, run.universe)
    if classes is None or LibraryObject in classes:
        return _may_be_set(run, root)
    if not any(issubclass(each, _SETS) for each in classes):
        return False
    if isinstance(root, Existing):
        return not _is_rebuilt_alike(root.obj)
    if not isinstance(root, Fresh) or root.site in run.unordered_sites:
        return True
    return not all(
        map(functools.partial(_has_steady_hash, run), _find_members(run, root))
    )


def _may_be_set(run: AbstractInterpreter, root: Root) -> bool:
    """Tell whether a value of unknown class may be a set."""
    match root:
        case InputPart():
            return run.universe.arriving.sets
        case Fresh(site):  # a function's result for a set may be a set
            inside = find_operands(run, run.heap.inside(site)) - {root}
            return any(
                _is_unordered(run, each)
                for each in inside
                if isinstance(each, InputPart | Existing | SharedPart)
                or (classes_of(each, run.universe) or frozenset()) & {*_SETS}
            )
    return False


def are_sets(run: AbstractInterpreter, value: Value) -> bool:
    """Tell whether a value is certainly a set."""
    return all(_is_set(run, root, "surely") for root in value)


def remember_order(run: AbstractInterpreter, value: Value, made: int) -> None:
    """Record that a set made here inherits the order of another one."""
    sets = frozenset(root for root in value if _is_set(run, root, "known"))
    run.found.made_of[made] = run.found.made_of.get(made, NOTHING) | sets
    if made not in run.unordered_sites and any(
        map(functools.partial(_is_unordered, run), value)
    ):
        run.unordered_sites.add(made)


def _find_members(run: AbstractInterpreter, root: Root) -> Value:
    match root:
        case Existing(obj=obj):
            listed = contents(obj)
            if listed is None:
                return frozenset([Plain()])
            return frozenset(
                Existing(each, "") if isinstance(each, tuple) else Plain(type(each))
                for each in listed
            )
    return look_inside(run, frozenset([root]))


def _has_steady_hash(run: AbstractInterpreter, root: Root) -> bool:
    match root:
        case Plain(kind):
            return kind in _NUMBERS
        case Fresh(_, kind) if kind is tuple:
            return all(
                map(functools.partial(_has_steady_hash, run), _find_members(run, root))
            )
        case Existing(obj=tuple()):
            return all(
                map(functools.partial(_has_steady_hash, run), _find_members(run, root))
            )
        case InputPart(kind) if get_origin(kind) is tuple:
            return all(a in _NUMBERS for a in get_args(kind) if a is not Ellipsis)
    return False


_LOOKING_UP = frozenset(
    [
        *("get", "index", "count", "pop", "remove", "discard", "setdefault", "add"),
        *("isdisjoint", "issubset", "issuperset", "union", "intersection"),
        *("difference", "symmetric_difference", "intersection_update"),
        *("difference_update", "symmetric_difference_update", "fromkeys"),
        *("__contains__", "__getitem__", "__eq__", "__ne__"),
    ]
)
# Functions that compare an argument with another, or with what is in it.
_COMPARING_PARTS = frozenset(
    map(
        id,
        [
            *(operator.eq, operator.ne, operator.contains, operator.getitem),
            *(operator.countOf, operator.indexOf),
        ],
    )
)
_ONE_OF_A_KIND = (type(None), bool, type(Ellipsis), type(NotImplemented))


_LOST = "asks for identity, which a copy in another process loses"
_SENTINEL = f"{_LOST}; use None or an Enum member, or a class with an __eq__ and =="


def watch_identity(
    run: AbstractInterpreter, left: Value, right: Value, here: Here
) -> None:
    """Record an `is` comparison of objects that are copied between processes."""
    if any(all(map(_is_one_everywhere, side)) for side in (left, right)):
        return
    for root in left | right:
        _note_asked(run, root, f"{here.text} {_SENTINEL}", here)
    if run.universe.arriving.twins and all(
        any(_has_identity(run, root) for root in side) for side in (left, right)
    ):
        text = f"{here.text} asks whether items are one object{_COPIES}"
        run.found.effect("identity", text, here.place)
        return
    advice = _SENTINEL
    for one, other in ((left, right), (right, left)):
        if all(isinstance(root, Fresh) for root in one):
            return
        if any(map(_is_immutable, one)) and any(
            map(functools.partial(_may_be_copied, run), other)
        ):
            advice = f"{_LOST}; use =="
            break
        captured = [
            root for root in one if isinstance(root, Existing | SharedPart | Lost)
        ]
        if any(_may_be(run, root, other) for root in captured):
            break
    else:
        return
    run.found.effect("identity", f"{here.text} {advice}", here.place)


def _note_asked(run: AbstractInterpreter, root: Root, text: str, here: Here) -> None:
    """Record that an object that outlives the call is told from others by identity."""
    if isinstance(root, Existing | SharedPart) and not _is_one_everywhere(root):
        run.found.asked.setdefault(root, Asked(root, text, *here.place))


def watch_kept(run: AbstractInterpreter, state: Value) -> None:
    """Record that a state, which is copied between epochs, holds what is asked for."""
    held = find_operands(run, state) if run.found.asked else NOTHING
    known = [each for each in held if isinstance(each, Existing | SharedPart)]
    for asked in run.found.asked.values():
        if any(_may_be_one(run, asked.root, each) for each in known):
            run.found.loses = Effect("identity", *asked[1:])
            return


def watch_tied(run: AbstractInterpreter, state: Value) -> None:
    """Record that a state holds what has an order, or an identity, that a copy lacks.

    Code that depends on its process stays in one, with its state.
    """
    found = run.found
    if any(effect.kind == "impure" for effect in found.effects):
        return
    held = find_operands(run, state) if found.tied else NOTHING
    for asked in found.tied.values():
        if any(_is_copied(run, each) for each in find_origins(found, asked) & held):
            found.loses = Effect("identity", *asked[1:])
            return


def watch_cached(run: AbstractInterpreter, given: Value, here: Here) -> None:
    """Record that a cache that outlives the call knows objects by their identity."""
    for root in given:
        if isinstance(root, Fresh) and _is_compared_whole(root.type):
            text = (
                f"{here.text} has a cache that knows {root.type.__name__} objects by "
                f"identity, which a copy in another process loses; keep a dict, or a "
                f"functools.cache, in the object"
            )
            run.found.tied.setdefault(root, Asked(root, text, *here.place))


def _is_copied(run: AbstractInterpreter, held: Root) -> bool:
    """Tell whether a set of a state is not the same after it has been sent again.

    One that nobody changes was sent before the first item came.
    """
    return not isinstance(held, Existing) or id(held.obj) in run.found.changes


def _may_be_one(run: AbstractInterpreter, one: Root, other: Root) -> bool:
    """Tell whether two values that outlive the call may be one object."""
    if isinstance(one, Existing) and isinstance(other, Existing):
        return one.obj is other.obj
    kinds, others = classes_of(one, run.universe), classes_of(other, run.universe)
    return kinds is None or others is None or bool(kinds & others)


def _may_be_copied(run: AbstractInterpreter, root: Root) -> bool:
    """Tell whether a value may be immutable, or an item sent as a copy."""
    if isinstance(root, InputPart):
        classes = classes_of(root, run.universe)
        return classes is not None and tuple in classes
    return _is_immutable(root)


def _may_be(run: AbstractInterpreter, captured: Root, other: Value) -> bool:
    """Tell whether an item may have been a captured object before it was sent."""
    if _is_one_everywhere(captured):
        return False
    if isinstance(captured, Lost):
        return any(_has_identity(run, root) for root in other)
    classes = classes_of(captured, run.universe)
    for root in other:
        if not isinstance(root, InputPart):
            continue
        possible = classes_of(root, run.universe)
        if possible is None or classes is None or possible & classes:
            return True
    return False


def _owner_of(method: Any) -> Value:
    owner = getattr(method, "__self__", None)
    return (
        frozenset([Existing(owner, "")]) if isinstance(owner, CONTAINERS) else NOTHING
    )


def watch_parts(run: AbstractInterpreter, value: Value, here: Here) -> None:
    """Check values that are compared with each other, or with each other's parts."""
    watch_equality(run, value, here)
    watch_twins(run, value, here)
    if not all(isinstance(root, Plain) for root in value):
        watch_nans(run, value, here)


def watch_sets(run: AbstractInterpreter, left: Value, right: Value, here: Here) -> None:
    """Check the operands of an operator that may be one on sets."""
    if any(
        issubclass(each, _SETS)
        for root in left
        for each in classes_of(root, run.universe) or ()
    ):
        watch_parts(run, left | right, here)


def _find_listed(run: AbstractInterpreter, value: Value) -> Value:
    """Return the parts of objects made here, such as `(A, B)`, that are compared."""
    found, waiting = set(value), list(value)
    while waiting:
        root = waiting.pop()
        if isinstance(root, Fresh) and not _is_compared_whole(root.type):
            more = run.heap.inside(root.site) - found
            found |= more
            waiting += more
    return frozenset(found)


def _is_compared_whole(kind: Any) -> bool:
    """Tell whether objects of a class are compared by identity, not by their parts."""
    return is_users_class(kind) and class_attribute(kind, "__eq__") is object.__eq__


def watch_lookup(
    run: AbstractInterpreter, owner: Root, name: str, args: Arguments, here: Here
) -> None:
    """Check a method that compares its argument with existing elements."""
    if name in _LOOKING_UP:
        watch_equality(run, args.all() | {owner}, here)
        watch_twins(run, args.all(), here)
        watch_nans(run, join(args.positional[:1]) | args.rest, here)


_COPIES = "; copies of them in other processes are several; compare attributes"


def watch_keys(run: AbstractInterpreter, value: Value, here: Here) -> None:
    """Check values that become elements of a set, or keys of a table."""
    watch_nans(run, value, here)
    watch_twins(run, value, here)


def watch_twins(run: AbstractInterpreter, value: Value, here: Here) -> None:
    """Record a comparison of items by identity, if one object may be in several."""
    if not run.universe.arriving.twins:
        return
    for root in find_operands(run, value):
        for cls in _classes_by_identity(run, root):
            text = f"{here.text} compares {cls.__name__} objects, which have no __eq__"
            run.found.effect("identity", f"{text}{_COPIES}", here.place)


def compares_items(run: AbstractInterpreter, value: Value) -> bool:
    """Tell whether `==` on a value may compare items by identity."""
    return any(
        True
        for root in find_operands(run, value)
        for _ in _classes_by_identity(run, root)
    )


def _classes_by_identity(run: AbstractInterpreter, root: Root) -> Iterator[type]:
    """Yield the classes of an item whose objects equal only themselves."""
    if isinstance(root, InputPart):
        for cls in classes_of(root, run.universe) or ():
            if is_users_class(cls) and not issubclass(cls, enum.Enum):
                if class_attribute(cls, "__eq__") is object.__eq__:
                    yield cls
            elif cls is object:
                yield cls


def _has_identity(run: AbstractInterpreter, root: Root) -> bool:
    """Tell whether a value may be a mutable part of an item."""
    if not isinstance(root, InputPart):
        return False
    classes = classes_of(root, run.universe)
    return classes is None or not all(
        is_scalar_type(each) or issubclass(each, tuple) for each in classes
    )


def watch_nans(run: AbstractInterpreter, value: Value, here: Here) -> None:
    """Record that item parts which may be the same NaN are looked for."""
    if run.universe.arriving.nans and _may_hold_nan(run, value):
        text = (
            f"{here.text} compares items that may hold one NaN several times, which "
            f"equals only itself and none of its copies; use None, or math.isnan"
        )
        run.found.effect("identity", text, here.place)


def watch_equal_nans(
    run: AbstractInterpreter, left: Value, right: Value, here: Here
) -> None:
    """Record that item parts which may be the same NaN are compared by `==`.

    A NaN by itself differs from itself; within a container it does not.
    """
    if all(
        not all(isinstance(root, Plain) for root in side) and _may_hold_nan(run, side)
        for side in (left, right)
    ):
        watch_nans(run, left, here)


def _may_hold_nan(run: AbstractInterpreter, value: Value) -> bool:
    return any(_may_be_nan(run, root) for root in find_operands(run, value))


def _may_be_nan(run: AbstractInterpreter, root: Root) -> bool:
    """Tell whether a value, not its contents, may be a NaN."""
    match root:
        case Plain(kind):
            return kind is None or (isinstance(kind, type) and _is_float(kind))
        case Existing(obj=obj):
            return holds_nan(obj)
        case Fresh():
            return False
    classes = classes_of(root, run.universe)
    return classes is None or any(
        each in (object, SomeScalar, LibraryObject) or _is_float(each)
        for each in classes
    )


def _is_float(kind: type) -> bool:
    return issubclass(kind, float | complex | np.inexact)


def watch_equality(run: AbstractInterpreter, value: Value, here: Here) -> None:
    """Record a comparison of items with a captured object without an `__eq__`."""
    compared = _find_listed(run, value)
    items = frozenset(root for root in compared if isinstance(root, InputPart | Plain))
    for root in compared:
        if isinstance(root, SharedPart) and any(map(_has_none, root.kinds or ())):
            text = f"{here.text} compares objects that have no __eq__{_COPIES}"
            _note_asked(run, root, text, here)
        if not isinstance(root, Existing):
            continue
        for obj in _find_compared(root.obj):
            if isinstance(obj, float) and obj != obj:  # noqa: PLR0124 - the test for NaN
                text = (
                    f"{here.text} looks for a NaN, which equals only itself and none "
                    f"of its copies in other processes; use math.isnan"
                )
                run.found.effect("identity", text, here.place)
            elif _equals_itself_only(obj):
                text = (
                    f"{here.text} compares {type(obj).__name__} objects, which have no "
                    f"__eq__, with copies from other processes; give them one, or "
                    f"compare attributes"
                )
                one = Existing(obj, "")
                _note_asked(run, one, text, here)
                if _may_be(run, one, items):
                    run.found.effect("identity", text, here.place)


def _find_compared(obj: Any) -> Iterator[Any]:
    """Yield the objects that a lookup compares: the keys of a table."""
    waiting, seen = [obj], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, dict | types.MappingProxyType):
            waiting.extend(dict.keys(each) if isinstance(each, dict) else each.keys())
        elif isinstance(each, tuple | frozenset):
            waiting.extend(list_held(each))
        else:
            waiting.extend(parts_of_object(each) or ())


def _equals_itself_only(obj: Any) -> bool:
    return _has_none(type(obj))


def _has_none(cls: type) -> bool:
    """Tell whether a class has no `__eq__`, so that its objects equal only themselves."""
    if cls is object:
        return True
    if not is_users_class(cls) or issubclass(cls, enum.Enum):
        return False
    return class_attribute(cls, "__eq__") is object.__eq__


def _is_one_everywhere(root: Root) -> bool:
    """Tell whether an object is a singleton in each process and never copied."""
    match root:
        case Plain(kind):
            return kind in _ONE_OF_A_KIND or (
                isinstance(kind, type) and issubclass(kind, enum.Enum)
            )
        case Existing(obj=obj):
            named = isinstance(obj, (*CALLABLES, types.ModuleType, enum.Enum))
            return named or is_singleton(obj)
        case InputPart(type() as kind):
            return issubclass(kind, enum.Enum)
        case BoundMethod() | Method() | Closure():
            return True
        case SharedPart(text):
            return text == A_CLASS
    return False


def _is_immutable(root: Root) -> bool:
    """Tell whether a value is a number or text, which may have many copies."""
    return isinstance(root, Plain) and not _is_one_everywhere(root)
