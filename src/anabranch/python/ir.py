"""Lowers a function from its syntax tree to a small set of instructions.

The one reading of Python that passes share. An instruction does one thing: it computes
a value, reads or writes a name, an attribute or an element, or calls. Every value that
is computed has a name of its own, a *register* (`%1`, `%2`, ...), so nothing is nested
in an expression any more and the order of evaluation is the order of the text. What is
conditional in Python is conditional here: `and`, `or`, chains of comparisons,
conditional expressions and comprehensions become `If` and `For` over registers.

Control flow is explicit and structured: a `Block` is a tuple of instructions, and `If`,
`For`, `While`, `Try` and `With` contain blocks. There is no other jump than `Break`,
`Continue`, `Return` and `Raise`. Each instruction knows its line in the file.

What has no lowering (a class or a `match` in a function, coroutines) is refused with
its line.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, TypeAlias

from anabranch.python.source import FunctionNode, node_of, own_names

Register: TypeAlias = str
Scope: TypeAlias = Literal["local", "cell", "global"]


class LoweringError(Exception):
    """A function cannot be lowered; `line` is where the reason stands, 0 if unknown."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True)
class Instruction:
    """One step of a function."""

    line: int


Block: TypeAlias = tuple[Instruction, ...]


@dataclass(frozen=True)
class Const(Instruction):
    """`target = value`, a literal of the text."""

    target: Register
    value: Any


@dataclass(frozen=True)
class Load(Instruction):
    """`target = name`."""

    target: Register
    name: str
    scope: Scope


@dataclass(frozen=True)
class Store(Instruction):
    """`name = value`; a register is a local name like any other."""

    name: str
    scope: Scope
    value: Register


@dataclass(frozen=True)
class Delete(Instruction):
    """`del name`."""

    name: str
    scope: Scope


@dataclass(frozen=True)
class Unary(Instruction):
    """`target = op value`."""

    target: Register
    op: str
    value: Register


@dataclass(frozen=True)
class Binary(Instruction):
    """`target = left op right`; in place where the text says `left op= right`."""

    target: Register
    op: str
    left: Register
    right: Register
    in_place: bool = False


@dataclass(frozen=True)
class Compare(Instruction):
    """`target = left op right`, one comparison of a chain."""

    target: Register
    op: str
    left: Register
    right: Register


@dataclass(frozen=True)
class GetAttribute(Instruction):
    """`target = value.name`."""

    target: Register
    value: Register
    name: str


@dataclass(frozen=True)
class SetAttribute(Instruction):
    """`value.name = new`, or `del value.name` if `new` is None."""

    value: Register
    name: str
    new: Register | None


@dataclass(frozen=True)
class GetElement(Instruction):
    """`target = value[index]`."""

    target: Register
    value: Register
    index: Register


@dataclass(frozen=True)
class SetElement(Instruction):
    """`value[index] = new`, or `del value[index]` if `new` is None."""

    value: Register
    index: Register
    new: Register | None


@dataclass(frozen=True)
class Argument:
    """An argument of a call: `name` is "" by position, "*" and "**" unpack."""

    value: Register
    name: str = ""


@dataclass(frozen=True)
class Call(Instruction):
    """`target = function(*arguments)`."""

    target: Register
    function: Register
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Build(Instruction):
    """`target` is a new tuple, list, set, dict (keys and values in turn), slice or str.

    In `starred` are the items that are unpacked into it.
    """

    target: Register
    kind: Literal["tuple", "list", "set", "dict", "slice", "str"]
    items: tuple[Register, ...]
    starred: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Format(Instruction):
    """`target` is `value` as a field of an f-string shows it."""

    target: Register
    value: Register
    conversion: str
    spec: Register | None


@dataclass(frozen=True)
class Add(Instruction):
    """Adds to the container of a comprehension: an element, or a key and a value."""

    container: Register
    values: tuple[Register, ...]


@dataclass(frozen=True)
class Unpack(Instruction):
    """`targets = value`; the one with the number `star`, if any, takes the rest."""

    targets: tuple[Register, ...]
    value: Register
    star: int | None = None


@dataclass(frozen=True)
class Import(Instruction):
    """`target` is a module, or an attribute of one."""

    target: Register
    module: str
    attribute: str | None


@dataclass(frozen=True)
class MakeFunction(Instruction):
    """`target` is a function of this function's own; `defaults` by parameter."""

    target: Register
    function: Function
    defaults: tuple[Argument, ...] = ()
    decorators: tuple[Register, ...] = ()


@dataclass(frozen=True)
class Yield(Instruction):
    """`target = yield value`, or `yield from value` if it `delegates`."""

    target: Register
    value: Register
    delegates: bool = False


@dataclass(frozen=True)
class If(Instruction):
    """`then` if the register is true, else `orelse`."""

    test: Register
    then: Block
    orelse: Block = ()


@dataclass(frozen=True)
class While(Instruction):
    """Runs `head` and then, while `test` is true, `body`; `orelse` unless it breaks."""

    head: Block
    test: Register
    body: Block
    orelse: Block = ()


@dataclass(frozen=True)
class For(Instruction):
    """Runs `body` with each element of `iterable` in `target`; `orelse` as above."""

    target: Register
    iterable: Register
    body: Block
    orelse: Block = ()


@dataclass(frozen=True)
class Break(Instruction):
    """Leaves the innermost loop."""


@dataclass(frozen=True)
class Continue(Instruction):
    """Goes on with the next round of the innermost loop."""


@dataclass(frozen=True)
class Return(Instruction):
    """Leaves the function with a value."""

    value: Register


@dataclass(frozen=True)
class Raise(Instruction):
    """Raises an error; the current one if `error` is None."""

    error: Register | None
    cause: Register | None = None


@dataclass(frozen=True)
class Handler:
    """What is done about an error: `head` computes `type`, None takes all errors."""

    head: Block
    type: Register | None
    name: Register | None
    body: Block


@dataclass(frozen=True)
class Try(Instruction):
    """Runs `body`; the first handler that fits an error; `orelse` without one."""

    body: Block
    handlers: tuple[Handler, ...] = ()
    orelse: Block = ()
    final: Block = ()
    groups: bool = False


@dataclass(frozen=True)
class With(Instruction):
    """Runs `body` inside of a context manager, which `target` gets the value of."""

    manager: Register
    target: Register
    body: Block


@dataclass(frozen=True)
class Function:
    """A function in instructions. Parameters are local names, as are registers."""

    name: str
    parameters: tuple[str, ...]
    body: Block
    file: str
    line: int
    generator: bool = False
    varying: tuple[str | None, str | None] = (None, None)  # *args and **kwargs
    keyword_only: tuple[str, ...] = ()
    free: frozenset[str] = frozenset()  # names of enclosing functions that it may use

    def __str__(self) -> str:
        return "\n".join(_show(self.body, 0))


def lower(function: types.FunctionType) -> Function:
    """Return the instructions of a function, lambda, method or generator.

    >>> lower(lower_node).parameters
    ('node', 'file', 'enclosing')
    """
    code = function.__code__
    node = node_of(code)
    if node is None:
        msg = f"the source of {function.__name__} is not at hand"
        raise LoweringError(msg)
    return lower_node(node, code.co_filename, (frozenset(code.co_freevars),))


def lower_node(
    node: FunctionNode, file: str = "", enclosing: Sequence[frozenset[str]] = ()
) -> Function:
    """Return the instructions of a function's tree; `enclosing` are names around it.

    >>> tree = ast.parse("lambda t: t.price if t else 0", mode="eval").body
    >>> print(lower_node(tree))
    %1 = t
    if %1:
        %3 = t
        %4 = %3.price
        %2 = %4
    else:
        %5 = 0
        %2 = %5
    return %2
    """
    if isinstance(node, ast.AsyncFunctionDef):
        msg = f"{node.name} is a coroutine"
        raise LoweringError(msg, node.lineno)
    return _Lowering(node, file, tuple(enclosing)).lower()


def walk(block: Block) -> Iterator[Instruction]:
    """Yield the instructions of a block and of the blocks in it, in their order."""
    for one in block:
        yield one
        for inner in blocks_of(one):
            yield from walk(inner)


def blocks_of(one: Instruction) -> tuple[Block, ...]:
    """Return the blocks that an instruction contains; not those of functions made."""
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


_UNARY = {ast.UAdd: "+", ast.USub: "-", ast.Invert: "~", ast.Not: "not"}
_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.MatMult: "@",
}
_COMPARE = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


@dataclass
class _Lowering:
    """Lowers one function; `_block` is where the next instruction goes."""

    node: ast.FunctionDef | ast.Lambda
    file: str
    enclosing: tuple[frozenset[str], ...]
    outer_names: dict[str, str] = field(default_factory=dict)  # as renamed around it
    _block: list[Instruction] = field(default_factory=list)
    _registers: int = 0
    _renamed: dict[str, str] = field(default_factory=dict)  # names of comprehensions
    _generator: bool = False

    def lower(self) -> Function:
        node = self.node
        self._own = own_names(node)
        declared = _declared(node)
        self._globals = declared["global"]
        self._free = declared["nonlocal"]
        if isinstance(node, ast.Lambda):
            value = self._value(node.body)
            self._add(Return(node.body.lineno, value))
        else:
            self._run(node.body)
            last = node.body[-1].end_lineno or node.lineno
            self._add(Return(last, self._const(None, last)))
        args = node.args
        varying = tuple(None if a is None else a.arg for a in (args.vararg, args.kwarg))
        return Function(
            "<lambda>" if isinstance(node, ast.Lambda) else node.name,
            tuple(a.arg for a in (*args.posonlyargs, *args.args)),
            tuple(self._block),
            self.file,
            node.lineno,
            self._generator,
            varying,  # type: ignore[arg-type]
            tuple(a.arg for a in args.kwonlyargs),
            frozenset().union(*self.enclosing),
        )

    # Registers, names and blocks

    def _new(self) -> Register:
        self._registers += 1
        return f"%{self._registers}"

    def _add(self, one: Instruction) -> None:
        self._block.append(one)

    def _const(self, value: Any, line: int) -> Register:
        target = self._new()
        self._add(Const(line, target, value))
        return target

    def _in_block(self, run: Callable[[], Any]) -> Block:
        outer, self._block = self._block, []
        try:
            run()
            return tuple(self._block)
        finally:
            self._block = outer

    def _scope(self, name: str) -> Scope:
        if name in self._globals:
            return "global"
        if name in self._own and name not in self._free:
            return "local"
        if any(name in names for names in self.enclosing):
            return "cell"
        return "global"

    def _load(self, name: str, line: int) -> Register:
        target = self._new()
        renamed = self._renamed.get(name)
        if renamed is not None:
            self._add(Load(line, target, renamed, "local"))
        else:
            scope = self._scope(name)
            if scope == "cell":
                name = self.outer_names.get(name, name)
            self._add(Load(line, target, name, scope))
        return target

    def _store(self, name: str, value: Register, line: int) -> None:
        renamed = self._renamed.get(name)
        if renamed is not None:
            self._add(Store(line, renamed, "local", value))
        else:
            self._add(Store(line, name, self._scope(name), value))

    def _set(self, register: Register, value: Register, line: int) -> None:
        self._add(Store(line, register, "local", value))

    # Statements

    def _run(self, statements: Sequence[ast.stmt]) -> None:
        for one in statements:
            lower = getattr(self, f"_lower_{type(one).__name__}", None)
            if lower is None:
                msg = f"has a {type(one).__name__.lower()} statement"
                raise LoweringError(msg, one.lineno)
            lower(one)

    def _lower_Pass(self, _: ast.Pass) -> None: ...  # noqa: N802 - named by the node

    _lower_Global = _lower_Nonlocal = _lower_Pass  # noqa: N815 - named by the node

    def _lower_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        if not isinstance(node.value, ast.Constant):
            self._value(node.value)

    def _lower_Assign(self, node: ast.Assign) -> None:  # noqa: N802
        value = self._value(node.value)
        for target in node.targets:
            self._assign(target, value)

    def _lower_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        if node.value is not None:
            self._assign(node.target, self._value(node.value))

    def _lower_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        line, op, made = node.lineno, _BINARY[type(node.op)], self._new()
        match node.target:
            case ast.Name(id=name):
                left = self._load(name, line)
                right = self._value(node.value)
                self._add(Binary(line, made, op, left, right, in_place=True))
                self._store(name, made, line)
            case ast.Attribute(value=of, attr=name):
                value, left = self._value(of), self._new()
                self._add(GetAttribute(line, left, value, name))
                right = self._value(node.value)
                self._add(Binary(line, made, op, left, right, in_place=True))
                self._add(SetAttribute(line, value, name, made))
            case ast.Subscript(value=of, slice=at):
                value, index, left = self._value(of), self._value(at), self._new()
                self._add(GetElement(line, left, value, index))
                right = self._value(node.value)
                self._add(Binary(line, made, op, left, right, in_place=True))
                self._add(SetElement(line, value, index, made))

    def _lower_Delete(self, node: ast.Delete) -> None:  # noqa: N802
        for target in node.targets:
            self._delete(target)

    def _delete(self, target: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                scope = self._scope(name)
                self._add(Delete(target.lineno, name, scope))
            case ast.Attribute(value=of, attr=name):
                self._add(SetAttribute(target.lineno, self._value(of), name, None))
            case ast.Subscript(value=of, slice=at):
                value, index = self._value(of), self._value(at)
                self._add(SetElement(target.lineno, value, index, None))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for element in elements:
                    self._delete(element)

    def _lower_Return(self, node: ast.Return) -> None:  # noqa: N802
        if node.value is None:
            self._add(Return(node.lineno, self._const(None, node.lineno)))
        else:
            self._add(Return(node.lineno, self._value(node.value)))

    def _lower_Raise(self, node: ast.Raise) -> None:  # noqa: N802
        error = None if node.exc is None else self._value(node.exc)
        cause = None if node.cause is None else self._value(node.cause)
        self._add(Raise(node.lineno, error, cause))

    def _lower_Assert(self, node: ast.Assert) -> None:  # noqa: N802
        def fail() -> None:
            made, kind = self._new(), self._load("AssertionError", node.lineno)
            given = () if node.msg is None else (Argument(self._value(node.msg)),)
            self._add(Call(node.lineno, made, kind, given))
            self._add(Raise(node.lineno, made))

        test = self._value(node.test)
        self._add(If(node.lineno, test, (), self._in_block(fail)))

    def _lower_If(self, node: ast.If) -> None:  # noqa: N802
        test = self._value(node.test)
        then = self._in_block(lambda: self._run(node.body))
        orelse = self._in_block(lambda: self._run(node.orelse))
        self._add(If(node.lineno, test, then, orelse))

    def _lower_While(self, node: ast.While) -> None:  # noqa: N802
        test = ""

        def head() -> None:
            nonlocal test
            test = self._value(node.test)

        first = self._in_block(head)
        body = self._in_block(lambda: self._run(node.body))
        orelse = self._in_block(lambda: self._run(node.orelse))
        self._add(While(node.lineno, first, test, body, orelse))

    def _lower_For(self, node: ast.For) -> None:  # noqa: N802
        iterable, target = self._value(node.iter), self._new()

        def body() -> None:
            self._assign(node.target, target)
            self._run(node.body)

        made = self._in_block(body)
        orelse = self._in_block(lambda: self._run(node.orelse))
        self._add(For(node.lineno, target, iterable, made, orelse))

    def _lower_Break(self, node: ast.Break) -> None:  # noqa: N802
        self._add(Break(node.lineno))

    def _lower_Continue(self, node: ast.Continue) -> None:  # noqa: N802
        self._add(Continue(node.lineno))

    def _lower_Try(self, node: ast.Try | ast.TryStar) -> None:  # noqa: N802
        body = self._in_block(lambda: self._run(node.body))
        handlers = tuple(self._handler(one) for one in node.handlers)
        orelse = self._in_block(lambda: self._run(node.orelse))
        final = self._in_block(lambda: self._run(node.finalbody))
        groups = isinstance(node, ast.TryStar)
        self._add(Try(node.lineno, body, handlers, orelse, final, groups))

    _lower_TryStar = _lower_Try  # noqa: N815 - named by the node

    def _handler(self, node: ast.ExceptHandler) -> Handler:
        kind: Register | None = None

        def head() -> None:
            nonlocal kind
            kind = None if node.type is None else self._value(node.type)

        first, error = self._in_block(head), self._new()

        def body() -> None:
            if node.name is None:
                self._run(node.body)
                return
            self._store(node.name, error, node.lineno)
            self._run(node.body)
            self._add(Delete(node.lineno, node.name, self._scope(node.name)))

        return Handler(first, kind, error if node.name else None, self._in_block(body))

    def _lower_With(self, node: ast.With) -> None:  # noqa: N802
        self._with(node.items, node)

    def _with(self, items: Sequence[ast.withitem], node: ast.With) -> None:
        if not items:
            self._run(node.body)
            return
        manager, target = self._value(items[0].context_expr), self._new()

        def body() -> None:
            if items[0].optional_vars is not None:
                self._assign(items[0].optional_vars, target)
            self._with(items[1:], node)

        self._add(With(node.lineno, manager, target, self._in_block(body)))

    def _lower_FunctionDef(self, node: ast.FunctionDef) -> None:  # noqa: N802
        decorators = tuple(map(self._value, node.decorator_list))
        self._store(node.name, self._function(node, decorators), node.lineno)

    def _lower_Import(self, node: ast.Import) -> None:  # noqa: N802
        for alias in node.names:
            target = self._new()
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            self._add(Import(node.lineno, target, name, None))
            self._store(alias.asname or name, target, node.lineno)

    def _lower_ImportFrom(self, node: ast.ImportFrom) -> None:  # noqa: N802
        for alias in node.names:
            target, module = self._new(), "." * node.level + (node.module or "")
            self._add(Import(node.lineno, target, module, alias.name))
            self._store(alias.asname or alias.name, target, node.lineno)

    def _assign(self, target: ast.expr, value: Register) -> None:
        line = target.lineno
        match target:
            case ast.Name(id=name):
                self._store(name, value, line)
            case ast.Attribute(value=of, attr=name):
                self._add(SetAttribute(line, self._value(of), name, value))
            case ast.Subscript(value=of, slice=at):
                self._add(SetElement(line, self._value(of), self._value(at), value))
            case ast.Starred(value=inner):
                self._assign(inner, value)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                stars = [isinstance(e, ast.Starred) for e in elements]
                parts = tuple(self._new() for _ in elements)
                star = stars.index(True) if any(stars) else None
                self._add(Unpack(line, parts, value, star))
                for element, part in zip(elements, parts, strict=True):
                    self._assign(element, part)

    # Expressions

    def _value(self, node: ast.expr) -> Register:
        lower = getattr(self, f"_value_{type(node).__name__}", None)
        if lower is None:
            msg = f"has an expression of the kind {type(node).__name__}"
            raise LoweringError(msg, node.lineno)
        found: Register = lower(node)
        return found

    def _value_Constant(self, node: ast.Constant) -> Register:  # noqa: N802
        return self._const(node.value, node.lineno)

    def _value_Name(self, node: ast.Name) -> Register:  # noqa: N802
        return self._load(node.id, node.lineno)

    def _value_NamedExpr(self, node: ast.NamedExpr) -> Register:  # noqa: N802
        value = self._value(node.value)
        kept, self._renamed = self._renamed, {}  # it binds outside of comprehensions
        self._store(node.target.id, value, node.lineno)
        self._renamed = kept
        return value

    def _value_UnaryOp(self, node: ast.UnaryOp) -> Register:  # noqa: N802
        value, target = self._value(node.operand), self._new()
        self._add(Unary(node.lineno, target, _UNARY[type(node.op)], value))
        return target

    def _value_BinOp(self, node: ast.BinOp) -> Register:  # noqa: N802
        left, right = self._value(node.left), self._value(node.right)
        target = self._new()
        self._add(Binary(node.lineno, target, _BINARY[type(node.op)], left, right))
        return target

    def _value_BoolOp(self, node: ast.BoolOp) -> Register:  # noqa: N802
        target = self._new()
        self._set(target, self._value(node.values[0]), node.lineno)
        self._bool_rest(node, target, 1)
        return target

    def _bool_rest(self, node: ast.BoolOp, target: Register, at: int) -> None:
        if at == len(node.values):
            return

        def rest() -> None:
            self._set(target, self._value(node.values[at]), node.lineno)
            self._bool_rest(node, target, at + 1)

        block = self._in_block(rest)
        both = isinstance(node.op, ast.And)
        then, orelse = (block, ()) if both else ((), block)
        self._add(If(node.lineno, target, then, orelse))

    def _value_Compare(self, node: ast.Compare) -> Register:  # noqa: N802
        target, left = self._new(), self._value(node.left)
        self._compare(node, target, left, 0)
        return target

    def _compare(
        self, node: ast.Compare, target: Register, left: Register, at: int
    ) -> None:
        right, found = self._value(node.comparators[at]), self._new()
        op = _COMPARE[type(node.ops[at])]
        self._add(Compare(node.lineno, found, op, left, right))
        self._set(target, found, node.lineno)
        if at + 1 < len(node.ops):
            block = self._in_block(lambda: self._compare(node, target, right, at + 1))
            self._add(If(node.lineno, target, block))

    def _value_IfExp(self, node: ast.IfExp) -> Register:  # noqa: N802
        test, target = self._value(node.test), self._new()

        def choose(value: ast.expr) -> Callable[[], None]:
            return lambda: self._set(target, self._value(value), value.lineno)

        then = self._in_block(choose(node.body))
        orelse = self._in_block(choose(node.orelse))
        self._add(If(node.lineno, test, then, orelse))
        return target

    def _value_Attribute(self, node: ast.Attribute) -> Register:  # noqa: N802
        value, target = self._value(node.value), self._new()
        self._add(GetAttribute(node.lineno, target, value, node.attr))
        return target

    def _value_Subscript(self, node: ast.Subscript) -> Register:  # noqa: N802
        value, index = self._value(node.value), self._value(node.slice)
        target = self._new()
        self._add(GetElement(node.lineno, target, value, index))
        return target

    def _value_Slice(self, node: ast.Slice) -> Register:  # noqa: N802
        parts = tuple(
            self._const(None, node.lineno) if part is None else self._value(part)
            for part in (node.lower, node.upper, node.step)
        )
        target = self._new()
        self._add(Build(node.lineno, target, "slice", parts))
        return target

    def _value_Call(self, node: ast.Call) -> Register:  # noqa: N802
        function = self._value(node.func)
        arguments = []
        for given in node.args:
            starred = isinstance(given, ast.Starred)
            value = given.value if isinstance(given, ast.Starred) else given
            arguments.append(Argument(self._value(value), "*" if starred else ""))
        for keyword in node.keywords:
            value = self._value(keyword.value)  # type: ignore[assignment]
            arguments.append(Argument(value, keyword.arg or "**"))  # type: ignore[arg-type]
        target = self._new()
        self._add(Call(node.lineno, target, function, tuple(arguments)))
        return target

    def _value_Tuple(self, node: ast.Tuple | ast.List | ast.Set) -> Register:  # noqa: N802
        kind: Any = type(node).__name__.lower()
        starred = {n for n, e in enumerate(node.elts) if isinstance(e, ast.Starred)}
        items = tuple(
            self._value(e.value if isinstance(e, ast.Starred) else e) for e in node.elts
        )
        target = self._new()
        self._add(Build(node.lineno, target, kind, items, frozenset(starred)))
        return target

    _value_List = _value_Set = _value_Tuple  # noqa: N815 - named by the node

    def _value_Dict(self, node: ast.Dict) -> Register:  # noqa: N802
        items: list[Register] = []
        starred = set()
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                starred.add(len(items))
                items += [self._value(value), ""]
            else:
                items += [self._value(key), self._value(value)]
        target = self._new()
        made = Build(node.lineno, target, "dict", tuple(items), frozenset(starred))
        self._add(made)
        return target

    def _value_JoinedStr(self, node: ast.JoinedStr) -> Register:  # noqa: N802
        items = tuple(map(self._value, node.values))
        target = self._new()
        self._add(Build(node.lineno, target, "str", items))
        return target

    def _value_FormattedValue(self, node: ast.FormattedValue) -> Register:  # noqa: N802
        value, target = self._value(node.value), self._new()
        spec = None if node.format_spec is None else self._value(node.format_spec)
        conversion = chr(node.conversion) if node.conversion > 0 else ""
        self._add(Format(node.lineno, target, value, conversion, spec))
        return target

    def _value_Lambda(self, node: ast.Lambda) -> Register:  # noqa: N802
        return self._function(node)

    def _function(
        self, node: ast.FunctionDef | ast.Lambda, decorators: tuple[Register, ...] = ()
    ) -> Register:
        args = node.args
        named = [a.arg for a in (*args.posonlyargs, *args.args)]
        late = named[len(named) - len(args.defaults) :]
        defaults = [
            Argument(self._value(value), name)
            for name, value in zip(late, args.defaults, strict=True)
        ]
        defaults += [
            Argument(self._value(value), arg.arg)
            for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True)
            if value is not None
        ]
        around, names = (*self.enclosing, self._visible()), self._outer_names()
        made = _Lowering(node, self.file, around, names).lower()
        target = self._new()
        self._add(MakeFunction(node.lineno, target, made, tuple(defaults), decorators))
        return target

    def _visible(self) -> frozenset[str]:
        return frozenset({*self._own, *self._renamed}) - self._globals

    def _outer_names(self) -> dict[str, str]:
        kept = {n: o for n, o in self.outer_names.items() if n not in self._own}
        return {**kept, **self._renamed}

    def _value_ListComp(self, node: ast.ListComp | ast.SetComp) -> Register:  # noqa: N802
        kind: Any = "list" if isinstance(node, ast.ListComp) else "set"
        made = self._new()
        self._add(Build(node.lineno, made, kind, ()))

        def innermost() -> None:
            self._add(Add(node.lineno, made, (self._value(node.elt),)))

        self._comprehension(node.generators, innermost)
        return made

    _value_SetComp = _value_ListComp  # noqa: N815 - named by the node

    def _value_DictComp(self, node: ast.DictComp) -> Register:  # noqa: N802
        made = self._new()
        self._add(Build(node.lineno, made, "dict", ()))

        def innermost() -> None:
            pair = self._value(node.key), self._value(node.value)
            self._add(Add(node.lineno, made, pair))

        self._comprehension(node.generators, innermost)
        return made

    def _comprehension(
        self, rounds: Sequence[ast.comprehension], innermost: Callable[[], None]
    ) -> None:
        """Lower to loops; the names that it binds are its own."""
        if not rounds:
            innermost()
            return
        one, line = rounds[0], rounds[0].target.lineno
        if one.is_async:
            msg = "has an asynchronous comprehension"
            raise LoweringError(msg, line)
        iterable, target = self._value(one.iter), self._new()
        kept = dict(self._renamed)
        for name in _names_in(one.target):
            self._renamed[name] = f"{name}{self._new()}"

        def conditions(at: int) -> None:
            if at == len(one.ifs):
                self._comprehension(rounds[1:], innermost)
                return
            test = self._value(one.ifs[at])
            self._add(If(line, test, self._in_block(lambda: conditions(at + 1))))

        def body() -> None:
            self._assign(one.target, target)
            conditions(0)

        self._add(For(line, target, iterable, self._in_block(body)))
        self._renamed = kept

    def _value_GeneratorExp(self, node: ast.GeneratorExp) -> Register:  # noqa: N802
        """Lower to a generator function, called with its outermost iterable."""
        first = node.generators[0]
        iterable = self._value(first.iter)
        outer = ast.Name("%iterable", ast.Load())
        given = ast.comprehension(first.target, outer, first.ifs, first.is_async)
        inner = _Lowering(
            ast.Lambda(_one_parameter(), ast.Constant(None)),
            self.file,
            (*self.enclosing, self._visible()),
            self._outer_names(),
        )
        made = inner.lower_rounds(node, [given, *node.generators[1:]])
        function, target = self._new(), self._new()
        self._add(MakeFunction(node.lineno, function, made))
        self._add(Call(node.lineno, target, function, (Argument(iterable),)))
        return target

    def lower_rounds(
        self, node: ast.GeneratorExp, rounds: Sequence[ast.comprehension]
    ) -> Function:
        """Lower the generator of an expression."""
        self._own, self._globals = frozenset({"%iterable"}), frozenset()
        self._free = frozenset()
        ast.copy_location(rounds[0].iter, node)

        def innermost() -> None:
            value = self._value(node.elt)
            self._add(Yield(node.lineno, self._new(), value))

        self._comprehension(rounds, innermost)
        self._add(Return(node.lineno, self._const(None, node.lineno)))
        return Function(
            "<genexpr>",
            ("%iterable",),
            tuple(self._block),
            self.file,
            node.lineno,
            generator=True,
            free=frozenset().union(*self.enclosing),
        )

    def _value_Yield(self, node: ast.Yield) -> Register:  # noqa: N802
        value = (
            self._const(None, node.lineno)
            if node.value is None
            else self._value(node.value)
        )
        return self._yield(node.lineno, value)

    def _value_YieldFrom(self, node: ast.YieldFrom) -> Register:  # noqa: N802
        return self._yield(node.lineno, self._value(node.value), delegates=True)

    def _yield(
        self, line: int, value: Register, *, delegates: bool = False
    ) -> Register:
        self._generator = True
        target = self._new()
        self._add(Yield(line, target, value, delegates))
        return target


def _one_parameter() -> ast.arguments:
    return ast.arguments([], [ast.arg("%iterable")], None, [], [], None, [])


def _names_in(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _declared(node: FunctionNode) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {"global": set(), "nonlocal": set()}
    waiting: list[ast.AST] = list(ast.iter_child_nodes(node))
    while waiting:
        one = waiting.pop()
        match one:
            case ast.Global(names=names):
                found["global"].update(names)
            case ast.Nonlocal(names=names):
                found["nonlocal"].update(names)
            case ast.FunctionDef() | ast.Lambda() | ast.ClassDef():
                continue
        waiting += ast.iter_child_nodes(one)
    return {kind: frozenset(names) for kind, names in found.items()}


def _show(block: Block, depth: int) -> Iterator[str]:
    """Yield a block as text that looks like Python."""
    indent = "    " * depth
    if not block:
        yield f"{indent}pass"
    for one in block:
        yield from (indent + line for line in _lines(one))


def _inner(block: Block) -> list[str]:
    return list(_show(block, 1))


def _lines(one: Instruction) -> list[str]:  # noqa: C901, PLR0911, PLR0912 - a table
    match one:
        case Const(target=target, value=value):
            return [f"{target} = {value!r}"]
        case Load(target=target, name=name, scope=scope):
            return [f"{target} = {name}" + ("" if scope == "local" else f"  # {scope}")]
        case Store(name=name, value=value, scope=scope):
            return [f"{name} = {value}" + ("" if scope == "local" else f"  # {scope}")]
        case Delete(name=name):
            return [f"del {name}"]
        case Unary(target=target, op=op, value=value):
            return [f"{target} = {op} {value}"]
        case Binary(target=target, op=op, left=left, right=right, in_place=in_place):
            return [f"{target} = {left} {op}{'=' if in_place else ''} {right}"]
        case Compare(target=target, op=op, left=left, right=right):
            return [f"{target} = {left} {op} {right}"]
        case GetAttribute(target=target, value=value, name=name):
            return [f"{target} = {value}.{name}"]
        case SetAttribute(value=value, name=name, new=new):
            return [f"{value}.{name} = {new}" if new else f"del {value}.{name}"]
        case GetElement(target=target, value=value, index=index):
            return [f"{target} = {value}[{index}]"]
        case SetElement(value=value, index=index, new=new):
            return [f"{value}[{index}] = {new}" if new else f"del {value}[{index}]"]
        case Call(target=target, function=function, arguments=arguments):
            texts = [
                a.name + a.value if a.name in ("", "*", "**") else f"{a.name}={a.value}"
                for a in arguments
            ]
            return [f"{target} = {function}({', '.join(texts)})"]
        case Build(target=target, kind=kind, items=items, starred=starred):
            texts = ["*" * (n in starred) + item for n, item in enumerate(items)]
            return [f"{target} = {kind}({', '.join(texts)})"]
        case Format(target=target, value=value):
            return [f"{target} = format({value})"]
        case Add(container=container, values=values):
            return [f"{container} << {', '.join(values)}"]
        case Unpack(targets=targets, value=value, star=star):
            texts = ["*" * (n == star) + target for n, target in enumerate(targets)]
            return [f"{', '.join(texts)} = {value}"]
        case Import(target=target, module=module, attribute=attribute):
            return [
                f"{target} = import {module}" + (f".{attribute}" if attribute else "")
            ]
        case MakeFunction(target=target, function=function):
            head = f"{target} = def {function.name}({', '.join(function.parameters)}):"
            return [head, *_inner(function.body)]
        case Yield(target=target, value=value, delegates=delegates):
            return [f"{target} = yield {'from ' * delegates}{value}"]
        case If(test=test, then=then, orelse=orelse):
            other = ["else:", *_inner(orelse)] if orelse else []
            return [f"if {test}:", *_inner(then), *other]
        case While(head=head_block, test=test, body=body, orelse=orelse):
            other = ["else:", *_inner(orelse)] if orelse else []
            return ["while:", *_inner(head_block), f"{test} do:", *_inner(body), *other]
        case For(target=target, iterable=iterable, body=body, orelse=orelse):
            other = ["else:", *_inner(orelse)] if orelse else []
            return [f"for {target} in {iterable}:", *_inner(body), *other]
        case Break():
            return ["break"]
        case Continue():
            return ["continue"]
        case Return(value=value):
            return [f"return {value}"]
        case Raise(error=error):
            return [f"raise {error}" if error else "raise"]
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
    return [type(one).__name__.lower()]
