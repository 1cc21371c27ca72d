"""The effects of a method known only by name."""

from __future__ import annotations

import codecs
import contextlib
import encodings
import functools
import gc
import itertools
import logging
import pathlib
import re
import types
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from anabranch.graph.declarations import is_trusted
from anabranch.python import ir
from anabranch.python.attributes import change, read_attribute
from anabranch.python.classes import class_of, classes_of
from anabranch.python.implicit import IMPLICIT
from anabranch.python.known import (
    CHANGING_METHODS,
    CLOCKS,
    PLAIN_METHODS,
    PURE_METHODS,
    VALUE_METHODS,
    VALUES_ONLY,
    Facts,
    arguments_written_by_method,
    facts_about,
    find_log_parts,
    handles_logs,
    is_pure,
)
from anabranch.python.objects import (
    CALLABLES,
    CONTAINERS,
    MISSING,
    class_attribute,
    field_names,
    is_scalar_type,
    is_users_class,
    is_users_code,
    methods_run_by,
)
from anabranch.python.reach import (
    TABLES,
    escape,
    find_operands,
    find_reachable,
    list_elements,
    list_values,
    look_inside,
    note_unknown,
    note_unknown_package,
    read_existing,
    remember_order,
    run_operators,
    run_special,
    watch_iteration,
    watch_lookup,
    watch_method,
    watch_missing,
)
from anabranch.python.universe import Universe
from anabranch.python.values import (
    A_CLASS,
    ELEMENTS,
    KEYS,
    MADE,
    NOTHING,
    PLAIN,
    SENT,
    AbstractInterpreter,
    Arguments,
    BoundMethod,
    Closure,
    Existing,
    Fresh,
    Here,
    InputPart,
    LibraryObject,
    Method,
    Plain,
    Root,
    SharedPart,
    Value,
    join,
)

ADVICE = "; say @ab.declare(state=...) on it or ab.trust(...) its package if it is pure"

_KEYS: type = type({}.keys())
_VALUES: type = type({}.values())
_ITEMS: type = type({}.items())
_VIEWS = ("keys", "values", "items")
_GIVES_TEXTS = frozenset(
    ["split", "rsplit", "splitlines", "findall", "groups", "rpartition"]
)
_ALWAYS_FRESH = _GIVES_TEXTS | {
    *("join", "keys", "items", "copy", "tolist", "most_common", "_asdict"),
    *("partition", "union", "intersection", "difference", "astype", "flatten"),
    "symmetric_difference",
}
# Methods whose result has the same type for every built-in owner.
_KINDS: dict[str, type] = {
    **dict.fromkeys(("split", "rsplit", "splitlines", "findall", "finditer"), list),
    **dict.fromkeys(("tolist", "most_common"), list),
    **dict.fromkeys(("groups", "partition", "rpartition"), tuple),
    **dict.fromkeys(("match", "search", "fullmatch"), re.Match),
    **dict.fromkeys(("groupdict", "_asdict"), dict),
    "keys": _KEYS,
    "values": _VALUES,
    "items": _ITEMS,
}
_GIVES_SAME = frozenset(
    [
        *("capitalize", "casefold", "center", "expandtabs", "ljust", "lower", "lstrip"),
        *("rjust", "rstrip", "strip", "swapcase", "title", "upper", "zfill"),
        *("removeprefix", "removesuffix"),
    ]
)
_RESULTS: dict[str, type] = {
    **dict.fromkeys(("hexdigest", "isoformat", "strftime", "decode"), str),
    **dict.fromkeys(("digest", "encode", "tobytes"), bytes),
    **dict.fromkeys(("weekday", "isoweekday", "bit_length", "toordinal"), int),
}
_SAME_KIND = ("copy", "union", "intersection", "difference", "symmetric_difference")
_GIVES_PARTS = ("get", "group", "start", "end", "span")
_GIVES_VALUES = ("get", "setdefault", "pop")
_TAKES_WHOLE = ("append", "appendleft", "insert", "add", "setdefault", "__setitem__")
_TAKES_ELEMENTS = ("extend", "extendleft", "update", "subtract")
_LOOKING_UP = ("__getitem__", "__missing__")
_LOOKING_UP_IN_ARGUMENTS = ("format", "format_map", "translate", "__mod__", "__rmod__")
_BY_KEY = frozenset(  # they may use their arguments as keys
    [
        *(*_GIVES_VALUES, *_TAKES_ELEMENTS, *_TAKES_WHOLE, *_GIVES_PARTS),
        *("__getitem__", "__contains__", "fromkeys", "items", "values", "popitem"),
        *("remove", "format_map"),
    ]
)


def call_method(  # noqa: C901, PLR0911, PLR0912 - one return for each kind of method
    run: AbstractInterpreter, owner: Root, name: str, args: Arguments, here: Here
) -> Value:
    if name in ("encode", "decode"):
        run_codec(run, 0, args, here)
    if (handed := _hand_over(run, owner, name, args, here)) is not None:
        return handed
    if name in _LOOKING_UP:
        watch_missing(run, frozenset([owner]), here)
    elif name in _LOOKING_UP_IN_ARGUMENTS or facts_about(owner) is not None:
        watch_missing(run, find_operands(run, args.all()), here)
    if isinstance(owner, Plain):
        return _call_method_of_plain(run, owner, name, args, here)
    if isinstance(owner, SharedPart) and owner.text == A_CLASS:
        escape(run, args.all(), here)  # its object is an argument
    facts = facts_about(owner)
    known = facts is not None and facts.knows(name)  # better than what is only trusted
    if not known and _is_trusted(run, owner):
        given = Arguments([*args.positional, frozenset([owner])], args.keywords)
        given.rest = args.rest
        return call_opaque(run, given, here)
    if facts is not None:
        method = Method(owner, name)
        return _call_known_method(run, facts, method, args, here)
    if name == "partition" and _is_given_text(args):
        name = "rpartition"  # an array would fail: it expects numbers
    is_changing = name in CHANGING_METHODS
    if not is_changing and not (name in PURE_METHODS and _may_have(owner, name)):
        call_arguments(run, args, here)
        escape(run, args.all() | {owner}, here)
        return _note_unknown_method(run, name, here)
    made = call_arguments(run, args, here, _find_called(name, args))
    compared = made if name == "sort" else NOTHING
    key = find_reachable(run, args.all()) if name in _BY_KEY else NOTHING
    run_operators(run, args.all() | compared | {owner}, here, key | PLAIN)
    watch_lookup(run, owner, name, args, here)
    watch_method(run, owner, name, args, here)
    if _may_be_array(owner, run.universe):
        written = arguments_written_by_method(name, args)
        change(run, written, NOTHING, here)
    if isinstance(owner, Fresh) and owner.type in TABLES and name in _GIVES_VALUES:
        return _look_up_in_table(run, owner, name, args, here)
    self_and_parts = look_inside(run, frozenset([owner])) | args.all() | made
    if is_changing:
        stored = args.all()
        if name in _TAKES_ELEMENTS:
            stored = take_in(run, args, here)
        elif name not in _TAKES_WHOLE:
            stored |= look_inside(run, stored)
        change(run, frozenset([owner]), stored, here)
        return self_and_parts | PLAIN
    if name in PLAIN_METHODS:
        return _elements_by_item(run, owner, name, here) | _plain_result(owner, name)
    if isinstance(owner, Existing) and is_scalar_type(owner.obj):
        return frozenset([Plain(owner.obj)])  # datetime.strptime and the like
    if name == "_replace" and class_of(owner) is not None:
        return _replace(run, owner, args, here)
    if name == "_make":
        of_class = isinstance(owner, Existing) and isinstance(owner.obj, type)
        kind = owner.obj if of_class else class_of(owner)  # type: ignore[union-attr]
        return make_holding(run, kind, list_elements(run, args.all(), here), here)
    if name == "from_iterable":  # chain.from_iterable: the elements of the elements
        self_and_parts = list_elements(run, args.all(), here)
        self_and_parts = list_elements(run, self_and_parts, here)
        return make_holding(run, itertools.chain, self_and_parts, here)
    return _find_result(run, Method(owner, name), args, self_and_parts, here)


def _hand_over(
    run: AbstractInterpreter, owner: Root, name: str, args: Arguments, here: Here
) -> Value | None:
    """Give an exception its arguments, or a generator what is sent to it."""
    match owner:
        case Fresh(site, types.GeneratorType) if name == "send":
            run.heap.put(site, SENT, args.all())
            change(run, frozenset([owner]), NOTHING, here)
            return run.heap.elements(site)
        case Fresh(site, type() as kind) if name == "__init__":
            if issubclass(kind, BaseException):
                run.heap.put(site, ELEMENTS, args.all())
                return PLAIN
    return None


def _look_up_in_table(
    run: AbstractInterpreter, owner: Fresh, name: str, args: Arguments, here: Here
) -> Value:
    """Return a table's entry under a key, or the default."""
    others = join([*args.positional[1:], *args.keywords.values(), args.rest])
    if name == "setdefault":
        run.heap.put(owner.site, KEYS, join(args.positional[:1]))
    if name != "get":
        stored = others if name == "setdefault" else NOTHING
        change(run, frozenset([owner]), stored, here)
    return run.heap.values(owner.site) | others | {Plain(type(None))}


def run_codec(
    run: AbstractInterpreter, first: int, args: Arguments, here: Here
) -> None:
    """Run the program's codecs and codec error handlers.

    `first` is the position of the encoding; the error handler follows it.
    """
    if not isinstance(here.step, ir.Call) or len(args.all()) == 0:
        return
    for place, (name, find, find_all) in enumerate(_REGISTERED, first):
        given = [
            each.value
            for index, each in enumerate(here.step.arguments)
            if each.name == name or (index == place and not each.name)
        ]
        for register in given:
            made = here.frame.code.maker_of(register)
            found: Iterable[Any] | None = ()
            if isinstance(made, ir.Const) and type(made.value) is str:
                with contextlib.suppress(LookupError):
                    found = find(made.value)
            else:
                found = find_all()
            if found is None:
                note_unknown(run, f"{here.text} may run any {name}", here)
                continue
            for function in filter(_may_be_users, found):
                callee = read_existing(run, function, name, here)
                error = make_at(run, (here.step, "error"), LibraryObject)
                run.call(callee, Arguments(rest=PLAIN | {error}), here)


def _is_given_text(args: Arguments) -> bool:
    """Tell whether a method is given exactly one argument, certainly text or bytes."""
    return (
        len(args.positional) == 1
        and not args.keywords
        and not args.rest
        and bool(args.positional[0])
        and all(
            isinstance(root, Plain) and root.type in (str, bytes)
            for root in args.positional[0]
        )
    )


def _find_codec(name: str) -> tuple[Any, ...]:
    """Return the functions of an encoding."""
    found = codecs.lookup(name)
    return found.encode, found.decode


def _find_handler(name: str) -> tuple[Any, ...]:
    """Return the codec error handler under a name."""
    return (codecs.lookup_error(name),)


def _find_codecs() -> tuple[Any, ...] | None:
    """Return nothing if only Python and libraries supply encodings; None otherwise."""
    return None if _SEARCHES is None or any(map(_may_be_users, _SEARCHES)) else ()


def _find_handlers() -> Iterable[Any] | None:
    """Return all codec error handlers of this process, if they can be found."""
    return None if HANDLERS is None else [*HANDLERS.values()]


def _find_registry(member: Any, kind: type[dict[str, Any] | list[Any]]) -> Any:
    """Return the interpreter's own table of what programs register, by a member of it.

    Python has no function that lists it; the dictionaries of modules are left out.
    """
    found = [
        each
        for each in gc.get_referrers(member)
        if type(each) is kind and "__name__" not in each
    ]
    return found[0] if len(found) == 1 else None


# Looked for at once: a program may have its objects left out of later searches.
_SEARCHES = _find_registry(encodings.search_function, list)
HANDLERS = _find_registry(codecs.lookup_error("strict"), dict)


def _may_be_users(function: Any) -> bool:
    """Tell whether a registered function may run code of the program.

    >>> _may_be_users(codecs.lookup("cp1252").encode), _may_be_users(codecs.strict_errors)
    (False, False)
    """
    if isinstance(function, MethodType):
        function = function.__func__
    if isinstance(function, FunctionType):
        return is_users_code(function.__code__)
    kind = function if isinstance(function, type) else type(function)
    return kind is functools.partial or is_users_class(kind)


_REGISTERED: tuple[
    tuple[str, Callable[[str], tuple[Any, ...]], Callable[[], Iterable[Any] | None]],
    ...,
] = (
    ("encoding", _find_codec, _find_codecs),
    ("errors", _find_handler, _find_handlers),
)


def write_log(run: AbstractInterpreter, args: Arguments, here: Here) -> Value:
    """Write to a log: not part of a result, unless the program handles logs."""
    own = filter(handles_logs, run.universe.classes)
    handler = next(own, None) or next(filter(_may_be_users, find_log_parts()), None)
    if handler is not None:
        name = getattr(handler, "__name__", type(handler).__name__)
        text = f"{here.callee} may run {name}, which handles logs"
        return note_unknown(run, text, here)
    run_operators(run, args.all(), here)
    return make_holding(run, logging.Logger, NOTHING, here)


def call_opaque(run: AbstractInterpreter, args: Arguments, here: Here) -> Value:
    """Return the possible results of a call that must be trusted to be pure."""
    call_arguments(run, args, here)
    fresh = make_fresh(run, here)
    run.opaque_sites.add(fresh.site)
    held = find_reachable(run, args.all())
    if any(isinstance(root, InputPart) for root in held):
        held |= {InputPart(object)}  # it may read attributes that are not fields
    run.heap.put(fresh.site, ELEMENTS, held)
    return frozenset([fresh]) | held


def _is_trusted(run: AbstractInterpreter, owner: Root) -> bool:
    """Tell whether an object belongs to a trusted package or was made by one."""
    match owner:
        case Fresh(site) if site in run.opaque_sites:
            return True
        case Fresh(_, type() as kind) | InputPart(type() as kind):
            return not is_users_class(kind) and is_trusted(kind.__module__)
        case Existing(obj=obj) if not isinstance(obj, type):
            return not is_users_class(type(obj)) and is_trusted(type(obj).__module__)
    return False


def _call_known_method(
    run: AbstractInterpreter,
    facts: Facts,
    method: Method,
    args: Arguments,
    here: Here,
) -> Value:
    """Call a method of a class with known methods."""
    owner, name = method.owner, method.name
    if not facts.knows(name):
        call_arguments(run, args, here)
        escape(run, args.all() | {owner}, here)
        return _note_unknown_method(run, name, here)
    if type_of(owner) in LOGGERS:
        return write_log(run, args, here)
    held = look_inside(run, frozenset([owner])) if facts.holds else NOTHING
    passed = Arguments([*args.positional, held], args.keywords, args.rest)
    made = call_arguments(run, passed, here)
    run_operators(run, args.all() | held, here)
    watch_iteration(run, args.all(), here, given="known")
    change(run, args.keywords.get("out", NOTHING), NOTHING, here)
    given = args.all() | look_inside(run, args.all())
    if facts.open and name not in _GIVES_ELEMENTS:
        given = find_absorbed(given)
    if name in facts.takes:
        change(run, args.all(), NOTHING, here)
    if name in facts.changes or name in facts.takes or "inplace" in args.keywords:
        changed = frozenset([owner]) | (held if facts.through else NOTHING)
        change(run, changed, NOTHING if facts.through else given, here)
    if name in facts.gives:
        return PLAIN
    kind = type_of(owner) if facts.open else LibraryObject
    parts = find_reachable(run, held | given)
    flat = all(_is_of_library(run, each) for each in parts)
    fresh = make_fresh(run, here, kind if flat or facts.open else None)
    # a table absorbs its arguments, and copies lists
    kept = frozenset(root for root in held if not _is_copied(run, root))
    held |= given | made | PLAIN
    run.heap.put(fresh.site, ELEMENTS, held | ({fresh} if facts.open else NOTHING))
    if facts.open and name not in _GIVES_ELEMENTS:
        return frozenset([fresh]) | kept | made | PLAIN
    return frozenset([fresh]) | held


def _is_of_library(run: AbstractInterpreter, root: Root) -> bool:
    """Tell whether a value is plain, an object of a library made here, or a container
    of such.
    """
    match root:
        case Plain():
            return True
        case Fresh(_, kind):
            return isinstance(kind, type) and not is_users_class(kind)
        case Existing(obj=obj) if isinstance(obj, CONTAINERS):
            kinds = run.universe.kinds_within(obj)
        case SharedPart(kinds=kinds):
            pass
        case _:
            return False
    return kinds is not None and not any(map(is_users_class, kinds))


def _is_copied(run: AbstractInterpreter, root: Root) -> bool:
    """Tell whether a table built from a value shares nothing with it."""
    classes = classes_of(root, run.universe)
    return classes is not None and all(
        each in _COPIED or is_scalar_type(each) for each in classes
    )


def find_absorbed(given: Value) -> Value:
    """Return what a table keeps of its arguments: not the lists it is built from."""
    return frozenset(
        root for root in given if not (isinstance(root, Fresh) and root.type in _COPIED)
    )


def _note_unknown_method(run: AbstractInterpreter, name: str, here: Here) -> Value:
    if name in CLOCKS:
        at = here.place
        run.found.effect("impure", f"{here.text} reads a clock", at)
        return MADE
    text = f"calls the method {name}, of which nothing is known{ADVICE}"
    return note_unknown_package(run, text, NOTHING, here)


def take_in(run: AbstractInterpreter, args: Arguments, here: Here) -> Value:
    """Return the elements, or pairs of them, that a container takes from others."""
    given = join(args.positional) | args.rest
    sources = frozenset(root for root in given if not is_callable(root))
    names = IMPLICIT["unpack mapping"]
    for root in sources:
        keys = run_special(run, root, names, here, Arguments())
        list_elements(run, keys, here)
    once = list_values(run, sources, here)
    named = join(args.keywords.values()) | args.rest | PLAIN
    return once | list_elements(run, once, here) | named


def _replace(
    run: AbstractInterpreter, owner: Root, args: Arguments, here: Here
) -> Value:
    """Return a record with some fields replaced."""
    made = make_fresh(run, here, class_of(owner))
    for name in field_names(class_of(owner)) or ():
        old = read_attribute(run, frozenset([owner]), name, here)
        held = args.keywords.get(name, old) | args.rest
        run.heap.put(made.site, name, held)
        run.heap.put(made.site, ELEMENTS, held)
    return frozenset([made])


def make_holding(run: AbstractInterpreter, kind: Any, held: Value, here: Here) -> Value:
    """Return a new object with the given contents."""
    fresh = make_fresh(run, here, kind)
    run.heap.put(fresh.site, ELEMENTS, held)
    return frozenset([fresh])


def _find_result(
    run: AbstractInterpreter, method: Method, args: Arguments, parts: Value, here: Here
) -> Value:
    owner, name = method.owner, method.name
    known = classes_of(owner, run.universe)
    kind: type | None = dict if name == "_asdict" else None
    if isinstance(owner, Existing) and name == "fromkeys":
        kind = owner.obj
    if known is not None and not any(map(is_users_class, known)):
        if name == "get" and all(issubclass(each, dict) for each in known):
            return parts | {Plain(type(None))}
        if name in _GIVES_PARTS:
            return parts | PLAIN
        kind = kind or _find_kind_of_result(run, known, name, parts)
    fresh = make_fresh(run, here, kind)
    held = _texts(owner) if name in _GIVES_TEXTS else parts
    if name in _SAME_KIND:
        remember_order(run, args.all() | {owner}, fresh.site)
    is_table = isinstance(owner, Fresh) and owner.type in TABLES
    values = run.heap.values(owner.site) if is_table else held  # type: ignore[union-attr]
    if kind is _ITEMS or name == "most_common":
        pair = make_at(run, (here.step, "pair"), tuple)
        run.heap.put(pair.site, "[0]", held | PLAIN)
        run.heap.put(pair.site, "[1]", values | PLAIN)
        held = frozenset([pair])
    elif kind is _VALUES:
        held = values
    run.heap.put(fresh.site, ELEMENTS, held)
    run.heap.put(fresh.site, "mapping", frozenset([owner] if name in _VIEWS else ()))
    if (name in _ALWAYS_FRESH and not _may_leave(name, args)) or kind is _VALUES:
        return frozenset([fresh])
    if isinstance(owner, Fresh):
        return frozenset([fresh]) | parts
    return frozenset([fresh, owner]) | parts


def _may_leave(name: str, args: Arguments) -> bool:
    """Tell whether `astype` is told not to copy data that has the type already."""
    told = "copy" in args.keywords or args.rest or len(args.positional) > 1
    return name == "astype" and bool(told)


def _find_kind_of_result(
    run: AbstractInterpreter, owners: frozenset[type], name: str, parts: Value
) -> type | None:
    """Return the class of the result of a method of built-in types."""
    if name in _SAME_KIND and len(owners) == 1:
        return next(iter(owners))
    if np.ndarray in owners:
        return np.ndarray
    flat = all(isinstance(root, Plain) for root in find_reachable(run, parts))
    return _KINDS.get(name, LibraryObject if flat else None)


def _call_method_of_plain(
    run: AbstractInterpreter, owner: Plain, name: str, args: Arguments, here: Here
) -> Value:
    call_arguments(run, args, here, _find_called(name, args))
    run_operators(run, args.all(), here, PLAIN)
    watch_method(run, owner, name, args, here)
    if name in ("format", "format_map"):  # "{0.attribute}" reads attributes
        for root in find_operands(run, args.all()):
            classes = classes_of(root, run.universe)
            for getter in run.universe.properties(classes):
                callee: Value = frozenset([BoundMethod(root, getter)])
                run.call(callee, Arguments(), here)
    known = name in PURE_METHODS or name in VALUE_METHODS
    if not known and owner.type is not None:
        known = owner.type in VALUES_ONLY and name not in CLOCKS
    if owner.type in (pathlib.Path, pathlib.PosixPath) and name == "replace":
        known = False  # it renames a file
    if not known:
        escape(run, args.all(), here)
        return _note_unknown_method(run, name, here)
    if name not in _KINDS:
        return _plain_result(owner, name)
    fresh = make_fresh(run, here, _KINDS[name])
    run.heap.put(fresh.site, ELEMENTS, _texts(owner))
    return frozenset([fresh]) | PLAIN


def call_arguments(
    run: AbstractInterpreter, args: Arguments, here: Here, called: Value = NOTHING
) -> Value:
    """Call the functions among the arguments, as many a method does.

    They may receive anything reachable from the other arguments. The arguments in
    `called` are called in any case.
    """
    results: list[Value] = [NOTHING]
    for root in called | frozenset(filter(is_callable, args.all())):
        given = Arguments(rest=find_reachable(run, args.all() - {root}) | PLAIN)
        results.append(call_back(run, root, given, here))
    return join(results)


def call_back(
    run: AbstractInterpreter, root: Root, given: Arguments, here: Here
) -> Value:
    """Call a function that another one was given, unless that is under way."""
    under_way = (here.step, root)
    if under_way in run.passed_on or isinstance(root, Plain):
        return NOTHING
    run.passed_on.add(under_way)
    made = run.call(frozenset([root]), given, here)
    run.passed_on.discard(under_way)
    return made


def make_at(run: AbstractInterpreter, place: Any, kind: Any) -> Fresh:
    """Return the object made at a place, an instruction or a part of one."""
    return Fresh(run.heap.site((place, kind)), kind)


def make_fresh(run: AbstractInterpreter, here: Here, kind: Any = None) -> Fresh:
    """Return the object made by an instruction."""
    return make_at(run, here.step, kind)


_COPIED = (list, tuple, dict, range)
_GIVES_ELEMENTS = ("get", "item", "max", "min", "pop", "squeeze", "mode", "agg", "at")
LOGGERS: tuple[type, ...] = (logging.Logger, logging.RootLogger)


def type_of(root: Root) -> type | None:
    """Return the class of a value, if more than its annotation is known."""
    match root:
        case Fresh(_, type() as kind) | InputPart(type() as kind):
            return kind
        case Existing(obj=obj):
            return type(obj)
        case SharedPart(kinds=kinds) if kinds is not None and len(kinds) == 1:
            return next(iter(kinds))
    return None


def _texts(owner: Root) -> Value:
    """Return the parts of a text: texts, or bytes where that may be its type."""
    if isinstance(owner, Plain) and owner.type in (str, bytes):
        return frozenset([Plain(owner.type)])
    return frozenset([Plain(str), Plain(bytes), Plain(type(None))])


def _elements_by_item(
    run: AbstractInterpreter, owner: Root, name: str, here: Here
) -> Value:
    """Return what `item` may give: an array may hold objects."""
    whole: Value = frozenset([owner] if name == "item" else ())
    return list_elements(run, whole, here) - whole


def _plain_result(owner: Root, name: str) -> Value:
    """Return the number or text that a method gives, with its type if certain."""
    of_text = isinstance(owner, Plain) and owner.type in (str, bytes)
    if of_text and name in _GIVES_SAME:
        return frozenset([Plain(owner.type)])  # type: ignore[union-attr]
    if of_text and name in ("find", "rfind", "index", "rindex", "count"):
        return frozenset([Plain(int)])
    if name in _GIVES_SAME:
        return frozenset([Plain(str), Plain(bytes)])
    if name == "find" and not isinstance(owner, Plain | Existing):
        return frozenset([Plain(int), owner])  # of an XML element: a part of it
    return frozenset([Plain(_RESULTS.get(name))])


def _find_called(name: str, args: Arguments) -> Value:
    """Return the arguments that a method calls, such as a key."""
    if name in ("sub", "subn") and args.positional:
        return args.positional[0]
    return args.keywords.get("key", NOTHING)


def _may_have(owner: Root, name: str) -> bool:
    """Tell whether a captured object has a type with known methods."""
    if not isinstance(owner, Existing):
        return True
    if isinstance(owner.obj, type):
        return is_pure(owner.obj) or name in ("_make", "fromkeys")
    return isinstance(owner.obj, (*CONTAINERS, *VALUES_ONLY))


def _may_be_array(owner: Root, universe: Universe) -> bool:
    """Tell whether a value may be an array or a package's equivalent."""
    classes = classes_of(owner, universe)
    own = {list, dict, set, frozenset, tuple, str, bytes, bytearray}
    return classes is None or not classes <= own


def is_callable(root: Root) -> bool:  # noqa: PLR0911 - one return for each kind
    match root:
        case Closure() | BoundMethod() | Method():
            return True
        case Fresh(_, kind) if kind is functools.partial:
            return True
        case Fresh(_, type() as kind) | InputPart(type() as kind):
            return bool(is_users_class(kind) and methods_run_by(kind, "__call__"))
        case SharedPart(kinds=kinds):
            return any(methods_run_by(kind, "__call__") for kind in kinds or ())
        case Existing(obj=obj):
            if isinstance(obj, CALLABLES):
                return True
            return class_attribute(type(obj), "__call__") is not MISSING
    return False
