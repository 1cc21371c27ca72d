"""An abstract interpreter: follows a function without executing it, to a fixed point.

Variables and objects only gain possibilities, and there are finitely many, so repeated
execution of the body terminates. A recursive call joins the call in progress. Calls to
user functions are followed with the values at hand.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import datetime as dt
import enum
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, Final

from anabranch.python import ir
from anabranch.python.attributes import assign_attribute
from anabranch.python.classes import classes_of, is_used_up, member_of, why_not_alike
from anabranch.python.implicit import IMPLICIT
from anabranch.python.known import is_pure
from anabranch.python.library import (
    GETTERS,
    call_declared,
    call_getter,
    call_library,
    call_made_partial,
    call_special,
    call_unbound,
    methods_of,
)
from anabranch.python.loops import find_kept, find_read
from anabranch.python.lower import LoweringError, lower
from anabranch.python.methods import call_arguments, call_method, make_at, make_fresh
from anabranch.python.objects import (
    CONTAINERS,
    class_attribute,
    field_names,
    is_instance_of_users,
    is_scalar_type,
    is_users_class,
    is_users_code,
    makes_instances,
)
from anabranch.python.reach import (
    escape,
    find_lazy,
    find_operands,
    find_reachable,
    look_inside,
    note_unknown,
    note_unknown_code,
    read_existing,
    run_operators,
    run_special,
    watch_cached,
)
from anabranch.python.source import path_to_show
from anabranch.python.steps import execute, hold
from anabranch.python.universe import Universe
from anabranch.python.values import (
    ELEMENTS,
    LOST,
    NOTHING,
    PLAIN,
    AbstractInterpreter,
    Arguments,
    BoundMethod,
    Closure,
    Existing,
    Findings,
    Frame,
    Fresh,
    Here,
    InputPart,
    Lost,
    Method,
    Plain,
    Root,
    SharedPart,
    Value,
    join,
)


def _construct(
    run: AbstractInterpreter, cls: type, args: Arguments, here: Here
) -> Value:
    if not is_users_class(cls):
        return call_library(run, cls, args, here)
    if issubclass(cls, enum.Enum):
        return _find_member(run, cls, args, here)
    if typing.is_typeddict(cls):
        return call_library(run, dict, args, here)
    if type(cls).__call__ is not type.__call__:
        return note_unknown(run, f"{here.callee} has a metaclass", here)
    made = make_fresh(run, here, cls)
    changed = made.site in run.changed_sites
    root = _run_constructors(run, made, args, here)
    if not changed:  # nobody had it while it was being constructed
        run.changed_sites.discard(made.site)
    return root


def _run_constructors(
    run: AbstractInterpreter, made: Fresh, args: Arguments, here: Here
) -> Value:
    """Construct a new object; return the values it may be."""
    cls = made.type
    if issubclass(cls, BaseException):  # in `args`
        run.heap.put(made.site, ELEMENTS, args.all())
    _fill_fields(run, made, cls, args)
    _fill_defaults(run, made, cls, here)
    root: Value = frozenset([made])
    for name in IMPLICIT["construct"]:
        raw = class_attribute(cls, name)
        function = getattr(raw, "__func__", raw)
        if isinstance(function, types.FunctionType):
            given = (
                _init_only(run, made, args, here) if name == "__post_init__" else args
            )
            if name == "__new__":
                root |= _run_new(run, function, made, given, here)
            else:
                _run_constructor(run, function, root, given, here)
        elif name != "__post_init__" and not isinstance(
            raw, types.WrapperDescriptorType | types.BuiltinFunctionType
        ):
            note_unknown(run, f"{here.callee} is constructed by {raw!r}", here)
        elif name in _FILLED_BY:
            _fill_container(run, made, _FILLED_BY[name], args, here)
    if issubclass(cls, collections.OrderedDict):  # it absorbs what it is given
        run_special(
            run, made, IMPLICIT["set element"], here, Arguments(rest=args.all())
        )
    run_special(run, made, IMPLICIT["end"], here, Arguments())
    return root


# Which part of the constructor takes the elements in.
_FILLED_BY: Final[Mapping[str, tuple[type, ...]]] = {
    "__new__": (tuple, frozenset),
    "__init__": (
        *(collections.OrderedDict, collections.defaultdict),
        *(list, dict, set, collections.deque),
    ),
}


def _fill_container(
    run: AbstractInterpreter,
    made: Fresh,
    kinds: tuple[type, ...],
    args: Arguments,
    here: Here,
) -> None:
    """Store what a built-in container, the base of a user's class, is made of."""
    for kind in kinds:
        if issubclass(made.type, kind):
            held = look_inside(run, call_library(run, kind, args, here))
            run.heap.put(made.site, ELEMENTS, held)
            return


def _init_only(
    run: AbstractInterpreter, made: Fresh, args: Arguments, here: Here
) -> Arguments:
    """Return the arguments of `__post_init__`: init-only ones and their defaults."""
    cls = made.type
    names = [*getattr(cls, "__dataclass_fields__", ())]
    fields = {each.name for each in dataclasses.fields(cls)} if names else set()
    if fields.issuperset(names):
        return Arguments()
    text = f"a default of {cls.__name__}"
    defaults = (vars(cls)[name] for name in names if name in vars(cls))
    held = [read_existing(run, each, text, here) for each in defaults]
    return Arguments(rest=join([PLAIN, args.all(), *held]))


def _find_member(
    run: AbstractInterpreter, cls: type[enum.Enum], args: Arguments, here: Here
) -> Value:
    """Look up an enum member by value."""
    if is_users_class(type(cls)):
        return note_unknown(run, f"{here.callee} has a metaclass", here)
    if not cls.__members__:
        return note_unknown(run, f"{here.callee} makes a class", here)
    missing = class_attribute(cls, "_missing_")
    function = getattr(missing, "__func__", missing)
    found: Value = frozenset([member_of(cls)])
    if isinstance(function, types.FunctionType) and is_users_code(function.__code__):
        callee: Value = frozenset([BoundMethod(Existing(cls, cls.__name__), function)])
        found |= run.call(callee, args, here)
    run_operators(run, args.all(), here)
    return found


def _run_new(
    run: AbstractInterpreter,
    function: types.FunctionType,
    made: Fresh,
    args: Arguments,
    here: Here,
) -> Value:
    """Run `__new__`; return the values it may give instead of a new object."""
    if not _is_followed(run, function, made, here):
        return NOTHING
    cls: Value = frozenset([Existing(made.type, made.type.__name__)])
    given = Arguments([cls, *args.positional], args.keywords, args.rest)
    found = run.call_function(function, given, here)
    return found - {Plain(type(None))}


def _run_constructor(
    run: AbstractInterpreter,
    function: types.FunctionType,
    made: Value,
    args: Arguments,
    here: Here,
) -> None:
    """Run `__init__` or `__post_init__` on what `__new__` gives."""
    for root in made:
        if isinstance(root, Fresh) and not _is_followed(run, function, root, here):
            continue
        own = [frozenset([root]), *args.positional]
        given = Arguments(own, args.keywords, args.rest)
        run.call_function(function, given, here)


def _make_instance(
    run: AbstractInterpreter, kind: type, args: Arguments, here: Here
) -> Value:
    """Return what `__new__` of a built-in class makes for a user's class."""
    made: set[Root] = set()
    given = Arguments(args.positional[1:], args.keywords, args.rest)
    for root in join(args.positional[:1]):
        cls = root.obj if isinstance(root, Existing) else None
        if not is_users_class(cls) or args.rest:
            text = f"{here.text} makes an object of a computed class"
            return note_unknown(run, text, here)
        each = make_at(run, (here.step, cls), cls)
        if kind in _FILLED_BY["__new__"]:
            _fill_container(run, each, (kind,), given, here)
        elif is_scalar_type(kind):
            call_library(run, kind, given, here)
        made.add(each)
    return frozenset(made)


def _is_followed(
    run: AbstractInterpreter, function: types.FunctionType, made: Fresh, here: Here
) -> bool:
    """Tell whether a constructor part is the user's; apply the effect of others."""
    generated = function.__code__.co_filename.startswith(("<string>", "<namedtuple"))
    if generated and field_names(made.type) is not None:
        _assign_fields(run, made, here)
        return False
    if not is_users_code(function.__code__):
        text = f"{here.callee} is constructed by code of another package"
        note_unknown(run, text, here)
        return False
    return True


def _assign_fields(run: AbstractInterpreter, made: Fresh, here: Here) -> None:
    """Run the setters and hooks that a dataclass's generated `__init__` runs."""
    if issubclass(made.type, tuple):
        return
    for name in field_names(made.type) or ():
        held = run.heap.get(made.site, name) | run.heap.get(made.site, ELEMENTS)
        assign_attribute(run, frozenset([made]), name, held or PLAIN, here)


def _fill_fields(
    run: AbstractInterpreter, made: Fresh, cls: type, args: Arguments
) -> None:
    names = field_names(cls)
    if names is None:
        return
    for name, value in zip(names, args.positional, strict=False):
        run.heap.put(made.site, name, value)
    for name, value in args.keywords.items():
        run.heap.put(made.site, name, value)
    run.heap.put(made.site, ELEMENTS, args.rest)
    if issubclass(cls, tuple):
        run.heap.put(made.site, ELEMENTS, args.all())


def _fill_defaults(
    run: AbstractInterpreter, made: Fresh, cls: type, here: Here
) -> None:
    """Store the defaults of the arguments that a constructor was not given."""
    text = f"a default of {cls.__name__}"
    for name, default in getattr(cls, "_field_defaults", {}).items():
        held = read_existing(run, default, text, here)
        run.heap.put(made.site, name, held)
    for name, field in getattr(cls, "__dataclass_fields__", {}).items():
        if field.default is not dataclasses.MISSING:
            held = read_existing(run, field.default, text, here)
            run.heap.put(made.site, name, held)
        if field.default_factory is not dataclasses.MISSING:
            factory = read_existing(run, field.default_factory, text, here)
            held = run.call(factory, Arguments(), here)
            run.heap.put(made.site, name, held)


def call_all(
    run: AbstractInterpreter, callee: Value, args: Arguments, here: Here
) -> Value:
    return join(call_one(run, root, args, here) for root in callee)


def call_one(  # noqa: PLR0911 - one return for each kind of value
    run: AbstractInterpreter, root: Root, args: Arguments, here: Here
) -> Value:
    match root:
        case Existing():
            return _call_existing(run, root, args, here)
        case Closure():
            return run.call_function(root, args, here)
        case BoundMethod(owner, function):
            declared = call_declared(run, function, args, here)
            if declared is not None:
                return declared
            own = [frozenset([owner]), *args.positional]
            given = Arguments(own, args.keywords, args.rest)
            return run.call_function(function, given, here)
        case Method(owner, name):
            return call_method(run, owner, name, args, here)
        case Fresh(_, kind) if kind is functools.partial:
            return call_made_partial(run, root, args, here)
        case Fresh(_, kind) if is_users_class(kind):
            return run_special(run, root, IMPLICIT["call"], here, args)
        case Plain() | Lost():
            call_arguments(run, args, here)
            escape(run, args.all() | {root}, here)
            return frozenset([root]) if isinstance(root, Lost) else LOST
    escape(run, args.all(), here)
    text = f"calls {here.callee}, which is handed in or made at run time"
    return note_unknown(run, text, here)


# -- objects that exist already


def _call_existing(  # noqa: C901, PLR0911 - one case for each kind of callable
    run: AbstractInterpreter, root: Existing, args: Arguments, here: Here
) -> Value:
    obj, text = root.obj, root.text
    known = call_declared(run, obj, args, here)
    if known is None:
        known = call_special(run, obj, args, here)
    if known is not None:
        return known
    match obj:
        case types.FunctionType() if is_users_code(obj.__code__):
            return run.call_function(obj, args, here)
        case type():
            return _construct(run, obj, args, here)
        case functools.partial():
            return _call_partial(run, obj, args, here)
        case functools._lru_cache_wrapper() if not is_pure(obj):  # noqa: SLF001
            return _call_cached(run, root, args, here)
        case types.BuiltinFunctionType() if makes_instances(obj):
            return _make_instance(run, getattr(obj, "__self__", object), args, here)
        case types.BuiltinFunctionType() if not isinstance(
            obj.__self__, types.ModuleType | type(None)
        ):
            owner = read_existing(run, obj.__self__, text, here)
            return run.call(methods_of(owner, obj.__name__), args, here)
        case types.MethodDescriptorType() | types.WrapperDescriptorType():
            return call_unbound(run, obj, args, here)
    if isinstance(obj, GETTERS):
        return call_getter(run, obj, args, here)
    if is_instance_of_users(obj):
        return run_special(run, root, IMPLICIT["call"], here, args)
    if type(obj) in CONTAINERS:
        return NOTHING  # raises TypeError
    return call_library(run, obj, args, here)


def _call_cached(
    run: AbstractInterpreter, root: Existing, args: Arguments, here: Here
) -> Value:
    """Call a function whose cache is shared by all calls."""
    obj, text = root.obj, root.text
    inner = read_existing(run, obj.__wrapped__, text, here)
    made = run.call(inner, args, here)
    watch_cached(run, args.all(), here)
    for each in find_operands(run, args.all()):
        why = why_not_alike(each, run.universe)
        if why is not None:
            said = f"the cache of {text} mixes up what is equal: {why}"
            note_unknown(run, said, here)
    if any(
        _is_mixed(run, each, set())
        for each in (*args.positional, args.rest, *args.keywords.values())
    ):
        said = f"the cache of {text} mixes up what is equal: tuples of several classes"
        note_unknown(run, said, here)
    if is_used_up(find_reachable(run, made)):
        note_unknown(run, f"the cache of {text} keeps an iterator", here)
    kinds = [classes_of(each, run.universe) for each in made]
    known = frozenset[type]().union(*(each or () for each in kinds))
    run.found.touch(f"the results of {text}", obj, here.place)
    cached = SharedPart(
        f"a cached result of {text}", id(obj), None if None in kinds else known
    )
    return frozenset([Plain(), cached])


def _is_mixed(run: AbstractInterpreter, value: Value, seen: set[Root]) -> bool:
    """Tell whether a value may be tuples of several classes, which may be equal."""
    found = [classes_of(root, run.universe) or () for root in value]
    if len({each for kinds in found for each in kinds if issubclass(each, tuple)}) > 1:
        return True
    made = {r for r in value if isinstance(r, Fresh) and r not in seen}
    seen |= made
    parts = [run.heap.fields(root.site).values() for root in made]
    return any(_is_mixed(run, each, seen) for held in parts for each in held)


def _call_partial(
    run: AbstractInterpreter, obj: Any, args: Arguments, here: Here
) -> Value:
    text = "an argument of the partial"
    given = [read_existing(run, each, text, here) for each in obj.args]
    named = {
        name: read_existing(run, each, text, here)
        for name, each in obj.keywords.items()
    }
    inner = read_existing(run, obj.func, here.callee, here)
    whole = Arguments([*given, *args.positional], {**named, **args.keywords}, args.rest)
    return run.call(inner, whole, here)


_DEEPEST = 30
_MOST_CALLS = 5_000


class CallFollower(AbstractInterpreter):
    """Follows calls, each function in a frame for its argument values."""

    def __init__(self, universe: Universe) -> None:
        super().__init__(universe)
        self._frames: dict[Any, Frame] = {}
        self._active: dict[Any, Frame] = {}
        self._calls = 0

    def call(self, callee: Value, args: Arguments, here: Here) -> Value:
        return call_all(self, callee, args, here)

    def call_function(
        self, function: types.FunctionType | Closure, args: Arguments, here: Here
    ) -> Value:
        if isinstance(function, Closure):
            code = function.made.function
        else:
            try:
                code = lower(function)
            except LoweringError as error:
                return note_unknown_code(self, str(error), here)
        if code.coroutine:
            return note_unknown_code(self, f"{code.name} is async", here)
        identity = _identity(function)
        if identity in self._active:
            inner = self._active[identity]
        else:
            self._calls += 1
            if len(self._active) > _DEEPEST or self._calls > _MOST_CALLS:
                return note_unknown_code(self, "the code is too large to follow", here)
            key = (identity, _key(args))
            if key not in self._frames:
                self._frames[key] = self._frame(function, code)
            inner = self._frames[key]
        self._pass_arguments(function, args, inner, here)
        self._run(identity, inner)
        return self._result(inner)

    def call_generator(self, closure: Closure, source: Value, here: Here) -> Value:
        code, identity = closure.made.function, _identity(closure)
        if identity not in self._frames:
            self._frames[identity] = self._frame(closure, code)
        inner = self._frames[identity]
        hold(self, code.parameters[0], source, inner)
        self._run(identity, inner)
        return self._result(inner)

    def _frame(
        self, function: types.FunctionType | Closure, code: ir.Function
    ) -> Frame:
        if isinstance(code.node, ast.FunctionDef | ast.Lambda):
            self.found.visited.add(code.node)
        if isinstance(function, Closure):
            outer = function.frame
            return Frame(code, outer.file, outer.function, outer, function.made)
        outer = self.defined_in.get(id(function))
        return Frame(code, path_to_show(code.file), function, outer)

    def _run(self, identity: Any, frame: Frame) -> None:
        """Execute a function to a fixed point, unless it is already in progress."""
        if identity not in self._active and frame.finished_at != self.progress:
            self._active[identity] = frame
            outer, self.changed_sites = self.changed_sites, frame.changed_sites
            before = -1
            while before != self.progress:
                before = self.progress
                execute(self, frame.code.body, frame)
            frame.finished_at = before
            self._keep(frame)
            self.changed_sites = outer
            del self._active[identity]
        self.changed_sites |= frame.changed_sites

    def _keep(self, frame: Frame) -> None:
        """Record what a generator still reaches after it has yielded."""
        if frame.code.generator:
            for load in find_kept(frame.code):
                self.kept |= frame.registers.get(load.target, NOTHING)
            for iterable in find_read(frame.code):
                self.kept |= find_lazy(frame.registers.get(iterable, NOTHING))
            for name in frame.code.captured:
                self.kept |= frame.variables.get(name, NOTHING)

    def _result(self, inner: Frame) -> Value:
        if not inner.code.generator:
            return inner.returned
        fresh = make_at(self, inner.code, types.GeneratorType)
        self.heap.put(fresh.site, ELEMENTS, inner.yielded)
        return frozenset([fresh])

    # -- arguments

    def _pass_arguments(
        self,
        function: types.FunctionType | Closure,
        args: Arguments,
        inner: Frame,
        here: Here,
    ) -> None:
        code = inner.code
        names, keywords = code.parameters, (*code.parameters, *code.keyword_only)
        for name, value in zip(names, args.positional, strict=False):
            hold(self, name, value, inner)
        extra = args.positional[len(names) :]
        for index, name in enumerate(keywords):
            rest = NOTHING if index < len(args.positional) else args.rest
            hold(self, name, args.keywords.get(name, NOTHING) | rest, inner)
        others = [v for n, v in args.keywords.items() if n not in keywords]
        kinds = (tuple, dict)
        for star, kind, values in zip(
            code.varying, kinds, (extra, others), strict=True
        ):
            if star is not None:
                fresh = make_at(self, (code, star), kind)
                self.heap.put(fresh.site, ELEMENTS, join([*values, args.rest]))
                hold(self, star, frozenset([fresh]), inner)
        given = {*names[: len(args.positional)], *args.keywords}
        for name, default in self._defaults(function, code, here):
            if name not in given:
                hold(self, name, default, inner)

    def _defaults(
        self, function: types.FunctionType | Closure, code: ir.Function, here: Here
    ) -> list[tuple[str, Value]]:
        if isinstance(function, Closure):
            registers = function.frame.registers
            made = function.made.defaults
            return [(each.name, registers[each.value]) for each in made]
        late = function.__defaults__ or ()
        values = [
            *zip(reversed(code.parameters), reversed(late), strict=False),
            *(function.__kwdefaults__ or {}).items(),
        ]
        at = Here(ir.Instruction(code.node), here.frame)
        return [
            (name, read_existing(self, value, f"the default of {name}", at))
            for name, value in values
        ]


def _identity(function: types.FunctionType | Closure) -> Any:
    if isinstance(function, Closure):
        return (function.made, id(function.frame))
    return id(function)


def _key(args: Arguments) -> Any:
    return (
        tuple(args.positional),
        tuple(sorted(args.keywords.items(), key=lambda pair: pair[0])),
        args.rest,
    )


def follow(universe: Universe, callee: Any, args: Arguments) -> tuple[Findings, Value]:
    """Return the effects and the result of calling an object with these arguments."""
    run, result = follow_call(universe, callee, args)
    return run.found, result


def follow_call(
    universe: Universe, callee: Any, args: Arguments
) -> tuple[AbstractInterpreter, Value]:
    """Call an object; return the interpreter that followed it, and the result."""
    run = CallFollower(universe)
    here = outermost(callee)
    value = read_existing(run, callee, _name(callee), here)
    result = run.call(value, args, here)
    for cls in universe.subclasses_of(dt.tzinfo):  # any datetime may have one
        zone: Root = InputPart(cls)
        run_special(run, zone, IMPLICIT["time zone"], here, Arguments([PLAIN]))
    return run, result


def outermost(callee: Any) -> Here:
    """Return the place from which an operator's function is called."""
    target = getattr(callee, "__func__", callee)
    code = target.__code__ if isinstance(target, types.FunctionType) else None
    file = "<builtin>" if code is None else path_to_show(code.co_filename)
    return place_of_call(
        _name(callee), file, 0 if code is None else code.co_firstlineno
    )


def place_of_call(name: str, file: str, line: int) -> Here:
    """Return a place outside all functions where something is called by name."""
    node = ast.Name(name, ast.Load(), lineno=line)
    code = ir.Function(name, (), (), file, node)
    return Here(ir.Instruction(node), Frame(code, file, place_of_call))  # type: ignore[arg-type]


def _name(callee: Any) -> str:
    name = getattr(callee, "__qualname__", type(callee).__qualname__)
    return str(name).rpartition("<locals>.")[2]
