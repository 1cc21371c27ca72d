"""Calls into builtins or packages: their effects and results."""

from __future__ import annotations

import ast
import codecs
import collections
import copy
import csv
import dataclasses
import decimal
import functools
import hashlib
import heapq
import io
import itertools
import json
import math
import operator
import pickle
import pprint
import re
import sys
import time
import tomllib
import types
import xml.etree.ElementTree as ET
from abc import ABCMeta
from collections.abc import Iterator, Mapping
from functools import partial
from inspect import get_annotations
from typing import Any, Final

import numpy as np

from anabranch.graph.declarations import declaration_of, is_trusted
from anabranch.operators.custom import Operator
from anabranch.python import ir
from anabranch.python.attributes import (
    assign_attribute,
    change,
    classes_as_values,
    read_attribute,
    read_variables,
)
from anabranch.python.classes import class_of, classes_of
from anabranch.python.implicit import IMPLICIT, IN_PLACE, READ_HOOKS
from anabranch.python.known import (
    CONTEXTS,
    ELEMENT,
    PARSE_XML,
    arguments_written_by,
    changes_first_argument,
    changes_settings,
    facts_about,
    find_called_arguments,
    find_seeded_generator,
    generator_of_context,
    gives_view,
    implementations,
    is_function_of_pandas,
    is_logging,
    is_of_given_time,
    is_pure,
    is_reflective,
    leaves_memory_unset,
    looks_at_results,
    module_of,
    resource_of,
    why_impure,
)
from anabranch.python.methods import (
    ADVICE,
    call_arguments,
    call_back,
    call_opaque,
    find_absorbed,
    is_callable,
    make_at,
    make_fresh,
    make_holding,
    run_codec,
    take_in,
    write_log,
)
from anabranch.python.objects import (
    CALLABLES,
    CONTAINERS,
    MISSING,
    class_attribute,
    field_names,
    function_in,
    instance_attribute,
    is_instance_of_users,
    is_scalar_type,
    is_users_class,
    is_users_code,
    reducer_of,
)
from anabranch.python.reach import (
    escape,
    find_candidates,
    find_operands,
    find_reachable,
    list_elements,
    look_inside,
    note_unknown,
    note_unknown_code,
    note_unknown_package,
    read_existing,
    remember_order,
    run_builtin,
    run_operators,
    run_special,
    watch_call,
    watch_identity,
    watch_iteration,
    watch_missing,
)
from anabranch.python.source import gives_tuple, node_of
from anabranch.python.values import (
    ANY_NAME,
    ELEMENTS,
    LOST,
    MADE,
    NOTHING,
    PLAIN,
    AbstractInterpreter,
    Arguments,
    BoundMethod,
    Closure,
    Existing,
    Frame,
    Fresh,
    Here,
    LibraryObject,
    Method,
    Parent,
    Plain,
    Root,
    SharedPart,
    Value,
    join,
)

_PLAIN_RESULTS: dict[int, type | None] = {
    **{id(each): each for each in (int, float, complex, bool, str, bytes)},
    **{id(each): str for each in (repr, ascii, format, chr, bin, oct, hex)},
    **{id(each): int for each in (len, ord)},
    **{id(each): bool for each in (isinstance, issubclass, callable, all, any)},
    **{id(each): str for each in (json.dumps, re.sub, re.escape, pprint.pformat)},
    **{id(each): bytes for each in (hashlib.pbkdf2_hmac, hashlib.scrypt)},
    id(re.compile): re.Pattern,
    id(ET.tostring): None,
    **{id(each): str for each in (time.strftime, time.ctime, time.asctime)},
    id(time.mktime): float,
}
_KINDS: dict[int, type] = {
    **{id(each): list for each in (heapq.nlargest, heapq.nsmallest)},
    **{id(each): list for each in (sorted, re.findall, re.split, re.finditer)},
    id(iter): type(iter([])),
    id(decimal.localcontext): type(decimal.localcontext()),
    **{id(each): time.struct_time for each in (time.gmtime, time.localtime)},
    **{id(each): re.Match for each in (re.match, re.search, re.fullmatch)},
    **{
        id(getattr(hashlib, name)): type(hashlib.sha256())
        for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "new")
    },
}
# Their results contain the elements of their arguments, not the arguments.
_SEQUENCES = frozenset(
    map(
        id,
        (
            *(list, tuple, set, frozenset, sorted, reversed, filter, iter),
            *(heapq.nlargest, heapq.nsmallest),
            *(collections.deque, itertools.chain, itertools.islice),
            *(itertools.takewhile, itertools.dropwhile, itertools.filterfalse),
        ),
    )
)
_MAPPINGS = frozenset(
    map(
        id,
        (
            *(dict, collections.OrderedDict, collections.defaultdict),
            *(collections.Counter, collections.ChainMap),
        ),
    )
)
_PAIRING = frozenset(
    map(
        id,
        (
            *(zip, enumerate, itertools.pairwise, itertools.product),
            *(itertools.zip_longest, itertools.combinations, itertools.permutations),
            itertools.combinations_with_replacement,
        ),
    )
)
_NUMERIC = frozenset(map(id, (sum, abs, round, pow)))
_GIVES_WHAT_IT_RUNS = _NUMERIC | frozenset(
    map(id, (reversed, divmod, math.floor, math.ceil, math.trunc))
)
_NUMERIC_MODULES = ("math", "cmath", "statistics")
_FRESH_MODULES = frozenset(
    [
        *("math", "json", "re", "statistics", "collections", "struct", "itertools"),
        *("contextlib", "hashlib", "_hashlib", "hmac"),
    ]
)
_GIVES_FRESH = frozenset(
    map(id, (dict, map, zip, enumerate, range, slice, sum, abs, round, divmod, pow))
)
_NEVER_KEEPS = frozenset(map(id, (map, filter, sorted, sum, collections.defaultdict)))


def find_result(  # noqa: PLR0911 - one return for each kind of result
    run: AbstractInterpreter, obj: Any, args: Arguments, made: Value, here: Here
) -> Value:
    """Return the result of a pure function; `made` is what its callbacks return."""
    if id(obj) in _PLAIN_RESULTS:
        return frozenset([Plain(_PLAIN_RESULTS[id(obj)])])
    if is_scalar_type(obj):
        return frozenset([Plain(obj)])
    if obj is min or obj is max:
        return _choose_extreme(run, args, here)
    if (obj is json.loads and "cls" not in args.keywords) or any(
        obj is each for each in _DOCUMENTS
    ):
        return _make_document(run, made, here)
    if obj is copy.deepcopy:
        return _copy_deeply(run, args, here)
    if obj is copy.copy and (made_here := _copy_shallowly(run, args, here)):
        return made_here
    if obj is itertools.tee:
        branch = make_at(run, (here.step, "branch"), LibraryObject)
        held = list_elements(run, args.all(), here)
        run.heap.put(branch.site, ELEMENTS, held)
        return make_holding(run, tuple, frozenset([branch]), here)
    if obj is ELEMENT or obj is PARSE_XML:
        tree = make_at(run, (here.step, ELEMENT), ELEMENT)
        run.heap.put(tree.site, ELEMENTS, args.all() | {tree, Plain()})
        return frozenset([tree])
    numeric = id(obj) in _NUMERIC or module_of(obj) in _NUMERIC_MODULES
    if numeric and all(isinstance(root, Plain) for root in _find_leaves(run, args)):
        return frozenset([number(_find_leaves(run, args))])
    return _make_object(run, obj, args, made, here)


def _find_leaves(run: AbstractInterpreter, args: Arguments) -> Value:
    """Return the numbers that a function is given, directly or in a container."""
    given = args.all()
    containers = frozenset(root for root in given if not isinstance(root, Plain))
    return (given - containers) | look_inside(run, containers)


def _is_library_object(run: AbstractInterpreter, value: Value) -> bool:
    """Tell whether no user instance is reachable from a value."""
    found = [classes_of(root, run.universe) for root in find_operands(run, value)]
    return all(
        each is not None and not any(map(is_users_class, each)) for each in found
    )


def _make_object(
    run: AbstractInterpreter,
    obj: Any,
    args: Arguments,
    made: Value,
    here: Here,
) -> Value:
    """Return an object that a function made, with its possible contents."""
    is_numpy = module_of(obj).startswith("numpy")
    given = _find_given(obj, args)
    unknown = LibraryObject if _is_library_object(run, given) else None
    fresh = make_fresh(run, here, _find_kind(obj, unknown))
    held = _find_contents(run, obj, args, made, here)
    run.heap.put(fresh.site, ELEMENTS, held)
    facts = facts_about(fresh)
    if facts is not None and facts.open:  # a table column is like a table
        run.heap.put(fresh.site, ELEMENTS, frozenset([fresh]))
    copies = (isinstance(obj, type) or is_numpy) and not (
        gives_view(obj) or "copy" in args.keywords
    )
    if copies or id(obj) in _GIVES_FRESH or obj is sorted:
        return frozenset([fresh])
    if obj is iter and len(args.positional) == 1:
        return frozenset(r for r in given if _may_be_iterator(run, r)) | {fresh}
    if module_of(obj) in _FRESH_MODULES:
        return frozenset([fresh])
    return frozenset([fresh]) | held


def _may_be_iterator(run: AbstractInterpreter, root: Root) -> bool:
    """Tell whether `iter` may give a value itself, which `next` then changes."""
    classes = classes_of(root, run.universe)
    return classes is None or not all(
        each in _ITERABLES or is_scalar_type(each) for each in classes
    )


def _find_given(obj: Any, args: Arguments) -> Value:
    """Return the arguments of a function that its result may hold."""
    given = args.all()
    if id(obj) in _NEVER_KEEPS or module_of(obj).startswith(("itertools", "numpy")):
        return frozenset(root for root in given if not is_callable(root))
    return given


def _find_contents(  # noqa: PLR0911 - one return for each kind of function
    run: AbstractInterpreter, obj: Any, args: Arguments, made: Value, here: Here
) -> Value:
    """Return what the result of a function may hold."""
    given = _find_given(obj, args)
    if obj is map or (obj is iter and len(args.positional) > 1):
        return made
    if obj is itertools.groupby:
        return _make_groups(run, given, made, here)
    if id(obj) in _SEQUENCES:
        held = join(list_elements(run, v, here) for v in args.positional)
        return held | args.rest | list_elements(run, args.rest, here)
    if id(obj) in _PAIRING:
        return _make_pairs(run, obj, args, here)
    if id(obj) in _MAPPINGS:
        kept = given if obj is collections.ChainMap else NOTHING  # maps, as such
        return take_in(run, args, here) | made | kept
    if module_of(obj).startswith("numpy") and _is_numeric(
        args.keywords.get("dtype", NOTHING)
    ):
        return PLAIN | (given if gives_view(obj) else NOTHING)
    if is_function_of_pandas(obj):
        return find_absorbed(find_reachable(run, given | made))
    return given | made | look_inside(run, given | made)


def _find_kind(obj: Any, unknown: type | None) -> type | None:
    """Return the class of a function's result; `unknown` if it is not listed."""
    if isinstance(obj, type):
        return obj
    if module_of(obj).startswith("numpy"):
        return np.ndarray
    if is_function_of_pandas(obj):  # its methods are known, whatever it is
        return sys.modules["pandas"].DataFrame  # type: ignore[no-any-return]
    return _KINDS.get(id(obj), unknown)


def _make_pairs(
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> Value:
    """Return the tuples that `zip` or `enumerate` yields."""
    pair = make_fresh(run, here, tuple)
    columns = [list_elements(run, v, here) for v in args.positional]
    if obj is enumerate:
        columns = [frozenset([Plain(int)]), *columns[:1]]
    exact = obj in (zip, enumerate) and not args.rest
    for index, column in enumerate(columns):
        where = f"[{index}]" if exact else ELEMENTS
        run.heap.put(pair.site, where, column)
    rest = args.rest | list_elements(run, args.rest, here)
    if obj is itertools.zip_longest:
        rest |= join(args.keywords.values())
    run.heap.put(pair.site, ELEMENTS, rest)
    return frozenset([pair])


_GROUP: Final = type(next(itertools.groupby([0]))[1])


def _make_groups(
    run: AbstractInterpreter, given: Value, made: Value, here: Here
) -> Value:
    """Return the pairs that `groupby` yields; the next pair ends the group before."""
    pair, group = make_at(run, here.step, tuple), make_at(run, (here.step, 1), _GROUP)
    elements = list_elements(run, given, here)
    run.heap.put(pair.site, "[0]", made | elements)
    run.heap.put(pair.site, "[1]", frozenset([group]))
    run.heap.put(group.site, ELEMENTS, elements)
    run.changed_sites.add(group.site)
    return frozenset([pair])


def _choose_extreme(run: AbstractInterpreter, args: Arguments, here: Here) -> Value:
    """Return the values that `min` or `max` chooses from."""
    found = args.keywords.get("default", frozenset()) | args.rest
    found |= list_elements(run, args.rest, here)
    if len(args.positional) == 1:
        return found | list_elements(run, args.positional[0], here)
    return found | join(args.positional)


def _copy_shallowly(run: AbstractInterpreter, args: Arguments, here: Here) -> Value:
    """Return a shallow copy of user instances that have no copy method of their own."""
    found: set[Root] = set()
    for root in args.positional[0] if len(args.positional) == 1 else NOTHING:
        cls = class_of(root)
        if cls is None or not isinstance(root, Existing) or _copies_itself(cls):
            return NOTHING
        made = make_at(run, (here.step, cls), cls)
        for name in getattr(root.obj, "__dict__", ()):
            held = read_attribute(run, frozenset([root]), name, here)
            run.heap.put(made.site, name, held)
        found.add(made)
    return frozenset(found)


def _copy_deeply(run: AbstractInterpreter, args: Arguments, here: Here) -> Value:
    """Return a copy that shares nothing with what was copied."""
    given = join(args.positional[:1]) | args.rest | args.keywords.get("x", NOTHING)
    kinds: set[type | None] = set()
    kept: set[Root] = set()
    for root in find_reachable(run, given):
        if isinstance(root, Plain) or is_callable(root):
            kept.add(root)
            continue
        classes = classes_of(root, run.universe)
        kinds |= {None} if classes is None else classes
    kept |= _run_own_copying(run, given, here)
    made = frozenset(make_at(run, (here.step, kind), kind) for kind in kinds)
    for each in made:
        run.heap.put(each.site, ELEMENTS, made | kept)
        if each.type in (set, frozenset):
            remember_order(run, given, each.site)
    return made | kept


def _run_own_copying(run: AbstractInterpreter, given: Value, here: Here) -> Value:
    """Return what the methods by which user instances copy themselves give."""
    memo = make_holding(run, dict, NOTHING, here)
    hooks = {
        IMPLICIT["hash"]: Arguments(rest=find_reachable(run, given) | PLAIN),
        IMPLICIT["pickle"]: Arguments(rest=find_reachable(run, given) | PLAIN),
        ("__deepcopy__",): Arguments([memo]),
    }
    made = NOTHING
    for root in find_operands(run, given):
        for names, args in hooks.items():
            ran = run_special(run, root, names, here, args)
            made |= ran if names != IMPLICIT["hash"] else NOTHING
    made = find_reachable(run, made)
    functions = frozenset(root for root in made if is_callable(root))
    rebuilt = call_arguments(run, Arguments(rest=made), here, functions)
    return made | find_reachable(run, rebuilt)


def _make_document(run: AbstractInterpreter, hooked: Value, here: Here) -> Value:
    """Return a parsed JSON text: nested lists and dictionaries.

    The results of hooks, `hooked`, may be anywhere in it.
    """
    made = frozenset([make_at(run, (here.step, kind), kind) for kind in (dict, list)])
    for root in made:
        run.heap.put(root.site, ELEMENTS, made | hooked | PLAIN)
    return made | hooked | PLAIN


def _copies_itself(cls: type) -> bool:
    """Tell whether copying an instance runs code or leaves attributes out."""
    hooks = ("__copy__", "__getstate__", "__setstate__", "__getnewargs__", "__slots__")
    own = (name for base in cls.__mro__[:-1] for name in vars(base))
    return any(n.startswith("__reduce") or n in hooks for n in own) or issubclass(
        cls, CONTAINERS
    )


def _is_numeric(dtype: Value) -> bool:
    """Tell whether an array of this dtype can hold only numbers."""
    return bool(dtype) and all(
        isinstance(root, Existing)
        and isinstance(root.obj, type)
        and issubclass(root.obj, int | float | complex | np.number | np.bool_)
        for root in dtype
    )


def number(parts: Value) -> Plain:
    """Return the kind of number that arithmetic on the parts gives.

    >>> number(frozenset([Plain(int), Plain(bool)])), number(PLAIN)
    (Plain(type=<class 'int'>), Plain(type=None))
    """
    kinds = {root.type for root in parts if isinstance(root, Plain)}
    if kinds and kinds <= {int, bool}:
        return Plain(int)
    if kinds and kinds <= {int, bool, float}:
        return Plain(float)
    return Plain()


_ITERABLES: Final = (
    *(*CONTAINERS, range, collections.OrderedDict, collections.defaultdict),
    *(collections.Counter, type({}.keys()), type({}.values()), type({}.items())),
)
_TABLES: Final = (csv.reader, csv.writer, csv.DictReader, csv.DictWriter)
_DOCUMENTS: Final = (ast.literal_eval, tomllib.loads)
_RECORD: Final[Any] = collections.namedtuple  # noqa: PYI024 - for those of the user
_OF_ANY_CLASS: Final = (
    "__module__",
    "__qualname__",
    "__doc__",
    "__dict__",
    "__weakref__",
)
GETTERS: Final = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
_METHODS_OF_NUMPY: Final = {"amax": "max", "amin": "min", "around": "round"}
_NEVER_CALLS = frozenset(map(id, (isinstance, issubclass, type, callable, repr, str)))


def call_declared(
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> Value | None:
    own = isinstance(obj, CALLABLES)  # an instance is declared by its class
    state = declaration_of(obj if own else type(obj)).state
    if state == "global":  # followed anyway: others may see its effects
        text = f"calls {here.callee}, which is declared to have state"
        run.found.effect("unknown", text, here.place)
        return None
    if state != "stateless":
        return None
    believed = node_of(obj.__code__) if isinstance(obj, types.FunctionType) else None
    given = call_opaque(run, args, here)
    if believed is None:
        return given
    run.found.believed.add(believed)
    if not gives_tuple(believed):
        return given
    made = make_at(run, (here.step, "tuple"), tuple)
    run.heap.put(made.site, ELEMENTS, given)
    return frozenset([made, Plain(type(None))])


def call_library(  # noqa: C901, PLR0911 - one return for each kind
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> Value:
    change(run, arguments_written_by(obj, args), NOTHING, here)
    if leaves_memory_unset(obj, args):
        text = f"{here.callee} with where= leaves memory as it was; give out="
        run.found.effect("impure", text, here.place)
    if obj is copy.deepcopy:  # its second argument is a table that it fills
        change(run, join(args.positional[1:]), args.all(), here)
    why = run.universe.why_patched(module_of(obj))
    if why is not None:
        return note_unknown(run, f"calls {here.callee}, but {why}", here)
    if changes_settings(obj):
        at = here.place
        text = f"{here.callee} reaches settings that other code runs with"
        run.found.effect("impure", text, at)
        run.found.writes_settings = run.found.writes_settings or at
        return MADE
    if changes_first_argument(obj) and args.positional:
        return _call_changing(run, args, here)
    if is_pure(obj) or is_function_of_pandas(obj) or is_of_given_time(obj, args):
        return _call_pure(run, obj, args, here)
    if is_logging(obj):
        return write_log(run, args, here)
    if (given := _pickle(run, obj, args, here)) is not None:
        return given
    module = module_of(obj)
    if module and is_trusted(module):
        return call_opaque(run, args, here)
    why = why_impure(obj)
    if why is not None:
        return _call_impure(run, obj, why, args, here)
    text = f"calls {here.callee}, of which nothing is known{ADVICE}"
    call_arguments(run, args, here)
    if is_reflective(obj):
        return note_unknown_code(run, text, here)
    if _may_call_back(run, obj, args):
        run.found.calls_anyone = run.found.calls_anyone or here.place
    return note_unknown_package(run, text, args.all(), here)


def _may_call_back(run: AbstractInterpreter, obj: Any, args: Arguments) -> bool:
    """Tell whether a package's function may run methods of the user's classes.

    It may call those of an argument, and of what a decorator has put around a function.
    """
    cells = getattr(obj, "__closure__", None) or ()
    held = [cell.cell_contents for cell in cells if _is_filled(cell)]
    if any(map(is_instance_of_users, held)):
        return True
    found = map(class_of, find_reachable(run, args.all()))
    return any(kind is not None and _has_own_methods(kind) for kind in found)


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _has_own_methods(cls: type) -> bool:
    return any(
        isinstance(function, types.FunctionType) and is_users_code(function.__code__)
        for base in cls.__mro__
        for function in map(function_in, vars(base).values())
    )


class _Pickled:
    """Represents the bytes between `pickle.dumps` and `pickle.loads`."""


def _pickle(
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> Value | None:
    """Return the result of a round trip through `pickle`; None for another call."""
    if obj is pickle.dumps and _is_loaded_at_once(run, args, here):
        return make_holding(run, _Pickled, args.all(), here)
    if obj is pickle.loads and (held := _find_pickled(run, args)):
        return _copy_deeply(run, Arguments([held]), here)
    return None


def _is_loaded_at_once(run: AbstractInterpreter, args: Arguments, here: Here) -> bool:
    """Tell whether only `pickle.loads` sees the bytes of `pickle.dumps`.

    The bytes reveal which objects are identical. Objects defined by the program are
    excluded: they are pickled by name, and a worker may not find it.
    """
    by_name = any(map(is_callable, find_operands(run, args.all())))
    if by_name or not _is_library_object(run, args.all()) or len(args.positional) != 1:
        return False
    for one in ir.walk(here.frame.code.body):
        if isinstance(one, ir.Call) and isinstance(one.at, ast.Call):
            taken = [here.step.at] == one.at.args and not one.at.keywords
            loads = here.frame.registers.get(one.function, NOTHING) if taken else ()
            if loads:
                return all(getattr(r, "obj", None) is pickle.loads for r in loads)
    return False


def _find_pickled(run: AbstractInterpreter, args: Arguments) -> Value:
    """Return the objects in the bytes that are loaded, if all are known."""
    given = args.all()
    known = all(isinstance(r, Fresh) and r.type is _Pickled for r in given)
    return look_inside(run, given) if known else NOTHING


def _call_impure(
    run: AbstractInterpreter, obj: Any, why: str, args: Arguments, here: Here
) -> Value:
    """Call a function that depends on or affects the outside world."""
    at = here.place
    run.found.effect("impure", f"{here.callee} {why}", at)
    call_arguments(run, args, here)
    if obj is hash:
        run_builtin(run, obj, args.all(), here)
    escape(run, args.all(), here)
    if is_reflective(obj):
        run.found.writes_anything = run.found.writes_anything or at
        return LOST
    resource = resource_of(obj)
    if resource is not None:
        run.found.resources.setdefault(resource, at)
    return MADE


def _call_changing(run: AbstractInterpreter, args: Arguments, here: Here) -> Value:
    """Call a function that changes its first argument, such as `heappush`."""
    first = args.positional[0]
    made = call_arguments(run, args, here, args.keywords.get("key", NOTHING))
    run_operators(run, args.all() | made, here)
    for root in first:
        names = (*IMPLICIT["set element"], *IN_PLACE)
        run_special(run, root, names, here, Arguments(rest=args.all()))
    change(run, first, args.all(), here)
    return list_elements(run, first, here) | first | PLAIN


def _call_pure(
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> Value:
    made = NOTHING
    if id(obj) not in _NEVER_CALLS:
        called = find_called_arguments(obj, args)
        if id(obj) in _HANDS_ON and not args.rest:
            made = _hand_on_elements(run, obj, called, args, here)
        else:
            made = call_arguments(run, args, here, called)
    if obj is isinstance or obj is issubclass:
        classes = join(args.positional[1:]) | args.rest
        check_class(run, classes, join(args.positional[:1]) | args.rest, here)
    looked_at = made if looks_at_results(obj) else NOTHING
    ran = _run_methods(run, obj, args.all() | looked_at, here)
    if module_of(obj) == "dataclasses" or obj is getattr(copy, "replace", None):
        _take_apart(run, obj, args, here)
    if any(
        obj is each for each in (str, bytes, bytearray, codecs.encode, codecs.decode)
    ):
        run_codec(run, 1, args, here)
    if obj is copy.copy or obj is copy.deepcopy:
        _run_reducers(run, args, here)
    if module_of(obj).startswith("numpy"):
        _run_methods_for_numpy(run, obj, args, here)
    watch_call(run, obj, args, here)
    result = find_result(run, obj, args, made, here)
    return result | _find_given_back(obj, args, ran)


def _run_methods(run: AbstractInterpreter, obj: Any, value: Value, here: Here) -> Value:
    """Run the methods that a function calls; those of a deep copy make its result."""
    return NOTHING if obj is copy.deepcopy else run_builtin(run, obj, value, here)


def _find_given_back(obj: Any, args: Arguments, ran: Value) -> Value:
    """Return what a function may give just as it got it; its methods gave `ran`."""
    if obj is sum and (len(args.positional) > 1 or args.keywords):  # of nothing
        return ran | join(args.positional[1:]) | join(args.keywords.values())
    by_methods = id(obj) in _GIVES_WHAT_IT_RUNS or module_of(obj) == "operator"
    return ran if by_methods else NOTHING


# Callbacks of these receive the elements of the other arguments.
_HANDS_ON: Final = frozenset(
    map(id, (map, filter, sorted, min, max, functools.reduce, itertools.accumulate))
)


def _hand_on_elements(
    run: AbstractInterpreter, obj: Any, called: Value, args: Arguments, here: Here
) -> Value:
    """Call the functions that are given the elements of the other arguments."""
    values = args.positional[1 if obj in (map, filter, functools.reduce) else 0 :]
    if obj in (min, max) and len(values) > 1:
        given = [join(values)]
    elif obj in (functools.reduce, itertools.accumulate):  # the result before
        elements = list_elements(run, join(values[:1]), here)
        first = join([elements, *values[1:], *args.keywords.values()])
        given = [first, elements]
    else:
        given = [list_elements(run, each, here) for each in values]
    made = join(call_back(run, each, Arguments(given), here) for each in called)
    while len(given) > 1 and obj is not map and not made <= given[0]:
        given = [given[0] | made, *given[1:]]
        made = join(call_back(run, each, Arguments(given), here) for each in called)
    return made


def _run_reducers(run: AbstractInterpreter, args: Arguments, here: Here) -> None:
    """Run the functions that the program has registered for pickling."""
    for root in find_operands(run, args.all()):
        for cls in classes_of(root, run.universe) or ():
            reducer = reducer_of(cls)
            if reducer is not None:
                callee = read_existing(run, reducer, reducer.__name__, here)
                run.call(callee, Arguments([frozenset([root])]), here)


def _run_methods_for_numpy(
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> None:
    """Run the methods that NumPy calls on other objects: `np.sum(x)` is `x.sum()`."""
    name = getattr(obj, "__name__", "")
    given = Arguments(rest=args.all() | PLAIN)
    for root in find_operands(run, args.all()):
        run_special(run, root, (name, _METHODS_OF_NUMPY.get(name, name)), here, given)


def _take_apart(
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> None:
    """Read the fields of a dataclass, as `asdict` does, or construct one, as
    `replace`.
    """
    makes = getattr(obj, "__name__", "") == "replace"
    for root in find_operands(run, args.all()):
        classes = classes_of(root, run.universe)
        for cls in run.universe.classes if classes is None else classes:
            if not is_users_class(cls):
                continue
            given = []
            for name in field_names(cls) or ():
                value: Value = frozenset([root])
                given.append(read_attribute(run, value, name, here))
            if makes and given:
                made: Value = frozenset([Existing(cls, cls.__name__)])
                run.call(made, Arguments(given), here)


def check_class(
    run: AbstractInterpreter, classes: Value, given: Value, here: Here
) -> None:
    """Run the hooks by which a user's class answers `isinstance`."""
    for root in find_operands(run, classes):
        run_special(run, root, IMPLICIT["class"], here)
        if isinstance(root, Existing) and isinstance(root.obj, type):
            _read_registry(run, root.obj, here)
            hook = function_in(class_attribute(root.obj, "__subclasshook__"))
            if isinstance(hook, types.FunctionType) and is_users_code(hook.__code__):
                callee: Value = frozenset([BoundMethod(root, hook)])
                run.call(callee, Arguments(rest=given), here)
            if getattr(root.obj, "_is_protocol", False):
                _look_for_members(run, root.obj, given, here)


def _read_registry(run: AbstractInterpreter, cls: type, here: Here) -> None:
    """Note that an abstract class is read: another operator may `register` with it."""
    if isinstance(cls, ABCMeta):
        for each in (cls, *run.universe.subclasses_of(cls)):
            run.found.touch(each.__name__, each, here.place)


def _look_for_members(
    run: AbstractInterpreter, protocol: type, given: Value, here: Here
) -> None:
    """Run the properties that `isinstance` reads to check a protocol's members."""
    bases = [base for base in protocol.__mro__ if is_users_class(base)]
    names = {n for base in bases for n in (*vars(base), *get_annotations(base))}
    for name in sorted(name for name in names if not name.startswith("__")):
        for root in given:
            for function in find_candidates(run, root, name):
                callee: Value = frozenset([BoundMethod(root, function)])
                run.call(callee, Arguments(rest=PLAIN), here)
            run_special(run, root, READ_HOOKS, here, Arguments(rest=PLAIN))


def call_super(run: AbstractInterpreter, args: Arguments, here: Here) -> Value:
    """Return the value of `super()` in a method: its owner, seen as a base."""
    outermost = here.frame
    while outermost.parent is not None and outermost.made is not None:
        outermost = outermost.parent
    function, code = outermost.function, outermost.code
    free = function.__code__.co_freevars
    if args.positional or args.rest or "__class__" not in free:
        return note_unknown(run, "super() cannot be followed here", here)
    cls = (function.__closure__ or ())[free.index("__class__")].cell_contents
    first = code.parameters[:1]
    owners = outermost.current(first[0]) if first else NOTHING
    return frozenset(Parent(owner, cls) for owner in owners)


def call_special(  # noqa: C901, PLR0911, PLR0912 - one case for each kind
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> Value | None:
    """Call a builtin that affects its arguments."""
    first = args.positional[0] if args.positional else args.rest
    if obj is super:
        return call_super(run, args, here)
    if obj is functools.partial:
        return _make_partial(run, args, here)
    if obj is functools.cmp_to_key or obj is _keep_function:
        return first
    if obj is functools.lru_cache or obj is functools.cache:
        return _make_cache(run, args, here)
    generator = find_seeded_generator(obj, args)
    if generator is not None:
        return make_holding(run, generator, PLAIN, here)
    if any(obj is each for each in _TABLES):
        return _make_table(run, obj, args, here)
    wrapped = generator_of_context(obj)
    if wrapped is not None:
        inner = read_existing(run, wrapped, here.callee, here)
        given = list_elements(run, run.call(inner, args, here), here)
        return make_holding(run, CONTEXTS[-1], given, here)
    cases = implementations(obj)
    if cases is not None:
        return _dispatch(run, obj, cases, args, here)
    if any(obj is each for each in GETTERS):
        return _make_getter(run, obj, args, here)
    if obj is operator.is_ or obj is operator.is_not:
        second = join(args.positional[1:]) | args.rest
        watch_identity(run, first, second, here)
        return frozenset([Plain(bool)])
    if obj is hash and _computes_hash(here.frame):
        run_operators(run, first, here, PLAIN)
        return frozenset([Plain(int)])
    if obj is next:
        change(run, first, NOTHING, here)
        return list_elements(run, first, here) | join(args.positional[1:])
    if obj is type:
        if len(args.positional) != 1 or args.keywords or args.rest:
            return note_unknown(run, f"{here.callee} makes a class", here)
        return join(map(partial(classes_as_values, run), first))
    if obj is print and "file" in args.keywords and (given := _print(run, args, here)):
        return given
    if "cls" in args.keywords and not isinstance(obj, types.FunctionType):
        return note_unknown(run, f"{here.callee} is given a class", here)
    if obj is vars and len(args.positional) == 1:
        return read_variables(run, first, here)
    if obj is dataclasses.fields:
        field = make_at(run, (here.step, "field"), dataclasses.Field)
        unknown = SharedPart("what a field is declared with")
        run.heap.put(field.site, ELEMENTS, frozenset([unknown]))
        return make_holding(run, tuple, frozenset([field]), here)
    if obj is collections.namedtuple:  # noqa: PYI024 - the user's call
        return _make_record(run, args, here)
    if obj is json.dumps and "cls" in args.keywords:
        return _encode(run, args, here)
    if obj is getattr or obj is setattr or obj is delattr or obj is hasattr:
        return _call_getattr(run, obj, first, args, here)
    if any(obj is each for each in vars(Operator).values()):
        return PLAIN
    return None


def _print(run: AbstractInterpreter, args: Arguments, here: Here) -> Value:
    """Print into a buffer that was made here; nothing if it may be something else."""
    file = args.keywords["file"]
    if not all(isinstance(root, Fresh) and root.type is io.StringIO for root in file):
        return NOTHING
    others = join(v for name, v in args.keywords.items() if name != "file")
    shown = join(args.positional) | args.rest | others
    call_library(run, str, Arguments([shown]), here)
    change(run, file, NOTHING, here)
    return frozenset([Plain(type(None))])


def _keep_function(function: Any) -> Any:
    """Represent `lru_cache(...)` before it is applied to a local function."""
    return function


def _make_cache(run: AbstractInterpreter, args: Arguments, here: Here) -> Value:
    """Give a local function a cache that ends with the call."""
    functions = frozenset(root for root in args.all() if is_callable(root))
    if not functions and not args.rest:
        return frozenset([Existing(_keep_function, here.text)])
    if all(isinstance(root, Closure) for root in args.all()):
        return functions
    return note_unknown(run, f"{here.text} keeps results of a function", here)


def _make_record(run: AbstractInterpreter, args: Arguments, here: Here) -> Value | None:
    """Make a record class whose field names are literals."""
    step, code = here.step, here.frame.code
    if not isinstance(step, ir.Call) or args.keywords or args.rest:
        return None
    if step not in run.records:
        try:
            given = [ir.literal_of(each.value, code) for each in step.arguments]
            made: Any = _RECORD(*given)
        except (ir.NotLiteralError, TypeError, ValueError):
            return None
        made.__module__ = str(here.frame.function.__globals__.get("__name__"))
        run.records[step] = made
    return frozenset([Existing(run.records[step], here.text)])


def _encode(run: AbstractInterpreter, args: Arguments, here: Here) -> Value | None:
    """Write JSON with a user's encoder that defines `default`."""
    for root in args.keywords["cls"]:
        cls = root.obj if isinstance(root, Existing) else None
        if not isinstance(cls, type) or not issubclass(cls, json.JSONEncoder):
            return None
        own = [name for name in vars(cls) if name not in _OF_ANY_CLASS]
        if cls.__mro__[1] is not json.JSONEncoder or own not in ([], ["default"]):
            return None
        encoder = make_at(run, (here.step, "encoder"), cls)
        given = Arguments(rest=find_operands(run, join(args.positional)) | PLAIN)
        run_special(run, encoder, ("default",), here, given)
    others = {n: v for n, v in args.keywords.items() if n != "cls"}
    plain = Arguments(args.positional, others, args.rest)
    return call_library(run, json.dumps, plain, here)


def _make_table(
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> Value:
    """Make a reader or writer of text rows."""
    file = args.positional[0] if args.positional else NOTHING
    run_operators(run, args.all(), here)
    if obj in (csv.writer, csv.DictWriter):
        for root in file:
            run_special(run, root, ("write",), here)
        kind = type(csv.writer(io.StringIO())) if obj is csv.writer else obj
        return make_holding(run, kind, file, here)
    watch_iteration(run, file, here)
    list_elements(run, file, here)
    row = make_at(run, (here.step, "row"), list if obj is csv.reader else dict)
    texts: Value = frozenset([Plain(str), Plain(type(None))])
    run.heap.put(row.site, ELEMENTS, texts | join(args.positional[1:]))
    kind = type(csv.reader(())) if obj is csv.reader else obj
    return make_holding(run, kind, frozenset([row]), here)


def _dispatch(
    run: AbstractInterpreter,
    obj: Any,
    cases: Mapping[type, Any],
    args: Arguments,
    here: Here,
) -> Value:
    """Call a function that selects its implementation by an argument's type."""
    run.found.touch(here.callee, obj, here.place)
    classes = frozenset(Existing(each, each.__name__) for each in cases)
    check_class(run, classes, args.all(), here)
    found = [NOTHING]
    for each in cases.values():
        inner = read_existing(run, each, here.callee, here)
        found.append(run.call(inner, args, here))
    return join(found)


def _make_partial(run: AbstractInterpreter, args: Arguments, here: Here) -> Value:
    """Make a partial function; its effects count when it is called."""
    fresh = make_fresh(run, here, functools.partial)
    for index, value in enumerate(args.positional):
        run.heap.put(fresh.site, f"{index}", value)
    for name, value in args.keywords.items():
        run.heap.put(fresh.site, f"={name}", value)
    run.heap.put(fresh.site, "*", args.rest)
    return frozenset([fresh])


def call_made_partial(
    run: AbstractInterpreter, root: Fresh, args: Arguments, here: Here
) -> Value:
    """Call a partial function that was made here."""
    held = run.heap.fields(root.site)
    count = max((int(name) + 1 for name in held if name.isdigit()), default=1)
    first, *given = [held.get(f"{index}", NOTHING) for index in range(count)]
    named = {name[1:]: held[name] for name in held if name.startswith("=")}
    rest = held.get("*", NOTHING)
    whole = Arguments(
        [*given, *args.positional], {**named, **args.keywords}, args.rest | rest
    )
    return run.call(first | rest, whole, here)


def _make_getter(
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> Value:
    """Make an `itemgetter` or the like with literal arguments."""
    given = here.arguments
    written = [each.value for each in given if isinstance(each, ir.Const)]
    if obj is operator.itemgetter and args.positional:
        first = written[:1] or [0]  # any element may be meant
        written = first * max(1, len(given))
    elif not written or len(written) != len(given) or args.keywords:
        text = f"{here.text} takes an attribute by a computed name"
        return note_unknown(run, text, here)
    if here.step not in run.getters:
        run.getters[here.step] = obj(*written)
    return frozenset([Existing(run.getters[here.step], here.callee)])


def _call_getattr(
    run: AbstractInterpreter, obj: Any, first: Value, args: Arguments, here: Here
) -> Value:
    name = _find_written_name(here)
    if name is None:
        stored = join(args.positional[2:])
        if obj is setattr and _store_anywhere(run, first, stored, here):
            return PLAIN
        if obj is getattr and (found := _read_any_attribute(run, first, here)):
            return found | join(args.positional[2:])
        text = f"{here.text} takes an attribute by a computed name"
        escape(run, first | args.all(), here)
        run.found.rebind(ANY_NAME, None, here.place)
        return note_unknown_package(run, text, NOTHING, here)
    if obj is getattr or obj is hasattr:
        default = join(args.positional[2:])
        if obj is hasattr or default:
            lacking = frozenset(root for root in first if _lacks(run, root, name))
            if lacking:
                # it may be assigned elsewhere
                run.found.read(name, None, None, here.place)
            first -= lacking
        return read_attribute(run, first, name, here) | default | PLAIN
    assign_attribute(run, first, name, join(args.positional[2:]), here)
    return PLAIN


def _lacks(run: AbstractInterpreter, root: Root, name: str) -> bool:
    """Tell whether an existing instance lacks an attribute."""
    if not isinstance(root, Existing) or not is_instance_of_users(root.obj):
        return False
    if any(find_candidates(run, root, hook) for hook in READ_HOOKS):
        return False
    held = instance_attribute(root.obj, name)
    return held is MISSING and class_attribute(type(root.obj), name) is MISSING


def _find_written_name(here: Here) -> str | None:
    """Return the name passed to `getattr` and the like, if it is a constant.

    A global or an attribute counts as constant: assignments to it are checked
    elsewhere.
    """
    name: Any = None
    frame = here.frame
    match here.arguments[1:2]:
        case [ir.Const(value=name)]:
            pass
        case [ir.LoadName(name=variable, scope="global")]:
            name = frame.function.__globals__.get(variable)
        case [ir.GetAttribute(value=owner, name=attribute)]:
            match [*frame.registers.get(owner, NOTHING)]:
                case [Existing(obj=obj)] if is_instance_of_users(obj):
                    name = instance_attribute(obj, attribute)
    return name if type(name) is str else None


def _store_anywhere(
    run: AbstractInterpreter, value: Value, stored: Value, here: Here
) -> bool:
    """Store under a computed name in objects made here; tell whether that was
    possible.
    """
    made = [root for root in value if isinstance(root, Fresh)]
    if len(made) < len(value) or not all(_stores_plainly(r.type) for r in made):
        return False
    for root in made:
        run.changed_sites.add(root.site)
        run.heap.put(root.site, ELEMENTS, stored)
        for name in _find_setters(root.type):
            assign_attribute(run, frozenset([root]), name, stored, here)
    return True


def _read_any_attribute(run: AbstractInterpreter, value: Value, here: Here) -> Value:
    """Return the possible values of any attribute of user instances."""
    found = [NOTHING]
    for root in value:
        if isinstance(root, Plain):
            found.append(PLAIN)
            continue
        cls = class_of(root)
        made = isinstance(root, Fresh)
        if cls is None or not (made or isinstance(root, Existing)):
            return NOTHING
        names = {name for base in cls.__mro__[:-1] for name in vars(base)}
        if isinstance(root, Existing):
            names |= set(getattr(root.obj, "__dict__", ()))
        public = sorted(name for name in names if not name.startswith("__"))
        found += [read_attribute(run, frozenset([root]), n, here) for n in public]
        given = Arguments([frozenset([Plain(str)])])
        found.append(run_special(run, root, READ_HOOKS, here, given))
        if isinstance(root, Fresh):
            found.append(run.heap.inside(root.site))
        found.append(PLAIN)
    return join(found)


def call_unbound(
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> Value:
    """Call a method through its class, as `str.strip(x)`."""
    if not args.positional:
        owner, rest = args.rest, []
    else:
        owner, rest = args.positional[0], args.positional[1:]
    if obj.__objclass__ is object and obj.__name__ in ("__init__", "__new__"):
        return PLAIN
    if obj is object.__repr__ or obj is object.__str__:
        text = f"{here.text} shows where an object lies in memory"
        run.found.effect("impure", text, here.place)
    if is_scalar_type(obj.__objclass__):  # else the call would fail
        owner = PLAIN
    given = Arguments(rest, args.keywords, args.rest)
    return run.call(methods_of(owner, obj.__name__), given, here)


def call_getter(
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> Value:
    _, names = obj.__reduce__()[:2]
    target = args.all()
    if isinstance(obj, operator.itemgetter):
        keys = join(read_existing(run, each, "a key", here) for each in names)
        watch_missing(run, target, here)
        found = [list_elements(run, target, here, keys)]
    elif isinstance(obj, operator.methodcaller):
        if not isinstance(names[0], str):
            return note_unknown(run, f"calls {here.callee}", here)
        callee = read_attribute(run, target, names[0], here)
        text = "an argument of the method"
        given = [read_existing(run, each, text, here) for each in names[1:]]
        return run.call(callee, Arguments(given, rest=PLAIN), here)
    else:
        found = [_follow_path(run, target, path, here) for path in names]
    if len(names) == 1:
        return found[0]
    return make_holding(run, tuple, join(found), here)


def _follow_path(
    run: AbstractInterpreter, value: Value, path: str, here: Here
) -> Value:
    """Return an attribute of an attribute."""
    for name in path.split("."):
        value = read_attribute(run, value, name, here)
    return value


def _stores_plainly(cls: Any) -> bool:
    """Tell whether a user's class leaves it to its attributes how they are assigned."""
    setter = object.__setattr__
    return is_users_class(cls) and class_attribute(cls, "__setattr__") is setter


def _find_setters(cls: type) -> Iterator[str]:
    """Yield the attributes of a user's class that code is run to assign."""
    slots = types.MemberDescriptorType | types.GetSetDescriptorType
    for base in cls.__mro__[:-1]:
        for name, raw in list(vars(base).items()):
            if hasattr(type(raw), "__set__") and not isinstance(raw, slots):
                yield name


def _computes_hash(frame: Frame) -> bool:
    """Tell whether this is the body of a `__hash__`, which no result shows.

    Sets are never assumed to be in the order of such hashes.
    """
    while frame.code.name == "<genexpr>" and frame.parent is not None:
        frame = frame.parent
    in_class = "." in getattr(frame.function, "__qualname__", "")
    return in_class and frame.code.name == "__hash__"


def methods_of(owner: Value, name: str) -> Value:
    return frozenset(Method(root, name) for root in owner)
