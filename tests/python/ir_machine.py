"""Runs lowered functions step by step, to compare them with Python itself."""

# ruff: noqa: B020, EM101

from __future__ import annotations

import builtins
import collections.abc
import contextlib
import importlib
import operator
import types

from anabranch.python import ir
from anabranch.python.lower import lower

UNARY = {
    "+": operator.pos,
    "-": operator.neg,
    "~": operator.invert,
    "not": operator.not_,
}
BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
IN_PLACE = {**BINARY, "+": operator.iadd, "|": operator.ior}
COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}
BUILD = {"tuple": tuple, "list": list, "set": set, "str": "".join}


class LeaveError(Exception):
    """A jump: break, continue or return."""

    def __init__(self, how, value=None):
        self.how, self.value = how, value


class Machine:
    """A call of a lowered function."""

    methods = None  # what functions see that the body of a class makes

    def __init__(self, function, names, scope, cells):
        self.function, self.names, self.scope, self.cells = (
            function,
            names,
            scope,
            cells,
        )

    def run(self):
        try:
            yield from self.block(self.function.body)
        except LeaveError as leave:
            return leave.value

    def block(self, block):
        for one in block:
            yield from self.step(one)

    def lookup(self, name, scope):
        if scope == "local":
            return self.names[name]
        if scope == "cell":
            return next(c[name] for c in self.cells if name in c)
        return self.scope[name] if name in self.scope else getattr(builtins, name)

    def loop(self, one, body, orelse):
        """Run a round; tell whether the loop goes on."""
        try:
            yield from self.block(body)
        except LeaveError as leave:
            if leave.how == "return":
                raise
            return leave.how == "continue"
        return True

    def make_class(self, one):
        cell, names = {}, {"__module__": self.scope["__name__"]}
        outer = (self.names, *self.cells)
        body = Machine(one.body, names, self.scope, outer)
        body.methods = (cell, *outer)
        with contextlib.suppress(LeaveError):
            yield from body.block(one.body.body)
        own = {k: v for k, v in names.items() if not k.startswith("%")}
        bases = tuple(self.names[base.value] for base in one.bases)
        made = cell["__class__"] = types.new_class(
            one.body.name, bases, {}, lambda space: space.update(own)
        )
        for decorator in reversed(one.decorators):
            wrap = self.names[decorator.function]
            if decorator.arguments is not None:
                wrap = wrap(
                    **{a.name: self.names[a.value] for a in decorator.arguments}
                )
            made = wrap(made)
        return made

    def match(self, one):  # noqa: C901 - one case for each shape
        n, value = self.names, self.names[one.value]
        keys = [n[key] for key in one.keys]
        match one.shape:
            case "sequence":
                if not isinstance(value, collections.abc.Sequence) or isinstance(
                    value, str | bytes | bytearray
                ):
                    return False
                least = len(one.parts) - (one.star is not None)
                if len(value) < least or (one.star is None and len(value) > least):
                    return False
                values = list(value)
                if one.star is not None:
                    rest = len(values) - least
                    values[one.star : one.star + rest] = [
                        values[one.star : one.star + rest]
                    ]
            case "mapping":
                if not isinstance(value, collections.abc.Mapping) or any(
                    key not in value for key in keys
                ):
                    return False
                values = [value[key] for key in keys]
                if one.star is not None:
                    values.append({k: v for k, v in value.items() if k not in keys})
            case "class":
                if not isinstance(value, keys[0]):
                    return False
                names = list(one.names)
                for number, name in enumerate(names):
                    if not name and keys[0] not in (int, str, float, list, dict, tuple):
                        names[number] = keys[0].__match_args__[number]
                if any(name and not hasattr(value, name) for name in names):
                    return False
                values = [getattr(value, name) if name else value for name in names]
        n.update(zip(one.parts, values, strict=True))
        return True

    def step(self, one):  # noqa: C901, PLR0912, PLR0915
        n = self.names
        match one:
            case ir.Const():
                n[one.target] = one.value
            case ir.LoadName():
                n[one.target] = self.lookup(one.name, one.scope)
            case ir.Store(scope="local"):
                n[one.name] = n[one.value]
            case ir.Store(scope="cell"):
                held = [c for c in self.cells if one.name in c]
                (held or self.cells)[0][one.name] = n[one.value]
            case ir.Store():
                self.scope[one.name] = n[one.value]
            case ir.Delete():
                del n[one.name]
            case ir.Unary():
                n[one.target] = UNARY[one.op](n[one.value])
            case ir.Binary():
                table = IN_PLACE if one.in_place else BINARY
                n[one.target] = table[one.op](n[one.left], n[one.right])
            case ir.Compare():
                n[one.target] = COMPARE[one.op](n[one.left], n[one.right])
            case ir.GetAttribute():
                n[one.target] = getattr(n[one.value], one.name)
            case ir.SetAttribute(new=None):
                delattr(n[one.value], one.name)
            case ir.SetAttribute():
                setattr(n[one.value], one.name, n[one.new])
            case ir.GetElement():
                n[one.target] = n[one.value][n[one.index]]
            case ir.SetElement(new=None):
                del n[one.value][n[one.index]]
            case ir.SetElement():
                n[one.value][n[one.index]] = n[one.new]
            case ir.Call():
                args, keywords = [], {}
                for given in one.arguments:
                    value = n[given.value]
                    if given.name == "":
                        args.append(value)
                    elif given.name == "*":
                        args += value
                    else:
                        keywords.update(
                            value if given.name == "**" else {given.name: value}
                        )
                if n[one.function] is super:
                    first = n[self.function.parameters[0]]
                    args = [self.lookup("__class__", "cell"), first]
                n[one.target] = n[one.function](*args, **keywords)
            case ir.Build(kind="slice"):
                n[one.target] = slice(*(n[item] for item in one.items))
            case ir.Build(kind="dict"):
                made = n[one.target] = {}
                for k in range(0, len(one.items), 2):
                    first = n[one.items[k]]
                    made.update(
                        first if k in one.starred else {first: n[one.items[k + 1]]}
                    )
            case ir.Build():
                values = []
                for k, item in enumerate(one.items):
                    values += n[item] if k in one.starred else [n[item]]
                n[one.target] = BUILD[one.kind](values)
            case ir.Format():
                convert = {"": lambda v: v, "r": repr, "s": str, "a": ascii}
                value = convert[one.conversion](n[one.value])
                n[one.target] = format(value, n[one.spec] if one.spec else "")
            case ir.Add(values=(value,)):
                made = n[one.container]
                made.append(n[value]) if isinstance(made, list) else made.add(n[value])
            case ir.Add(values=(key, value)):
                n[one.container][n[key]] = n[value]
            case ir.Unpack(star=None):
                values = list(n[one.value])
                n.update(zip(one.targets, values, strict=True))
            case ir.Unpack():
                values, after = list(n[one.value]), len(one.targets) - one.star - 1
                rest = values[one.star : len(values) - after]
                values[one.star : len(values) - after] = [rest]
                n.update(zip(one.targets, values, strict=True))
            case ir.Import(top=True):
                n[one.target] = __import__(one.module)
            case ir.Import():
                module = importlib.import_module(one.module)
                n[one.target] = (
                    getattr(module, one.attribute) if one.attribute else module
                )
            case ir.MakeFunction():
                defaults = {d.name: n[d.value] for d in one.defaults}
                seen = self.methods or (n, *self.cells)
                n[one.target] = call(one.function, self.scope, seen, defaults)
            case ir.MakeClass():
                n[one.target] = yield from self.make_class(one)
            case ir.Annotate():
                n.setdefault("__annotations__", {})[one.name] = object
            case ir.Match():
                n[one.target] = self.match(one)
            case ir.Yield(delegates=True):
                n[one.target] = yield from n[one.value]
            case ir.Yield():
                n[one.target] = yield n[one.value]
            case ir.If():
                yield from self.block(one.then if n[one.test] else one.orelse)
            case ir.While():
                while True:
                    yield from self.block(one.head)
                    if not n[one.test]:
                        yield from self.block(one.orelse)
                        break
                    if not (yield from self.loop(one, one.body, one.orelse)):
                        break
            case ir.For():
                for n[one.target] in n[one.iterable]:
                    if not (yield from self.loop(one, one.body, one.orelse)):
                        break
                else:
                    yield from self.block(one.orelse)
            case ir.Break():
                raise LeaveError("break")
            case ir.Continue():
                raise LeaveError("continue")
            case ir.Return():
                raise LeaveError("return", n[one.value])
            case ir.Raise(error=None):
                raise  # noqa: PLE0704 - inside of a handler
            case ir.Raise():
                raise n[one.error] from (n[one.cause] if one.cause else None)
            case ir.Try():
                try:
                    try:
                        yield from self.block(one.body)
                    except LeaveError:
                        raise
                    except BaseException as error:
                        for handler in one.handlers:
                            yield from self.block(handler.head)
                            kind = handler.type and n[handler.type]
                            if kind is None or isinstance(error, kind):
                                if handler.name:
                                    n[handler.name] = error
                                yield from self.block(handler.body)
                                break
                        else:
                            raise
                    else:
                        yield from self.block(one.orelse)
                finally:
                    yield from self.block(one.final)
            case ir.With():
                with n[one.manager] as n[one.target]:
                    yield from self.block(one.body)
            case _:
                raise NotImplementedError(one)


def call(function, scope, cells=(), defaults=None):
    """Return a lowered function as one that Python can call."""

    def called(*args, **keywords):
        names = dict(defaults or {})
        named = function.parameters
        names.update(zip(named, args, strict=False))
        rest, more = function.varying
        if rest:
            names[rest] = args[len(named) :]
        own = {
            k: v for k, v in keywords.items() if k in (*named, *function.keyword_only)
        }
        names.update(own)
        if more:
            names[more] = {k: v for k, v in keywords.items() if k not in own}
        running = Machine(function, names, scope, cells).run()
        if function.generator:
            return running
        try:
            next(running)
        except StopIteration as end:
            return end.value
        raise AssertionError

    return called


def machine_of(function):
    """Return a Python function as the machine runs it."""
    cells = {}
    for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True
    ):
        cells[name] = cell.cell_contents
    names = function.__code__.co_varnames
    late = function.__defaults__ or ()
    taken = names[: function.__code__.co_argcount]
    defaults = dict(zip(taken[len(taken) - len(late) :], late, strict=True))
    defaults.update(function.__kwdefaults__ or {})
    return call(lower(function), function.__globals__, (cells,), defaults)
