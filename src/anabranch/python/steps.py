"""The effects of each instruction: on registers, variables and objects.

Every block is executed, in any order: `Frame` says why that is enough. Operators of
user classes are followed like calls; those of built-in types give a number, a text or a
new object.
"""

from __future__ import annotations

import builtins
import importlib.util
import itertools
import sys
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.graph.site import is_users_file
from anabranch.operators.lifted import StatePlace
from anabranch.python import ir
from anabranch.python.attributes import (
    assign_attribute,
    assign_element,
    change_in_place,
    read_attribute,
    read_method,
)
from anabranch.python.classes import class_of, classes_of
from anabranch.python.implicit import IMPLICIT, name_of_operator
from anabranch.python.known import CONTEXTS, facts_about
from anabranch.python.library import check_class, number
from anabranch.python.local_classes import (
    NotBuiltError,
    build_class,
    decorator_of,
    put_class_cells,
)
from anabranch.python.loops import hides_order
from anabranch.python.methods import make_at, make_fresh, make_holding
from anabranch.python.objects import (
    MISSING,
    class_attribute,
    is_users_class,
    is_users_method,
)
from anabranch.python.reach import (
    are_sets,
    are_whole_numbers,
    compares_items,
    find_operands,
    find_reachable,
    is_taken_in_any_order,
    list_elements,
    list_values,
    look_inside,
    look_up,
    note_unknown,
    note_unknown_code,
    note_unknown_package,
    read_existing,
    remember_order,
    run_operators,
    run_special,
    watch_equal_nans,
    watch_equality,
    watch_identity,
    watch_iteration,
    watch_keys,
    watch_missing,
    watch_nans,
    watch_sets,
    watch_text,
    watch_twins,
)
from anabranch.python.source import file_around, node_of
from anabranch.python.values import (
    ELEMENTS,
    KEYS,
    LOST,
    NOTHING,
    PLAIN,
    SENT,
    AbstractInterpreter,
    Arguments,
    Closure,
    Existing,
    Frame,
    Fresh,
    Here,
    LibraryObject,
    Lost,
    Plain,
    Root,
    Value,
    join,
)

_INDEXED = (list, np.ndarray, bytearray, deque)  # by numbers
_UNARY = {"-": "neg", "+": "pos", "~": "invert"}
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.items()))
_KINDS: dict[str, type] = {"list": list, "set": set, "dict": dict, "tuple": tuple}
# A class pattern with one positional part takes the whole value of these.
_WHOLE = (
    *(bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple),
)


def load_name(  # noqa: PLR0911 - one return for each kind of name
    run: AbstractInterpreter, one: ir.LoadName, here: Here
) -> Value:
    """Look up a name: local, enclosing, captured, global, builtin."""
    name, frame = one.name, here.frame
    if one.scope == "local":
        return frame.current(name)
    function = frame.function
    if one.scope == "cell":
        owner = _owner_of(name, frame)
        if owner is not None:
            return owner.current(name)
        if name in function.__code__.co_freevars:
            return _load_captured(run, name, function, here)
    if name in function.__globals__:
        value = function.__globals__[name]
        run.found.read(name, function.__globals__, value, here.place)
        found = read_existing(run, value, f"the global {name}", here)
        return _read_from(StatePlace("global", name), found)
    if getattr(function, "__builtins__", None) is not vars(builtins):
        text = f"{name} is looked up in builtins of the program's own"
        return note_unknown(run, text, here)
    if hasattr(builtins, name):
        return read_existing(run, getattr(builtins, name), name, here)
    return note_unknown(run, f"the name {name} is not defined yet", here)


def _load_captured(
    run: AbstractInterpreter, name: str, function: types.FunctionType, here: Here
) -> Value:
    cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
    try:
        value = cell.cell_contents
    except ValueError:
        return note_unknown(run, f"the variable {name} has no value yet", here)
    if name != "__class__":
        run.found.read(name, _enclosing(function), value, here.place)
    found = read_existing(run, value, f"the captured variable {name}", here)
    return _read_from(StatePlace("outer variable", name), found)


def bind(
    run: AbstractInterpreter, one: ir.Store | ir.Delete, value: Value, here: Here
) -> None:
    """Bind a name to a value, in the scope it belongs to.

    For the rest of the block it has no other value.
    """
    name, frame = one.name, here.frame
    if one.scope == "local":
        for key in frame.replace(name, one):
            hold(run, key, value, frame)
        return
    owner = _owner_of(name, frame) if one.scope == "cell" else None
    if owner is not None:
        for key in owner.keys_to_join(name):
            hold(run, key, value, owner)
        return
    names = frame.function.__globals__
    is_global = one.scope == "global"
    variable = StatePlace("global" if is_global else "outer variable", name)
    target = names.get(name, names) if is_global else names
    run.found.change(target, f"assigns the {variable}", here.place, variable)
    outer = names if is_global else _enclosing(frame.function)
    run.found.rebind(name, outer, here.place)


def hold(run: AbstractInterpreter, key: Any, value: Value, frame: Frame) -> None:
    """Add to the possible values of a variable."""
    old = frame.variables.get(key, NOTHING)
    if not value <= old:
        frame.variables[key] = old | value
        run.growth += 1


def _owner_of(name: str, frame: Frame) -> Frame | None:
    """Return the enclosing frame that a name belongs to."""
    outer = frame.parent
    while outer is not None and name not in outer.code.own:
        outer = outer.parent
    return outer


def _enclosing(function: types.FunctionType) -> Any:
    """Return the file and the outermost function around a function."""
    parsed = file_around(function.__code__)
    scope: Any = node_of(function.__code__)
    if parsed is None or scope is None:
        return None
    while (outer := parsed.enclosing.get(scope)) not in (None, parsed.tree):
        scope = outer
    return (parsed, scope)


def _read_from(variable: StatePlace, value: Value) -> Value:
    """Return the value of a variable, annotated with where it was read."""
    return frozenset(
        Existing(root.obj, root.text, variable) if isinstance(root, Existing) else root
        for root in value
    )


def run_implicit(
    run: AbstractInterpreter,
    value: Value,
    operation: str,
    here: Here,
    other: Value = NOTHING,
) -> Value:
    """Run the special methods of an operation on every possible value.

    They are given `other` if there is a second operand.
    """
    args = Arguments(rest=other | PLAIN)
    names = IMPLICIT[operation]
    return join(run_special(run, root, names, here, args) for root in value)


def run_hashing(run: AbstractInterpreter, value: Value, here: Here) -> None:
    """Run the methods that a lookup by a key, or a tuple of keys, invokes."""
    keys = find_operands(run, value)
    run_implicit(run, keys, "hash", here, keys)


def apply_binary(run: AbstractInterpreter, one: ir.Binary, here: Here) -> Value:
    left, right = (here.frame.registers[each] for each in (one.left, one.right))
    if not one.in_place:
        return _combine(run, left, right, one.op, here)
    plain = all(isinstance(root, Plain) for root in left)
    if one.op == "|" and are_sets(run, left):
        for root in left:
            if isinstance(root, Fresh):
                remember_order(run, right, root.site)
    elif one.op in ("+", "|") and not plain:  # a list or a table absorbs its argument
        watch_iteration(run, right, here)
        if one.op == "+":
            list_elements(run, right, here)
        else:
            run_implicit(run, right, "unpack mapping", here)
            list_values(run, right, here)
    kept = change_in_place(run, left, right, one.op, here)
    return kept | _combine(run, left, right, one.op, here)


def _combine(
    run: AbstractInterpreter, left: Value, right: Value, op: str, here: Here
) -> Value:
    """Return the value of an operator on two values."""
    both = left | right
    if op in ("|", "&", "-", "^"):
        watch_sets(run, left, right, here)
    if op == "%" and any(map(_may_be_text, left)):
        run_operators(run, right, here, PLAIN)
        watch_missing(run, find_operands(run, right), here)
        watch_text(run, right, here)
        if all(isinstance(r, Plain) and r.type in (str, bytes) for r in left):
            return frozenset([Plain(str)])
    if all(isinstance(root, Plain) for root in both):
        is_int = op not in ("/", "**")
        return frozenset([number(both if is_int else both | {Plain(float)})])
    ran = _run_operator(run, left, right, op, here)
    name = name_of_operator(op)
    certain = not any(map(_is_declined, ran))
    found, others = ran, set[Root]()
    for one, two in itertools.product(left, right):
        plain = [each for each in (one, two) if isinstance(each, Plain)]
        if len(plain) == len((one, two)) or (plain and op in ("%", "*")):
            found |= {number(frozenset([*plain, Plain(float)]))}
        defined = certain and _is_defined(run, one, f"__{name}__")
        if not defined and not all(_is_own(run, each, name) for each in (one, two)):
            others |= {one, two}
    if not others:
        return found
    both = frozenset(others)
    fresh = make_fresh(run, here, _find_kind_of_both(run, both, name))
    run.heap.put(fresh.site, ELEMENTS, look_inside(run, both))
    if fresh.type is set:
        remember_order(run, both, fresh.site)
    return frozenset([fresh]) | found


def _run_operator(
    run: AbstractInterpreter, left: Value, right: Value, op: str, here: Here
) -> Value:
    """Run an operator of either operand, and of their contents."""
    plain, reflected = IMPLICIT[op]
    to_right, to_left = Arguments([right]), Arguments([left])
    ran = [run_special(run, root, (plain,), here, to_right) for root in left]
    ran += [run_special(run, root, (reflected,), here, to_left) for root in right]
    if op == "*":  # of a text or a list
        run_implicit(run, left | right, "repeat", here)
    inner = find_operands(run, left | right) - left - right
    return join([*ran, run_implicit(run, inner, op, here, inner)])


def _is_defined(run: AbstractInterpreter, root: Root, name: str) -> bool:
    """Tell whether an operator of a value certainly is a function of the user's."""
    classes = classes_of(root, run.universe)
    return bool(classes) and all(
        is_users_class(each) and is_users_method(each, name) for each in classes or ()
    )


def _is_own(run: AbstractInterpreter, root: Root, name: str) -> bool:
    """Tell whether only functions of the user's can compute an operator on a value.

    A number or text declines the instances of user classes.
    """
    if isinstance(root, Plain):
        return True
    classes = classes_of(root, run.universe)
    names = [f"__{each}{name}__" for each in ("", "r")]
    return bool(classes) and all(
        is_users_class(each)
        and all(
            is_users_method(each, one) or class_attribute(each, one) is MISSING
            for one in names
        )
        for each in classes or ()
    )


def _is_declined(root: Root) -> bool:
    """Tell whether an operator may return NotImplemented."""
    match root:
        case Plain(kind):
            return kind in (None, type(NotImplemented))
        case Existing(obj=obj):
            return obj is NotImplemented
    return not isinstance(root, Fresh | Closure)


def _find_kind_of_both(run: AbstractInterpreter, both: Value, name: str) -> type | None:
    """Return the class that an operator on two built-in values gives.

    Instances of user classes without the operator cannot be operands.
    """
    kinds: set[type] = set()
    for root in both:
        classes = classes_of(root, run.universe)
        if classes is None:
            return None
        own = {each for each in classes if is_users_class(each)}
        if any(_has_operator(each, name) for each in own):
            return None
        kinds |= classes - own
    if np.ndarray in kinds:
        return np.ndarray
    if kinds & {set, frozenset, *_VIEWS}:
        return set
    return kinds.pop() if len(kinds) == 1 else LibraryObject


def apply_unary(run: AbstractInterpreter, one: ir.Unary, here: Here) -> Value:
    value = here.frame.registers[one.value]
    if one.op == "not":
        run_implicit(run, value, "truth", here)
        return frozenset([Plain(bool)])
    name = _UNARY[one.op]
    found = run_implicit(run, value, name, here)
    plain = frozenset(root for root in value if isinstance(root, Plain))
    others = frozenset(root for root in value if not _is_own(run, root, name))
    if plain:
        found |= {number(plain)}
    if others:
        found |= {make_fresh(run, here, _find_kind_of_both(run, others, name))}
    return found


def compare_values(run: AbstractInterpreter, one: ir.Compare, here: Here) -> Value:
    left, right = (here.frame.registers[each] for each in (one.left, one.right))
    if one.op in ("is", "is not"):
        watch_identity(run, left, right, here)
        return PLAIN
    value, inside = left | right, one.op in ("in", "not in")
    if inside or one.op in ("==", "!="):
        numbers = frozenset(root for root in value if _is_number(root))
        watch_equality(run, value if inside else value - numbers, here)
        if inside:
            watch_nans(run, left, here)
        else:
            watch_equal_nans(run, left, right, here)
        if inside or (compares_items(run, left) and compares_items(run, right)):
            watch_twins(run, left, here)
    if one.op in ("<", "<=", ">", ">="):
        watch_sets(run, left, right, here)
        watch_equal_nans(run, left, right, here)
    inner = find_operands(run, value) - value
    run_implicit(run, inner, "==", here, inner | value)
    run_implicit(run, inner, one.op, here, inner | value)
    if inside:
        ran = run_implicit(run, value, one.op, here, value | inner)
        list_elements(run, value, here)
        run_implicit(run, ran, "truth", here)
    else:
        ran = run_implicit(run, left, one.op, here, right)
        ran |= run_implicit(run, right, one.op, here, left)
    classes = [classes_of(root, run.universe) for root in value]
    if all(each is not None and np.ndarray not in each for each in classes):
        return ran | {Plain(bool)}
    kind = np.ndarray if all(each is not None for each in classes) else None
    return ran.union([Plain(bool), make_fresh(run, here, kind)])


def format_value(run: AbstractInterpreter, one: ir.Format, here: Here) -> Value:
    parts = [one.value] if one.spec is None else [one.value, one.spec]
    value = join(here.frame.registers[each] for each in parts)
    run_implicit(run, find_operands(run, value), "text", here)
    watch_text(run, value, here)
    return frozenset([Plain(str)])


def _has_operator(cls: type, name: str) -> bool:
    names = (f"__{name}__", f"__r{name}__", f"__i{name}__")
    return any(class_attribute(cls, each) is not MISSING for each in names)


def _is_number(root: Root) -> bool:
    """Tell whether a value is a captured NaN: `==` with it is false everywhere."""
    return isinstance(root, Existing) and isinstance(root.obj, float)


def _may_be_text(root: Root) -> bool:
    return not isinstance(root, Plain) or root.type in (None, str, bytes)


def build_container(run: AbstractInterpreter, one: ir.Build, here: Here) -> Value:
    registers = here.frame.registers
    if one.kind == "slice":
        run_implicit(run, join(registers[each] for each in one.items), "index", here)
        return PLAIN
    if one.kind == "str":
        return frozenset([Plain(str)])
    if one.kind == "dict":
        return _build_dictionary(run, one, here)
    parts = [
        iterate(run, registers[item], here) if place in one.starred else registers[item]
        for place, item in enumerate(one.items)
    ]
    if one.kind == "tuple":
        fresh = make_fresh(run, here, tuple)
        for index, value in enumerate(parts):
            where = ELEMENTS if one.starred else f"[{index}]"
            run.heap.put(fresh.site, where, value)
        return frozenset([fresh])
    if one.kind == "set":
        run_operators(run, join(parts), here, PLAIN)
        watch_keys(run, join(parts), here)
    return make_holding(run, _KINDS[one.kind], join(parts), here)


def _build_dictionary(run: AbstractInterpreter, one: ir.Build, here: Here) -> Value:
    registers, held, keys = here.frame.registers, list[Value](), list[Value]()
    for place in range(0, len(one.items), 2):
        first = registers[one.items[place]]
        if place in one.starred:
            run_implicit(run, first, "unpack mapping", here)
            held.append(list_values(run, first, here))
        else:
            keys.append(first)
            held.append(registers[one.items[place + 1]])
    run_hashing(run, join([*held, *keys]), here)
    watch_keys(run, join(keys), here)
    made = make_holding(run, dict, join(held), here)
    _keep_keys(run, made, join(keys))
    return made


def add_to_container(run: AbstractInterpreter, one: ir.Add, here: Here) -> None:
    """Add to the container of a comprehension."""
    registers = here.frame.registers
    held = join(registers[each] for each in one.values)
    for root in registers[one.container]:
        if not isinstance(root, Fresh):
            continue
        if root.type is dict:
            watch_keys(run, registers[one.values[0]], here)
            run.heap.put(root.site, KEYS, registers[one.values[0]])
            run.heap.put(root.site, ELEMENTS, registers[one.values[-1]])
        else:
            run.heap.put(root.site, ELEMENTS, held)
        if root.type is not list:
            run_hashing(run, held, here)
        if root.type is set:
            watch_keys(run, held, here)


def iterate(
    run: AbstractInterpreter, source: Value, here: Here, *, ordered: bool = True
) -> Value:
    """Return the values that a loop iterates over; `ordered` if their order matters."""
    if ordered:
        watch_iteration(run, source, here)
    run_implicit(run, source, "iterate", here)
    return list_elements(run, source, here)


def _is_sequence(run: AbstractInterpreter, root: Root) -> bool:
    classes = classes_of(root, run.universe)
    return bool(classes) and all(
        issubclass(each, list | tuple | str) for each in classes or ()
    )


def get_element(run: AbstractInterpreter, one: ir.GetElement, here: Here) -> Value:
    code, registers = here.frame.code, here.frame.registers
    value, index = registers[one.value], registers[one.index]
    run_implicit(run, index, "index", here)
    captured = frozenset(root for root in value if isinstance(root, Existing))
    run_hashing(run, index | captured, here)
    tables = frozenset(root for root in value if not _is_sequence(run, root))
    watch_equality(run, index | (tables or captured), here)
    watch_twins(run, index, here)
    if tables:
        watch_nans(run, index, here)
    match code.maker_of(one.index):
        case ir.Const(value=key) if all(_has_at(root, key) for root in value):
            made = code.maker_of(one.value)
            text = f"what lies in {'it' if made is None else made.text}"
            held = (root.obj[key] for root in value if isinstance(root, Existing))
            return join(read_existing(run, each, text, here) for each in held)
    watch_missing(run, value, here)
    match code.maker_of(one.index):
        case ir.Const(value=int(position)) if position >= 0:
            return join(_get_at(run, root, position, here) for root in value)
        case ir.Build(kind="slice"):
            return join(_slice(run, root, here, index) for root in value)
    return join(look_up(run, root, here, index) for root in value)


def _slice(run: AbstractInterpreter, root: Root, here: Here, key: Value) -> Value:
    """Return a slice of a sequence: a new list, or a view of an array."""
    held = list_elements(run, frozenset([root]), here, key)
    classes = classes_of(root, run.universe)
    if classes is not None and len(classes) == 1 and classes <= {list, tuple}:
        return make_holding(run, next(iter(classes)), held, here)
    return held | {root}


def _get_at(run: AbstractInterpreter, root: Root, position: int, here: Here) -> Value:
    if isinstance(root, Fresh) and root.type is tuple:
        exact = run.heap.get(root.site, f"[{position}]")
        return exact | run.heap.get(root.site, ELEMENTS)
    return look_up(run, root, here)


def unpack_value(run: AbstractInterpreter, one: ir.Unpack, here: Here) -> None:
    value = here.frame.registers[one.value]
    watch_iteration(run, value, here, given="known")
    parts = _take_parts(run, value, one.targets, one.star, here)
    here.frame.registers.update(zip(one.targets, parts, strict=True))


def _take_parts(
    run: AbstractInterpreter,
    value: Value,
    targets: tuple[str, ...],
    star: int | None,
    here: Here,
) -> list[Value]:
    """Return the elements of a sequence, one by one."""
    if star is None:
        return [
            join(_get_at(run, root, index, here) for root in value)
            for index in range(len(targets))
        ]
    held = list_elements(run, value, here)
    rest = make_at(run, (here.step, "rest"), list)
    run.heap.put(rest.site, ELEMENTS, held)
    parts = [held] * len(targets)
    parts[star] = frozenset([rest])
    return parts


def run_unpacking(run: AbstractInterpreter, value: Value, here: Here) -> None:
    """Run the methods that `a, b = value` invokes."""
    watch_iteration(run, value, here, given="known")
    list_elements(run, value, here)


def match_shape(run: AbstractInterpreter, one: ir.Match, here: Here) -> Value:
    """Destructure a value that matches a pattern."""
    registers = here.frame.registers
    value = registers[one.value]
    match one.shape:
        case "class":
            parts = _match_class(run, one, value, here)
        case "mapping":
            run_implicit(run, value, "match mapping", here)
            keys = join(registers[key] for key in one.keys)
            run_hashing(run, keys, here)
            held = list_elements(run, value, here, keys | PLAIN)
            parts = [held] * len(one.parts)
            if one.star is not None:
                rest = make_at(run, (here.step, "rest"), dict)
                run.heap.put(rest.site, ELEMENTS, held)
                parts[one.star] = frozenset([rest])
        case _:
            run_implicit(run, value, "match sequence", here)
            parts = _take_parts(run, value, one.parts, one.star, here)
    registers.update(zip(one.parts, parts, strict=True))
    return frozenset([Plain(bool)])


def _match_class(
    run: AbstractInterpreter, one: ir.Match, value: Value, here: Here
) -> list[Value]:
    classes = here.frame.registers[one.keys[0]]
    check_class(run, classes, value, here)
    known = [r.obj for r in classes if isinstance(r, Existing)]
    parts = []
    for place, name in enumerate(one.names):
        found = NOTHING if name else value
        names = (
            [name] if name else [_match_argument(run, c, place, here) for c in known]
        )
        for each in filter(None, names):
            found |= read_attribute(run, value, each, here)
        parts.append(found)
    return parts


def _match_argument(run: AbstractInterpreter, cls: Any, number: int, here: Here) -> str:
    """Return the attribute that a positional part of a class pattern reads."""
    if not isinstance(cls, type):
        return ""
    names = class_attribute(cls, "__match_args__")
    if class_attribute(type(cls), "__match_args__") is not MISSING:
        note_unknown(run, f"{cls.__name__}.__match_args__ is computed", here)
        return ""
    if not isinstance(names, tuple):
        return ""
    return names[number] if number < len(names) and cls not in _WHOLE else ""


def _has_at(root: Root, key: Any) -> bool:
    """Tell whether an existing built-in table has an entry."""
    match root:
        case Existing(obj=dict() as obj) if type(obj) is dict:
            return type(key) in (str, int, bytes) and key in obj
        case Existing(obj=list() | tuple() as obj) if type(obj) in (list, tuple):
            return type(key) is int and -len(obj) <= key < len(obj)
    return False


def make_class(run: AbstractInterpreter, one: ir.MakeClass, here: Here) -> Value:
    """Define a class whose body contains only methods and literals."""
    key, frame, name = (one, id(here.frame)), here.frame, one.body.name
    if key not in run.local_classes:
        try:
            bases = [_find_base(each, frame) for each in one.bases]
            decorators = [
                decorator_of(_find_only(each.function, frame), each, frame.code)
                for each in one.decorators
            ]
            made, functions = build_class(one.body, bases, decorators, frame.function)
        except NotBuiltError as error:
            note_unknown(run, f"the class {name} cannot be followed: {error}", here)
            return LOST
        put_class_cells(made, functions)
        run.local_classes[key] = (made, frame)
        run.defined_in.update({id(each): frame for each in functions})
        run.universe = run.universe.with_class(made)
    return frozenset([Existing(run.local_classes[key][0], f"the class {name}")])


def _find_base(given: ir.Argument, frame: Frame) -> Any:
    if given.name:
        msg = "a class with keywords"
        raise NotBuiltError(msg)
    return _find_only(given.value, frame)


def _find_only(register: ir.Register, frame: Frame) -> Any:
    """Return the only existing object that a register may hold."""
    match [*frame.registers[register]]:
        case [Existing(obj=obj)]:
            return obj
    made = frame.code.maker_of(register)
    msg = f"{'it' if made is None else made.text} is not known"
    raise NotBuiltError(msg)


def import_module(run: AbstractInterpreter, one: ir.Import, here: Here) -> Value:
    full = one.module.lstrip(".")
    is_relative = full != one.module
    module = sys.modules.get(full or str(one.attribute))
    if module is None or one.attribute == "*" or is_relative:
        text = f"imports {full or one.attribute} while it runs"
        if is_relative or _may_be_users(full):
            note_unknown_code(run, text, here)
            return LOST
        return note_unknown_package(run, text, NOTHING, here)
    text = f"the module {full}"
    if one.top:
        return frozenset([Existing(sys.modules[full.partition(".")[0]], text)])
    value: Value = frozenset([Existing(module, text)])
    return (
        value
        if one.attribute is None
        else read_attribute(run, value, one.attribute, here)
    )


def _may_be_users(module: str) -> bool:
    """Tell whether a module that is not loaded yet may be the user's."""
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return True
    if spec is None or spec.origin is None:
        return True
    return spec.origin not in ("built-in", "frozen") and is_users_file(spec.origin)


def execute(run: AbstractInterpreter, block: ir.Block, frame: Frame) -> None:
    """Execute the instructions of a block."""
    frame.versions.append({})
    for one in block:
        here = Here(one, frame)
        value = _VALUES.get(type(one))
        if value is not None:
            frame.registers[one.target] = value(run, one, here)  # type: ignore[attr-defined]
        else:
            _EFFECTS[type(one)](run, one, here)
    frame.versions.pop()


# -- values


def read_constant(run: AbstractInterpreter, one: ir.Const, here: Here) -> Value:
    if isinstance(one.value, type):  # of `assert`
        return read_existing(run, one.value, one.value.__name__, here)
    return frozenset([Plain(type(one.value))])


def get_attribute(run: AbstractInterpreter, one: ir.GetAttribute, here: Here) -> Value:
    value = here.frame.registers[one.value]
    read = read_method if one.called else read_attribute
    return read(run, value, one.name, here)


def call_value(run: AbstractInterpreter, one: ir.Call, here: Here) -> Value:
    registers = here.frame.registers
    callee = registers[one.function]
    match [*callee]:
        case [Closure(made=made) as closure] if made.function.name == "<genexpr>":
            source = registers[one.arguments[0].value]
            return run.call_generator(closure, source, here)
    args = _collect_arguments(run, one, here)
    sums = any(isinstance(r, Existing) and r.obj is sum for r in callee)
    if sums and one not in run.rounding and not are_whole_numbers(run, args):
        run.rounding.add(one)  # rounding reveals the order
        run.growth += 1
    return run.call(callee, args, here)


def _collect_arguments(run: AbstractInterpreter, one: ir.Call, here: Here) -> Arguments:
    registers, args = here.frame.registers, Arguments()
    for each in one.arguments:
        value = registers[each.value]
        if each.name == "*":
            args.rest |= iterate(run, value, here)
        elif each.name == "**":
            run_implicit(run, value, "unpack mapping", here)
            args.rest |= list_values(run, value, here) | PLAIN
        elif each.name:
            args.keywords[each.name] = value
        elif args.rest:
            args.rest |= value
        else:
            args.positional.append(value)
    return args


def make_function(_: AbstractInterpreter, one: ir.MakeFunction, here: Here) -> Value:
    """Return a function defined here; it runs where it is called."""
    return frozenset([Closure(one, here.frame)])


def yield_value(run: AbstractInterpreter, one: ir.Yield, here: Here) -> Value:
    value, frame = here.frame.registers[one.value], here.frame
    given = iterate(run, value, here) if one.delegates else value
    if not given <= frame.yielded:
        frame.yielded |= given
        run.growth += 1
    if one.delegates:
        return PLAIN | look_inside(run, value)
    made = make_at(run, frame.code, types.GeneratorType)
    return PLAIN | run.heap.get(made.site, SENT)


def give_unknown(run: AbstractInterpreter, one: ir.Unknown, here: Here) -> Value:
    return note_unknown(run, one.what, here)


# -- assignment


def store_value(run: AbstractInterpreter, one: ir.Store, here: Here) -> None:
    registers = here.frame.registers
    if one.name.startswith("%"):  # the value of a conditional
        registers[one.name] = registers.get(one.name, NOTHING) | registers[one.value]
    else:
        bind(run, one, registers[one.value], here)


def delete_name(run: AbstractInterpreter, one: ir.Delete, here: Here) -> None:
    if one.scope != "local":
        bind(run, one, NOTHING, here)


def set_attribute(run: AbstractInterpreter, one: ir.SetAttribute, here: Here) -> None:
    registers = here.frame.registers
    new = NOTHING if one.new is None else registers[one.new]
    assign_attribute(run, registers[one.value], one.name, new, here)


def set_element(run: AbstractInterpreter, one: ir.SetElement, here: Here) -> None:
    registers = here.frame.registers
    index = registers[one.index]
    run_operators(run, index, here, PLAIN)
    watch_keys(run, index, here)
    new = NOTHING if one.new is None else registers[one.new]
    match here.frame.code.maker_of(one.index):
        case ir.Build(kind="slice") if not all(isinstance(r, Plain) for r in new):
            new |= iterate(run, new, here)  # an array takes in a number
    assign_element(run, registers[one.value], index, new, here)
    if one.new is not None:
        _keep_keys(run, registers[one.value], index)


def _keep_keys(run: AbstractInterpreter, value: Value, index: Value) -> None:
    """Remember the keys of a table made here."""
    for root in value:
        if isinstance(root, Fresh) and root.type not in _INDEXED:
            run.heap.put(root.site, KEYS, index)


# -- control


def choose_block(run: AbstractInterpreter, one: ir.If, here: Here) -> None:
    run_implicit(run, here.frame.registers[one.test], "truth", here)
    execute(run, one.then, here.frame)
    execute(run, one.orelse, here.frame)


def repeat_block(run: AbstractInterpreter, one: ir.While, here: Here) -> None:
    execute(run, one.head, here.frame)
    run_implicit(run, here.frame.registers[one.test], "truth", here)
    execute(run, one.body, here.frame)
    execute(run, one.orelse, here.frame)


def loop_over(run: AbstractInterpreter, one: ir.For, here: Here) -> None:
    frame = here.frame
    source = frame.registers[one.iterable]
    hidden = hides_order(one, frame.code)
    ordered = not (hidden or _is_order_free(run, one, frame))
    frame.registers[one.target] = iterate(run, source, here, ordered=ordered)
    if one.into is not None:
        for root in frame.registers[one.into]:
            if isinstance(root, Fresh) and root.type is set:
                remember_order(run, source, root.site)
    if ordered:
        execute(run, one.body, frame)
    elif hidden:
        if _execute_apart(run, one, frame) or _rounds(one, frame):
            watch_iteration(run, source, here)
    elif _changes_outer(run, one, frame):
        watch_iteration(run, source, here)
    execute(run, one.orelse, frame)


def _changes_outer(run: AbstractInterpreter, one: ir.For, frame: Frame) -> bool:
    """Execute a comprehension's body; tell whether it changes outer objects.

    A list that a helper appends to reveals the order of the calls.
    """
    around: list[Value] = []
    within: Frame | None = frame
    while within is not None:
        around += [v for name, v in within.variables.items() if "%" not in str(name)]
        within = within.parent
    kept = {r.site for r in find_reachable(run, join(around)) if isinstance(r, Fresh)}
    return not _execute_apart(run, one, frame).isdisjoint(kept)


def _execute_apart(run: AbstractInterpreter, one: ir.For, frame: Frame) -> set[int]:
    """Execute the body of a loop; return the sites of the objects that it changes."""
    outer, run.changed_sites = run.changed_sites, set()
    execute(run, one.body, frame)
    changed, run.changed_sites = run.changed_sites, outer
    run.changed_sites |= changed
    return changed


def _rounds(one: ir.For, frame: Frame) -> bool:
    """Tell whether a loop adds up other than whole numbers."""
    sums = (each for each in ir.walk(one.body) if isinstance(each, ir.Binary))
    return any(
        not isinstance(root, Plain) or root.type not in (int, bool)
        for each in sums
        if each.in_place
        for root in frame.registers.get(each.left, NOTHING)
        | frame.registers.get(each.right, NOTHING)
    )


def _is_order_free(run: AbstractInterpreter, one: ir.For, frame: Frame) -> bool:
    """Tell whether a comprehension's elements go where their order does not show."""
    made, outer = one.into, frame
    if made is None:
        if frame.made is None or frame.code.name != "<genexpr>":
            return False
        outer = frame.parent or frame
        (called,) = outer.code.users[frame.made.target]
        made = called.target if isinstance(called, ir.Call) else ""
    if _leaves_traces(one.body):
        return False
    build = outer.code.maker_of(made)
    if isinstance(build, ir.Build) and build.kind == "set":
        return True
    return is_taken_in_any_order(run, made, outer)


def give_back(run: AbstractInterpreter, one: ir.Return, here: Here) -> None:
    """Add to the possible results of a function."""
    value, frame = here.frame.registers[one.value], here.frame
    if frame.code.generator and not all(isinstance(root, Plain) for root in value):
        stop = make_at(run, (one, StopIteration), LibraryObject)
        run.heap.put(stop.site, ELEMENTS, value)
        _raise(run, frozenset([stop]))
    if not value <= frame.returned:
        frame.returned |= value
        run.growth += 1


def raise_error(run: AbstractInterpreter, one: ir.Raise, here: Here) -> None:
    for each in (one.error, one.cause):
        if each is not None:
            raised = here.frame.registers[each]
            classes = frozenset(
                root
                for root in raised
                if isinstance(root, Existing) and isinstance(root.obj, type)
            )
            run.call(classes, Arguments(), here)
            _raise(run, raised - classes)


def _raise(run: AbstractInterpreter, raised: Value) -> None:
    """Record the exceptions raised: a handler may catch them."""
    kept = frozenset(root for root in raised if not isinstance(root, Plain))
    if not kept <= run.raised:
        run.raised |= kept
        run.growth += 1


def attempt_block(run: AbstractInterpreter, one: ir.Try, here: Here) -> None:
    frame = here.frame
    execute(run, one.body, frame)
    for handler in one.handlers:
        execute(run, handler.head, frame)
        if handler.name is not None:
            caught = PLAIN if handler.type is None else frame.registers[handler.type]
            made = {make_at(run, handler, each) for each in _kinds_caught(run, caught)}
            for each in made:
                held = join(frame.variables.values()) - made
                run.heap.put(each.site, ELEMENTS, held)
            frame.registers[handler.name] = run.raised | made
        execute(run, handler.body, frame)
    execute(run, one.orelse, frame)
    execute(run, one.final, frame)


def _kinds_caught(run: AbstractInterpreter, caught: Value) -> set[type | None]:
    """Return the classes of the exceptions that a handler may be given."""
    found: set[type | None] = set()
    for root in find_operands(run, caught):
        match root:
            case Existing(obj=type() as cls) if is_users_class(cls):
                found.add(cls)
            case Existing(obj=type() as cls):
                found |= {LibraryObject, *run.universe.subclasses_of(cls)}
            case Fresh(_, kind) if kind is tuple:
                continue
            case Plain(None):
                found |= {LibraryObject, *run.universe.subclasses_of(BaseException)}
            case _:
                found.add(None)
    return found


def enter_context(run: AbstractInterpreter, one: ir.With, here: Here) -> None:
    manager = here.frame.registers[one.manager]
    entered: list[Value] = []
    for root in manager:
        kind = getattr(root, "type", None)
        if class_of(root) is not None:
            entered.append(run_special(run, root, IMPLICIT["with"], here))
        elif isinstance(root, Fresh) and (
            kind in CONTEXTS or facts_about(root) is not None
        ):
            entered.append(run.heap.elements(root.site))
        else:
            text = f"with {here.text} enters a context"
            if isinstance(root, Lost) and root.made:
                note_unknown_package(run, text, NOTHING, here)
            else:
                note_unknown(run, text, here)
    here.frame.registers[one.target] = manager | join(entered)
    execute(run, one.body, here.frame)


def pass_over(_run: AbstractInterpreter, _one: ir.Instruction, _here: Here) -> None:
    """Do nothing: every block is executed anyway."""


def _leaves_traces(block: ir.Block) -> bool:
    """Tell whether a comprehension may reveal its iteration order."""
    stores = (one for one in ir.walk(block) if isinstance(one, ir.Store))
    return any("%" not in one.name for one in stores)


_VALUES: dict[type[ir.Instruction], Callable[[Any, Any, Here], Value]] = {
    ir.Const: read_constant,
    ir.LoadName: load_name,
    ir.Unary: apply_unary,
    ir.Binary: apply_binary,
    ir.Compare: compare_values,
    ir.GetAttribute: get_attribute,
    ir.GetElement: get_element,
    ir.Call: call_value,
    ir.Build: build_container,
    ir.Format: format_value,
    ir.Import: import_module,
    ir.MakeFunction: make_function,
    ir.MakeClass: make_class,
    ir.Match: match_shape,
    ir.Yield: yield_value,
    ir.Unknown: give_unknown,
}
_EFFECTS: dict[type[ir.Instruction], Callable[[Any, Any, Here], None]] = {
    ir.Store: store_value,
    ir.Delete: delete_name,
    ir.SetAttribute: set_attribute,
    ir.SetElement: set_element,
    ir.Add: add_to_container,
    ir.Unpack: unpack_value,
    ir.If: choose_block,
    ir.While: repeat_block,
    ir.For: loop_over,
    ir.Return: give_back,
    ir.Raise: raise_error,
    ir.Try: attempt_block,
    ir.With: enter_context,
    **dict.fromkeys((ir.Break, ir.Continue, ir.Annotate), pass_over),
}
