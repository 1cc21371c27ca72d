"""The small instruction set that functions are lowered to.

All passes share this one reading of Python; `lower` produces it. An instruction does
one thing: it computes a value, reads or writes a name, an attribute or an element, or
calls. Every computed value has a name of its own, a *register* (`%1`, `%2`, ...), so
expressions are not nested and the order of evaluation is the order of the text. What is
conditional in Python is conditional here: `and`, `or`, chained comparisons, conditional
expressions, comprehensions and patterns become `If` and `For` over registers.

Control flow is explicit and structured: a `Block` is a tuple of instructions, and `If`,
`For`, `While`, `Try` and `With` contain blocks. The only jumps are `Break`, `Continue`,
`Return` and `Raise`. Each instruction knows the source code it came from.

Every function has a lowering. Code that no pass can follow, such as `await`, becomes an
`Unknown`.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias

Register: TypeAlias = str
Scope: TypeAlias = Literal["local", "cell", "global"]


@dataclass(frozen=True, eq=False)
class Instruction:
    """One step of a function; `at` is its source code."""

    at: ast.AST

    @property
    def line(self) -> int:
        """The line in the file."""
        return int(getattr(self.at, "lineno", 0))

    @property
    def text(self) -> str:
        """The code as the user wrote it."""
        return show_code(self.at)


Block: TypeAlias = tuple[Instruction, ...]


@dataclass(frozen=True, eq=False)
class Const(Instruction):
    """`target = value`, a literal."""

    target: Register
    value: Any


@dataclass(frozen=True, eq=False)
class LoadName(Instruction):
    """`target = name`."""

    target: Register
    name: str
    scope: Scope


@dataclass(frozen=True, eq=False)
class Store(Instruction):
    """`name = value`; a register is a local name like any other."""

    name: str
    scope: Scope
    value: Register


@dataclass(frozen=True, eq=False)
class Delete(Instruction):
    """`del name`."""

    name: str
    scope: Scope


@dataclass(frozen=True, eq=False)
class Unary(Instruction):
    """`target = op value`."""

    target: Register
    op: str
    value: Register


@dataclass(frozen=True, eq=False)
class Binary(Instruction):
    """`target = left op right`; in place where the text says `left op= right`."""

    target: Register
    op: str
    left: Register
    right: Register
    in_place: bool = False


@dataclass(frozen=True, eq=False)
class Compare(Instruction):
    """`target = left op right`, one comparison of a chain."""

    target: Register
    op: str
    left: Register
    right: Register


@dataclass(frozen=True, eq=False)
class GetAttribute(Instruction):
    """`target = value.name`; `called` if it is a method called at once."""

    target: Register
    value: Register
    name: str
    called: bool = False


@dataclass(frozen=True, eq=False)
class SetAttribute(Instruction):
    """`value.name = new`, or `del value.name` if `new` is None."""

    value: Register
    name: str
    new: Register | None


@dataclass(frozen=True, eq=False)
class GetElement(Instruction):
    """`target = value[index]`."""

    target: Register
    value: Register
    index: Register


@dataclass(frozen=True, eq=False)
class SetElement(Instruction):
    """`value[index] = new`, or `del value[index]` if `new` is None."""

    value: Register
    index: Register
    new: Register | None


@dataclass(frozen=True, eq=False)
class Argument:
    """An argument of a call: `name` is "" for positional; "*" and "**" unpack."""

    value: Register
    name: str = ""


@dataclass(frozen=True, eq=False)
class Call(Instruction):
    """`target = function(*arguments)`."""

    target: Register
    function: Register
    arguments: tuple[Argument, ...]

    @property
    def callee(self) -> str:
        """The code of the callee; for a decorator, all of it."""
        return show_code(self.at.func if isinstance(self.at, ast.Call) else self.at)


@dataclass(frozen=True, eq=False)
class Build(Instruction):
    """`target` is a new tuple, list, set, dict (keys and values in turn), slice or str.

    The items in `starred` are unpacked into it.
    """

    target: Register
    kind: Literal["tuple", "list", "set", "dict", "slice", "str"]
    items: tuple[Register, ...]
    starred: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class Format(Instruction):
    """`target` is `value` formatted as a field of an f-string."""

    target: Register
    value: Register
    conversion: str
    spec: Register | None


@dataclass(frozen=True, eq=False)
class Add(Instruction):
    """Adds to the container of a comprehension: an element, or a key and a value."""

    container: Register
    values: tuple[Register, ...]


@dataclass(frozen=True, eq=False)
class Unpack(Instruction):
    """`targets = value`; the target at index `star`, if any, takes the rest."""

    targets: tuple[Register, ...]
    value: Register
    star: int | None = None


@dataclass(frozen=True, eq=False)
class Import(Instruction):
    """`target` is a module or an attribute of one; only the top package if `top`."""

    target: Register
    module: str
    attribute: str | None = None
    top: bool = False


@dataclass(frozen=True, eq=False)
class MakeFunction(Instruction):
    """`target` is a nested function; `defaults` by parameter."""

    target: Register
    function: Function
    defaults: tuple[Argument, ...] = ()


@dataclass(frozen=True, eq=False)
class Decorator:
    """A class decorator: `function`, called with `arguments` first if there are any."""

    at: ast.expr
    function: Register
    arguments: tuple[Argument, ...] | None = None


@dataclass(frozen=True, eq=False)
class MakeClass(Instruction):
    """`target` is a class; `body` runs to define its initial names."""

    target: Register
    body: Function
    bases: tuple[Argument, ...] = ()
    decorators: tuple[Decorator, ...] = ()


@dataclass(frozen=True, eq=False)
class Annotate(Instruction):
    """Declares a field in a class body."""

    name: str
    annotation: ast.expr


@dataclass(frozen=True, eq=False)
class Match(Instruction):
    """`target` tells whether `value` matches a shape; if so, `parts` are set.

    The parts of a sequence are its elements (`star`: the index that takes the rest); of
    a mapping, the values of `keys` and then, if `star`, the rest; of an instance of the
    class `keys[0]`, its attributes `names`, where "" is the next one of
    `__match_args__`.
    """

    target: Register
    value: Register
    shape: Literal["sequence", "mapping", "class"]
    parts: tuple[Register, ...] = ()
    keys: tuple[Register, ...] = ()
    names: tuple[str, ...] = ()
    star: int | None = None


@dataclass(frozen=True, eq=False)
class Unknown(Instruction):
    """Code without a lowering, named by `what`. `target` may be anything."""

    what: str
    target: Register


@dataclass(frozen=True, eq=False)
class Yield(Instruction):
    """`target = yield value`, or `yield from value` if it `delegates`."""

    target: Register
    value: Register
    delegates: bool = False


@dataclass(frozen=True, eq=False)
class If(Instruction):
    """Runs `then` if the register is true, else `orelse`."""

    test: Register
    then: Block
    orelse: Block = ()


@dataclass(frozen=True, eq=False)
class While(Instruction):
    """Runs `head` and then, while `test` is true, `body`; `orelse` unless it breaks."""

    head: Block
    test: Register
    body: Block
    orelse: Block = ()


@dataclass(frozen=True, eq=False)
class For(Instruction):
    """Runs `body` for each element of `iterable` in `target`; `orelse` as above.

    For a comprehension, `into` is the container it fills.
    """

    target: Register
    iterable: Register
    body: Block
    orelse: Block = ()
    into: Register | None = None


@dataclass(frozen=True, eq=False)
class Break(Instruction):
    """Leaves the innermost loop."""


@dataclass(frozen=True, eq=False)
class Continue(Instruction):
    """Continues with the next iteration of the innermost loop."""


@dataclass(frozen=True, eq=False)
class Return(Instruction):
    """Returns a value from the function."""

    value: Register


@dataclass(frozen=True, eq=False)
class Raise(Instruction):
    """Raises an error; the current one if `error` is None."""

    error: Register | None
    cause: Register | None = None


@dataclass(frozen=True, eq=False)
class Handler:
    """An exception handler: `head` computes `type`; None catches everything."""

    at: ast.ExceptHandler
    head: Block
    type: Register | None
    name: Register | None
    body: Block


@dataclass(frozen=True, eq=False)
class Try(Instruction):
    """Runs `body`; the first matching handler on an error; `orelse` without one."""

    body: Block
    handlers: tuple[Handler, ...] = ()
    orelse: Block = ()
    final: Block = ()
    groups: bool = False


@dataclass(frozen=True, eq=False)
class With(Instruction):
    """Runs `body` inside a context manager, whose value goes to `target`."""

    manager: Register
    target: Register
    body: Block


@dataclass(frozen=True, eq=False)
class Function:
    """A function as instructions. Parameters and registers are local names."""

    name: str
    parameters: tuple[str, ...]
    body: Block
    file: str
    node: ast.AST  # it was lowered from
    generator: bool = False
    coroutine: bool = False
    varying: tuple[str | None, str | None] = (None, None)  # *args and **kwargs
    keyword_only: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()  # local names, without registers
    free: frozenset[str] = frozenset()  # names of enclosing functions it may use

    def __str__(self) -> str:
        return "\n".join(_show(self.body, 0))

    @property
    def line(self) -> int:
        """The line in the file."""
        return int(getattr(self.node, "lineno", 0))

    @functools.cached_property
    def makers(self) -> Mapping[Register, tuple[Instruction, ...]]:
        """The instructions that set each register; a conditional value has several."""
        return _collect(self.body, targets_of)

    @functools.cached_property
    def users(self) -> Mapping[Register, tuple[Instruction, ...]]:
        """The instructions that use each register."""
        return _collect(self.body, registers_of)

    @functools.cached_property
    def filled(self) -> frozenset[Register]:
        """The containers of comprehensions."""
        loops = (one for one in walk(self.body) if isinstance(one, For))
        return frozenset(one.into for one in loops if one.into is not None)

    def maker_of(self, register: Register) -> Instruction | None:
        """Return the only instruction that sets a register; None if several do."""
        found = self.makers.get(register, ())
        return found[0] if len(found) == 1 else None

    @functools.cached_property
    def captured(self) -> frozenset[str]:
        """Its own names that nested functions use; these may run later."""
        return frozenset(
            name for one in walk(self.body) for name in _names_captured(one)
        )


def walk(block: Block) -> Iterator[Instruction]:
    """Yield the instructions of a block and its nested blocks, in order."""
    for one in block:
        yield one
        for inner in blocks_of(one):
            yield from walk(inner)


def _collect(
    block: Block, names_of: Callable[[Instruction], tuple[Register, ...]]
) -> dict[Register, tuple[Instruction, ...]]:
    found: dict[Register, tuple[Instruction, ...]] = {}
    for one in walk(block):
        for name in names_of(one):
            found[name] = (*found.get(name, ()), one)
    return found


def functions_in(block: Block) -> Iterator[Function]:
    """Yield the functions and class bodies that a block defines."""
    for one in walk(block):
        if isinstance(one, MakeFunction):
            yield one.function
        elif isinstance(one, MakeClass):
            yield one.body


def _names_captured(one: Instruction) -> Iterator[str]:
    """Yield the outer names used by a function that an instruction defines."""
    if isinstance(one, MakeFunction):
        inner, hidden = one.function, one.function.own
    elif isinstance(one, MakeClass):
        inner, hidden = one.body, frozenset()  # its methods do not see its names
    else:
        return
    for each in walk(inner.body):
        if isinstance(each, LoadName | Store | Delete) and each.scope == "cell":
            yield each.name
    yield from inner.captured - hidden


def blocks_of(one: Instruction) -> tuple[Block, ...]:
    """Return the blocks nested in an instruction, without those of functions."""
    match one:
        case If(then=first, orelse=second):
            return first, second
        case While(head=head, body=first, orelse=second):
            return head, first, second
        case For(body=first, orelse=second):
            return first, second
        case Try(body=body, handlers=handlers, orelse=orelse, final=final):
            caught = chain.from_iterable((h.head, h.body) for h in handlers)
            return (body, *caught, orelse, final)
        case With(body=body):
            return (body,)
    return ()


def targets_of(one: Instruction) -> tuple[Register, ...]:
    """Return the registers that an instruction itself sets."""
    match one:
        case Store(name=name) if name.startswith("%"):
            return (name,)
        case Unpack(targets=targets):
            return targets
        case Match(target=target, parts=parts):
            return (target, *parts)
        case Try(handlers=handlers):
            return tuple(h.name for h in handlers if h.name is not None)
    found: Register | None = getattr(one, "target", None)
    return () if found is None else (found,)


def registers_of(  # noqa: C901, PLR0911, PLR0912 - a table
    one: Instruction,
) -> tuple[Register, ...]:
    """Return the registers that an instruction itself uses."""
    match one:
        case Binary(left=left, right=right) | Compare(left=left, right=right):
            return left, right
        case SetAttribute(value=value, new=new):
            return (value,) if new is None else (value, new)
        case GetElement(value=value, index=index):
            return value, index
        case SetElement(value=value, index=index, new=new):
            return (value, index) if new is None else (value, index, new)
        case Call(function=function, arguments=arguments):
            return (function, *(each.value for each in arguments))
        case Build(items=items):
            return tuple(filter(None, items))
        case Format(value=value, spec=spec):
            return (value,) if spec is None else (value, spec)
        case Add(container=container, values=values):
            return (container, *values)
        case MakeFunction(defaults=defaults):
            return tuple(each.value for each in defaults)
        case MakeClass(bases=bases, decorators=decorators):
            given = (each.value for d in decorators for each in d.arguments or ())
            called = (each.function for each in decorators)
            return (*(each.value for each in bases), *called, *given)
        case Match(value=value, keys=keys):
            return (value, *keys)
        case If(test=test) | While(test=test):
            return (test,)
        case For(iterable=iterable):
            return (iterable,)
        case Raise(error=error, cause=cause):
            return tuple(each for each in (error, cause) if each is not None)
        case Try(handlers=handlers):
            return tuple(h.type for h in handlers if h.type is not None)
        case With(manager=manager):
            return (manager,)
        case Const() | LoadName():
            return ()
    used = getattr(one, "value", None)
    return (used,) if isinstance(used, str) else ()


class NotLiteralError(Exception):
    """A value is not a literal."""


def literal_of(register: Register, function: Function) -> Any:
    """Return the value of a register that is a literal: constants and displays.

    Raise `NotLiteralError` for any other.
    """
    match function.maker_of(register):
        case _ if register in function.filled:
            pass
        case Const(value=value):
            return value
        case Unary(op="-" | "+" as op, value=inner):
            value = literal_of(inner, function)
            if isinstance(value, int | float | complex):
                return -value if op == "-" else value
        case Build(kind="dict", items=items, starred=starred) if not starred:
            parts = [literal_of(item, function) for item in items]
            return dict(zip(parts[::2], parts[1::2], strict=True))
        case Build(kind="tuple" | "list" | "set" as kind, items=items, starred=starred):
            if not starred:
                made = [literal_of(item, function) for item in items]
                return {"tuple": tuple, "list": list, "set": set}[kind](made)
    raise NotLiteralError(register)


def show_code(node: ast.AST, limit: int = 40) -> str:
    """Return code as the user wrote it.

    >>> show_code(ast.parse("seen.append( x )").body[0])
    'seen.append(x)'
    """
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _show(block: Block, depth: int) -> Iterator[str]:
    """Yield a block as text that looks like Python."""
    indent = "    " * depth
    if not block:
        yield f"{indent}pass"
    for one in block:
        yield from (indent + line for line in _lines(one))


def _inner(block: Block) -> list[str]:
    return list(_show(block, 1))


def _lines(one: Instruction) -> list[str]:  # noqa: PLR0911 - a table
    """Return the lines of an instruction; those of its blocks are indented."""
    match one:
        case MakeFunction(target=target, function=function):
            head = f"{target} = def {function.name}({', '.join(function.parameters)}):"
            return [head, *_inner(function.body)]
        case MakeClass(target=target, body=function):
            return [f"{target} = class {function.name}:", *_inner(function.body)]
        case If(test=test, then=then, orelse=orelse):
            other = ["else:", *_inner(orelse)] if orelse else []
            return [f"if {test}:", *_inner(then), *other]
        case While(head=head_block, test=test, body=body, orelse=orelse):
            other = ["else:", *_inner(orelse)] if orelse else []
            return ["while:", *_inner(head_block), f"{test} do:", *_inner(body), *other]
        case For(target=target, iterable=iterable, body=body, orelse=orelse):
            other = ["else:", *_inner(orelse)] if orelse else []
            return [f"for {target} in {iterable}:", *_inner(body), *other]
        case Try(body=body, handlers=handlers, orelse=orelse, final=final):
            lines = ["try:", *_inner(body)]
            for handler in handlers:
                caught = [*_show(handler.head, 0)] if handler.head else []
                lines += [
                    *caught,
                    f"except {handler.type or ''}:",
                    *_inner(handler.body),
                ]
            lines += ["else:", *_inner(orelse)] if orelse else []
            return lines + (["finally:", *_inner(final)] if final else [])
        case With(manager=manager, target=target, body=body):
            return [f"with {manager} as {target}:", *_inner(body)]
    return [_line(one)]


def _line(one: Instruction) -> str:  # noqa: C901, PLR0911, PLR0912 - a table
    """Return an instruction without blocks as a line."""
    match one:
        case Const(target=target, value=value):
            return f"{target} = {value!r}"
        case LoadName(target=target, name=name, scope=scope):
            return f"{target} = {name}" + ("" if scope == "local" else f"  # {scope}")
        case Store(name=name, value=value, scope=scope):
            return f"{name} = {value}" + ("" if scope == "local" else f"  # {scope}")
        case Delete(name=name):
            return f"del {name}"
        case Unary(target=target, op=op, value=value):
            return f"{target} = {op} {value}"
        case Binary(target=target, op=op, left=left, right=right, in_place=in_place):
            return f"{target} = {left} {op}{'=' if in_place else ''} {right}"
        case Compare(target=target, op=op, left=left, right=right):
            return f"{target} = {left} {op} {right}"
        case GetAttribute(target=target, value=value, name=name):
            return f"{target} = {value}.{name}"
        case SetAttribute(value=value, name=name, new=new):
            return f"{value}.{name} = {new}" if new else f"del {value}.{name}"
        case GetElement(target=target, value=value, index=index):
            return f"{target} = {value}[{index}]"
        case SetElement(value=value, index=index, new=new):
            return f"{value}[{index}] = {new}" if new else f"del {value}[{index}]"
        case Call(target=target, function=function, arguments=arguments):
            texts = [
                a.name + a.value if a.name in ("", "*", "**") else f"{a.name}={a.value}"
                for a in arguments
            ]
            return f"{target} = {function}({', '.join(texts)})"
        case Build(target=target, kind=kind, items=items, starred=starred):
            texts = ["*" * (n in starred) + item for n, item in enumerate(items)]
            return f"{target} = {kind}({', '.join(texts)})"
        case Format(target=target, value=value):
            return f"{target} = format({value})"
        case Add(container=container, values=values):
            return f"{container} << {', '.join(values)}"
        case Unpack(targets=targets, value=value, star=star):
            texts = ["*" * (n == star) + target for n, target in enumerate(targets)]
            return f"{', '.join(texts)} = {value}"
        case Import(target=target, module=module, attribute=attribute):
            return f"{target} = import {module}" + (
                f".{attribute}" if attribute else ""
            )
        case Annotate(name=name, annotation=annotation):
            return f"{name}: {show_code(annotation)}"
        case Match(target=target, value=value, shape=shape, parts=parts):
            return f"{target} = {value} is {shape}({', '.join(parts)})"
        case Unknown(what=what):
            return f"unknown: {what}"
        case Yield(target=target, value=value, delegates=delegates):
            return f"{target} = yield {'from ' * delegates}{value}"
        case Break():
            return "break"
        case Continue():
            return "continue"
        case Return(value=value):
            return f"return {value}"
        case Raise(error=error):
            return f"raise {error}" if error else "raise"
    return type(one).__name__.lower()
