"""Lowers a function from its syntax tree to the instructions of `ir`.

Each function is lowered once: purity, rates, forwards, columns and the loop front end
all see the same instructions.
"""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from anabranch.python.ir import (
    Add,
    Annotate,
    Argument,
    Binary,
    Block,
    Break,
    Build,
    Call,
    Compare,
    Const,
    Continue,
    Decorator,
    Delete,
    For,
    Format,
    Function,
    GetAttribute,
    GetElement,
    Handler,
    If,
    Import,
    Instruction,
    LoadName,
    MakeClass,
    MakeFunction,
    Match,
    Raise,
    Register,
    Return,
    Scope,
    SetAttribute,
    SetElement,
    Store,
    Try,
    Unary,
    Unknown,
    Unpack,
    While,
    With,
    Yield,
    show_code,
)
from anabranch.python.objects import class_attribute
from anabranch.python.source import (
    FunctionNode,
    bound_names,
    node_of,
    nodes_of_scope,
    own_names,
    path_to_show,
    target_names,
    tell_missing,
)


class LoweringError(Exception):
    """A function cannot be lowered; the text says why."""


def lower(function: types.FunctionType) -> Function:
    """Return the instructions of a function, lambda, method or generator.

    >>> lower(lower_node).parameters
    ('node', 'file', 'enclosing')
    """
    code = function.__code__
    node = node_of(code)
    if node is None:
        raise LoweringError(tell_missing(function.__name__, code.co_filename))
    try:
        return _lower_once(node, code.co_filename, frozenset(code.co_freevars))
    except RecursionError:
        msg = f"{function.__name__} is nested too deeply to follow"
        raise LoweringError(msg) from None


@functools.lru_cache(maxsize=4096)
def _lower_once(node: FunctionNode, file: str, free: frozenset[str]) -> Function:
    return lower_node(node, file, (free,))


class Lowered(NamedTuple):
    """A function with source, and its parameters that are still unbound."""

    function: Any  # a FunctionType; mypy would take such a field for a method
    code: Function
    parameters: tuple[str, ...]

    @property
    def file(self) -> str:
        """The file as shown to the user."""
        return path_to_show(self.code.file)


def lower_callable(target: Any) -> Lowered | None:
    """Return the function that runs when `target` is called; None without source.

    >>> lower_callable(len) is None
    True
    """
    taken, named = 0, set[str]()
    while type(target) is not types.FunctionType:
        match target:
            case functools.partial():
                taken += len(target.args)
                named |= set(target.keywords)
                target = target.func
            case types.MethodType():
                taken += 1
                target = target.__func__
            case functools._lru_cache_wrapper():  # noqa: SLF001 - a type
                target = target.__wrapped__
            case type():
                return None
            case _:
                target = class_attribute(type(target), "__call__")
                if not isinstance(target, types.FunctionType):
                    return None
                taken += 1
    try:
        code = lower(target)
    except LoweringError:
        return None
    every = (*code.parameters, *code.keyword_only, *filter(None, code.varying))
    names = [name for name in every[taken:] if name not in named]
    return Lowered(target, code, tuple(names))


def lower_node(
    node: FunctionNode, file: str = "", enclosing: Sequence[frozenset[str]] = ()
) -> Function:
    """Return the instructions of a function's tree; `enclosing` are the names around
    it.

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
    return _Lowering(file, tuple(enclosing)).lower(node)


def lower_statements(body: Sequence[ast.stmt]) -> Function:
    """Return the instructions of statements from the middle of a function.

    Names they do not bind themselves are loaded as globals.
    """
    return _Lowering("", ()).lower_body(ast.Module([*body], []), "<statements>")


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
_ITERABLE = "%iterable"  # the parameter of a generator expression


@dataclass
class _Lowering:
    """Lowers one scope; `_block` is where the next instruction goes."""

    file: str
    enclosing: tuple[frozenset[str], ...]
    outer_names: dict[str, str] = field(default_factory=dict)  # as renamed around it
    _own: frozenset[str] = frozenset()
    _globals: frozenset[str] = frozenset()
    _free: frozenset[str] = frozenset()
    _is_class: bool = False
    _block: list[Instruction] = field(default_factory=list)
    _registers: int = 0
    _renamed: dict[str, str] = field(default_factory=dict)  # names of comprehensions
    _renames: set[str] = field(default_factory=set)  # all of them
    _generator: bool = False

    def lower(self, node: FunctionNode) -> Function:
        self._own = own_names(node)
        self._find_declared(node)
        if isinstance(node, ast.Lambda):
            self._add(Return(node.body, self._value(node.body)))
        elif isinstance(node, ast.AsyncFunctionDef):
            self._unknown(node, f"{node.name} is async")
        else:
            self._run(node.body)
            last = _end_of(node)
            self._add(Return(last, self._const(None, last)))
        args = node.args
        varying = [None if a is None else a.arg for a in (args.vararg, args.kwarg)]
        return Function(
            "<lambda>" if isinstance(node, ast.Lambda) else node.name,
            tuple(a.arg for a in (*args.posonlyargs, *args.args)),
            tuple(self._block),
            self.file,
            node,
            self._generator,
            isinstance(node, ast.AsyncFunctionDef),
            (varying[0], varying[1]),
            tuple(a.arg for a in args.kwonlyargs),
            self._own | self._renames,
            frozenset().union(*self.enclosing),
        )

    def lower_body(self, node: ast.ClassDef | ast.Module, name: str) -> Function:
        """Lower the body of a class, or statements: a function without parameters."""
        self._is_class = isinstance(node, ast.ClassDef)
        self._find_declared(node)
        bound = {name for each in nodes_of_scope(node) for name in bound_names(each)}
        self._own = frozenset(bound) - self._globals - self._free
        self._run(node.body)
        return self._function_of(node, name)

    def lower_rounds(
        self, node: ast.GeneratorExp, rounds: Sequence[ast.comprehension]
    ) -> Function:
        """Lower the generator of an expression."""
        self._own = frozenset([_ITERABLE])
        ast.copy_location(rounds[0].iter, node)

        def innermost() -> None:
            value = self._value(node.elt)
            self._add(Yield(node, self._new(), value))

        self._comprehension(node, rounds, innermost, None)
        self._add(Return(node, self._const(None, node)))
        self._generator = True
        return self._function_of(node, "<genexpr>", (_ITERABLE,))

    def _function_of(
        self,
        node: ast.ClassDef | ast.Module | ast.GeneratorExp,
        name: str,
        parameters: tuple[str, ...] = (),
    ) -> Function:
        return Function(
            name,
            parameters,
            tuple(self._block),
            self.file,
            node,
            self._generator,
            own=self._own | self._renames,
            free=frozenset().union(*self.enclosing),
        )

    def _find_declared(self, node: ast.AST) -> None:
        declared = [*nodes_of_scope(node)]
        self._globals = _names_declared(declared, ast.Global)
        self._free = _names_declared(declared, ast.Nonlocal)

    # Registers, names and blocks

    def _new(self) -> Register:
        self._registers += 1
        return f"%{self._registers}"

    def _add(self, one: Instruction) -> None:
        self._block.append(one)

    def _unknown(self, at: ast.AST, what: str) -> Register:
        target = self._new()
        self._add(Unknown(at, what, target))
        return target

    def _const(self, value: Any, at: ast.AST) -> Register:
        target = self._new()
        self._add(Const(at, target, value))
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

    def _load(self, name: str, at: ast.AST) -> Register:
        target = self._new()
        renamed = self._renamed.get(name)
        if renamed is not None:
            self._add(LoadName(at, target, renamed, "local"))
        else:
            scope = self._scope(name)
            if scope == "cell":
                name = self.outer_names.get(name, name)
            self._add(LoadName(at, target, name, scope))
        return target

    def _store(self, name: str, value: Register, at: ast.AST) -> None:
        renamed = self._renamed.get(name)
        if renamed is not None:
            self._add(Store(at, renamed, "local", value))
        else:
            self._add(Store(at, name, self._scope(name), value))

    def _set(self, register: Register, value: Register, at: ast.AST) -> None:
        self._add(Store(at, register, "local", value))

    # Statements

    def _run(self, statements: Sequence[ast.stmt]) -> None:
        for one in statements:
            kind = type(one).__name__
            lower = getattr(self, f"_lower_{kind}", None)
            if lower is None:
                self._unknown(one, f"a {kind} statement cannot be followed")
            else:
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
        if self._is_class and isinstance(node.target, ast.Name):
            self._add(Annotate(node, node.target.id, node.annotation))

    def _lower_AugAssign(self, node: ast.AugAssign) -> None:  # noqa: N802
        op, made, target = _BINARY[type(node.op)], self._new(), node.target
        match target:
            case ast.Name(id=name):
                left = self._load(name, target)
                right = self._value(node.value)
                self._add(Binary(node, made, op, left, right, in_place=True))
                self._store(name, made, target)
            case ast.Attribute(value=of, attr=name):
                value, left = self._value(of), self._new()
                self._add(GetAttribute(target, left, value, name))
                right = self._value(node.value)
                self._add(Binary(node, made, op, left, right, in_place=True))
                self._add(SetAttribute(target, value, name, made))
            case ast.Subscript(value=of, slice=key):
                value, index, left = self._value(of), self._value(key), self._new()
                self._add(GetElement(target, left, value, index))
                right = self._value(node.value)
                self._add(Binary(node, made, op, left, right, in_place=True))
                self._add(SetElement(target, value, index, made))

    def _lower_Delete(self, node: ast.Delete) -> None:  # noqa: N802
        for target in node.targets:
            self._delete(target)

    def _delete(self, target: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self._add(Delete(target, name, self._scope(name)))
            case ast.Attribute(value=of, attr=name):
                self._add(SetAttribute(target, self._value(of), name, None))
            case ast.Subscript(value=of, slice=key):
                value, index = self._value(of), self._value(key)
                self._add(SetElement(target, value, index, None))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for element in elements:
                    self._delete(element)

    def _lower_Return(self, node: ast.Return) -> None:  # noqa: N802
        if node.value is None:
            self._add(Return(node, self._const(None, node)))
        else:
            self._add(Return(node, self._value(node.value)))

    def _lower_Raise(self, node: ast.Raise) -> None:  # noqa: N802
        error = None if node.exc is None else self._value(node.exc)
        cause = None if node.cause is None else self._value(node.cause)
        self._add(Raise(node, error, cause))

    def _lower_Assert(self, node: ast.Assert) -> None:  # noqa: N802
        def fail() -> None:
            made, kind = self._new(), self._const(AssertionError, node)
            given = () if node.msg is None else (Argument(self._value(node.msg)),)
            self._add(Call(node, made, kind, given))
            self._add(Raise(node, made))

        test = self._value(node.test)
        self._add(If(node, test, (), self._in_block(fail)))

    def _lower_If(self, node: ast.If) -> None:  # noqa: N802
        test = self._value(node.test)
        then = self._in_block(lambda: self._run(node.body))
        orelse = self._in_block(lambda: self._run(node.orelse))
        self._add(If(node, test, then, orelse))

    def _lower_While(self, node: ast.While) -> None:  # noqa: N802
        test = ""

        def head() -> None:
            nonlocal test
            test = self._value(node.test)

        first = self._in_block(head)
        body = self._in_block(lambda: self._run(node.body))
        orelse = self._in_block(lambda: self._run(node.orelse))
        self._add(While(node, first, test, body, orelse))

    def _lower_For(self, node: ast.For) -> None:  # noqa: N802
        iterable, target = self._value(node.iter), self._new()

        def body() -> None:
            self._assign(node.target, target)
            self._run(node.body)

        made = self._in_block(body)
        orelse = self._in_block(lambda: self._run(node.orelse))
        self._add(For(node.iter, target, iterable, made, orelse))

    def _lower_Break(self, node: ast.Break) -> None:  # noqa: N802
        self._add(Break(node))

    def _lower_Continue(self, node: ast.Continue) -> None:  # noqa: N802
        self._add(Continue(node))

    def _lower_Try(self, node: ast.Try | ast.TryStar) -> None:  # noqa: N802
        body = self._in_block(lambda: self._run(node.body))
        handlers = tuple(self._handler(one) for one in node.handlers)
        orelse = self._in_block(lambda: self._run(node.orelse))
        final = self._in_block(lambda: self._run(node.finalbody))
        groups = isinstance(node, ast.TryStar)
        self._add(Try(node, body, handlers, orelse, final, groups))

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
            self._store(node.name, error, node)
            self._run(node.body)
            self._add(Delete(node, node.name, self._scope(node.name)))

        name = error if node.name else None
        return Handler(node, first, kind, name, self._in_block(body))

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

        at = items[0].context_expr
        self._add(With(at, manager, target, self._in_block(body)))

    def _lower_FunctionDef(  # noqa: N802
        self, node: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> None:
        decorators = [self._value(each) for each in node.decorator_list]
        for annotation in _annotations(node):
            if _runs_code(annotation):
                text = f"the annotation {show_code(annotation)} runs code"
                self._unknown(annotation, text)
        made = self._function(node)
        for at, decorator in zip(
            reversed(node.decorator_list), reversed(decorators), strict=True
        ):
            target = self._new()
            self._add(Call(at, target, decorator, (Argument(made),)))
            made = target
        self._store(node.name, made, node)

    _lower_AsyncFunctionDef = _lower_FunctionDef  # noqa: N815 - named by the node

    def _lower_ClassDef(self, node: ast.ClassDef) -> None:  # noqa: N802
        decorators = tuple(map(self._decorator, node.decorator_list))
        bases = self._arguments(node.bases, node.keywords)
        body = _Lowering(self.file, self._around(), self._outer_names())
        target, made = self._new(), body.lower_body(node, node.name)
        self._add(MakeClass(node, target, made, bases, decorators))
        self._store(node.name, target, node)

    def _decorator(self, node: ast.expr) -> Decorator:
        if not isinstance(node, ast.Call):
            return Decorator(node, self._value(node))
        function = self._value(node.func)
        return Decorator(node, function, self._arguments(node.args, node.keywords))

    def _lower_Import(self, node: ast.Import) -> None:  # noqa: N802
        for alias in node.names:
            target, top = self._new(), alias.asname is None
            self._add(Import(node, target, alias.name, top=top))
            name = alias.asname or alias.name.partition(".")[0]
            self._store(name, target, node)

    def _lower_ImportFrom(self, node: ast.ImportFrom) -> None:  # noqa: N802
        for alias in node.names:
            target, module = self._new(), "." * node.level + (node.module or "")
            self._add(Import(node, target, module, alias.name))
            self._store(alias.asname or alias.name, target, node)

    def _assign(self, target: ast.expr, value: Register) -> None:
        match target:
            case ast.Name(id=name):
                self._store(name, value, target)
            case ast.Attribute(value=of, attr=name):
                self._add(SetAttribute(target, self._value(of), name, value))
            case ast.Subscript(value=of, slice=key):
                owner, index = self._value(of), self._value(key)
                self._add(SetElement(target, owner, index, value))
            case ast.Starred(value=inner):
                self._assign(inner, value)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                stars = [isinstance(e, ast.Starred) for e in elements]
                parts = tuple(self._new() for _ in elements)
                star = stars.index(True) if any(stars) else None
                self._add(Unpack(target, parts, value, star))
                for element, part in zip(elements, parts, strict=True):
                    self._assign(element, part)

    # Patterns

    def _lower_Match(self, node: ast.Match) -> None:  # noqa: N802
        self._cases(node.cases, self._value(node.subject))

    def _cases(self, cases: Sequence[ast.match_case], subject: Register) -> None:
        if not cases:
            return
        case, pattern = cases[0], cases[0].pattern
        fits = self._new()
        captures: list[tuple[str, Register, ast.AST]] = []
        sure = self._pattern(pattern, subject, fits, captures)

        def bind() -> None:
            for name, value, at in captures:
                self._store(name, value, at)

        def bind_and_run() -> None:
            bind()
            self._run(case.body)

        if case.guard is None:
            if sure:
                bind_and_run()
                return
            then = self._in_block(bind_and_run)
        else:
            guard = case.guard

            def check() -> None:
                bind()
                self._set(fits, self._value(guard), guard)

            if sure:
                check()
            else:
                self._add(If(pattern, fits, self._in_block(check)))
            then = self._in_block(lambda: self._run(case.body))
        orelse = self._in_block(lambda: self._cases(cases[1:], subject))
        self._add(If(pattern, fits, then, orelse))

    def _pattern(
        self,
        pattern: ast.pattern,
        value: Register,
        fits: Register,
        captures: list[tuple[str, Register, ast.AST]],
    ) -> bool:
        """Set `fits` to whether a value matches, unless it always does; tell whether it
        was set.
        """
        match pattern:
            case ast.MatchAs(pattern=inner, name=name):
                sure = inner is None or self._pattern(inner, value, fits, captures)
                if name is not None:
                    captures.append((name, value, pattern))
                return sure
            case ast.MatchOr(patterns=patterns):
                return self._alternatives(patterns, value, fits, captures)
            case ast.MatchValue(value=other):
                self._equal(pattern, "==", value, self._value(other), fits)
            case ast.MatchSingleton(value=one):
                self._equal(pattern, "is", value, self._const(one, pattern), fits)
            case _:
                inner_patterns, parts = self._shape(pattern, value, fits)
                self._parts(inner_patterns, parts, fits, captures)
        return False

    def _equal(
        self, at: ast.AST, op: str, left: Register, right: Register, fits: Register
    ) -> None:
        found = self._new()
        self._add(Compare(at, found, op, left, right))
        self._set(fits, found, at)

    def _alternatives(
        self,
        patterns: Sequence[ast.pattern],
        value: Register,
        fits: Register,
        captures: list[tuple[str, Register, ast.AST]],
    ) -> bool:
        """Lower `a | b`; the captures of all alternatives go to the same registers."""
        shared: dict[str, Register] = {}

        def attempt(at: int) -> bool:
            own: list[tuple[str, Register, ast.AST]] = []
            sure = self._pattern(patterns[at], value, fits, own)

            def keep() -> None:
                for name, part, where in own:
                    self._set(shared.setdefault(name, self._new()), part, where)

            if sure:
                keep()
                self._set(fits, self._const(True, patterns[at]), patterns[at])
                return at == 0
            if own:
                self._add(If(patterns[at], fits, self._in_block(keep)))
            if at + 1 < len(patterns):
                rest = self._in_block(lambda: attempt(at + 1))
                self._add(If(patterns[at], fits, (), rest))
            return False

        sure = attempt(0)
        captures += [(name, part, patterns[0]) for name, part in shared.items()]
        return sure

    def _shape(
        self, pattern: ast.pattern, value: Register, fits: Register
    ) -> tuple[list[ast.pattern], tuple[Register, ...]]:
        """Match a shape; return the patterns of its parts, and the parts."""
        keys: tuple[Register, ...] = ()
        names: tuple[str, ...] = ()
        star: int | None = None
        shape: Any = "sequence"
        inner: list[ast.pattern] = []
        match pattern:
            case ast.MatchSequence(patterns=inner):
                starred = [isinstance(each, ast.MatchStar) for each in inner]
                star = starred.index(True) if True in starred else None
            case ast.MatchMapping(keys=given, patterns=inner, rest=rest):
                shape, keys = "mapping", tuple(map(self._value, given))
                if rest is not None:
                    star = len(inner)
                    named = ast.MatchAs(None, rest)
                    inner = [*inner, ast.copy_location(named, pattern)]
            case ast.MatchClass(cls, first, names_, others):
                shape, keys = "class", (self._value(cls),)
                inner = [*first, *others]
                names = (*([""] * len(first)), *names_)
        parts = tuple(self._new() for _ in inner)
        self._add(Match(pattern, fits, value, shape, parts, keys, names, star))
        return inner, parts

    def _parts(
        self,
        patterns: Sequence[ast.pattern],
        parts: Sequence[Register],
        fits: Register,
        captures: list[tuple[str, Register, ast.AST]],
    ) -> None:
        """Match the parts of a shape, one after another while they fit."""
        if not patterns:
            return

        def rest() -> None:
            first = patterns[0]
            if isinstance(first, ast.MatchStar):
                if first.name is not None:
                    captures.append((first.name, parts[0], first))
            else:
                self._pattern(first, parts[0], fits, captures)
            self._parts(patterns[1:], parts[1:], fits, captures)

        block = self._in_block(rest)
        if block:
            self._add(If(patterns[0], fits, block))

    # Expressions

    def _value(self, node: ast.expr) -> Register:
        kind = type(node).__name__
        lower = getattr(self, f"_value_{kind}", None)
        if lower is None:
            return self._unknown(node, f"{show_code(node)} ({kind}) cannot be followed")
        found: Register = lower(node)
        return found

    def _value_Constant(self, node: ast.Constant) -> Register:  # noqa: N802
        return self._const(node.value, node)

    def _value_Name(self, node: ast.Name) -> Register:  # noqa: N802
        return self._load(node.id, node)

    def _value_NamedExpr(self, node: ast.NamedExpr) -> Register:  # noqa: N802
        value = self._value(node.value)
        kept, self._renamed = self._renamed, {}  # it binds outside comprehensions
        self._store(node.target.id, value, node.target)
        self._renamed = kept
        return value

    def _value_UnaryOp(self, node: ast.UnaryOp) -> Register:  # noqa: N802
        value, target = self._value(node.operand), self._new()
        self._add(Unary(node, target, _UNARY[type(node.op)], value))
        return target

    def _value_BinOp(self, node: ast.BinOp) -> Register:  # noqa: N802
        left, right = self._value(node.left), self._value(node.right)
        target = self._new()
        self._add(Binary(node, target, _BINARY[type(node.op)], left, right))
        return target

    def _value_BoolOp(self, node: ast.BoolOp) -> Register:  # noqa: N802
        target = self._new()
        self._set(target, self._value(node.values[0]), node)
        self._bool_rest(node, target, 1)
        return target

    def _bool_rest(self, node: ast.BoolOp, target: Register, number: int) -> None:
        if number == len(node.values):
            return

        def rest() -> None:
            self._set(target, self._value(node.values[number]), node)
            self._bool_rest(node, target, number + 1)

        block = self._in_block(rest)
        both = isinstance(node.op, ast.And)
        then, orelse = (block, ()) if both else ((), block)
        self._add(If(node, target, then, orelse))

    def _value_Compare(self, node: ast.Compare) -> Register:  # noqa: N802
        target, left = self._new(), self._value(node.left)
        self._compare(node, target, left, 0)
        return target

    def _compare(
        self, node: ast.Compare, target: Register, left: Register, number: int
    ) -> None:
        right, found = self._value(node.comparators[number]), self._new()
        op = _COMPARE[type(node.ops[number])]
        self._add(Compare(node, found, op, left, right))
        self._set(target, found, node)
        if number + 1 < len(node.ops):
            block = self._in_block(
                lambda: self._compare(node, target, right, number + 1)
            )
            self._add(If(node, target, block))

    def _value_IfExp(self, node: ast.IfExp) -> Register:  # noqa: N802
        test, target = self._value(node.test), self._new()

        def choose(value: ast.expr) -> Callable[[], None]:
            return lambda: self._set(target, self._value(value), value)

        then = self._in_block(choose(node.body))
        orelse = self._in_block(choose(node.orelse))
        self._add(If(node, test, then, orelse))
        return target

    def _value_Attribute(  # noqa: N802
        self, node: ast.Attribute, *, called: bool = False
    ) -> Register:
        value, target = self._value(node.value), self._new()
        self._add(GetAttribute(node, target, value, node.attr, called))
        return target

    def _value_Subscript(self, node: ast.Subscript) -> Register:  # noqa: N802
        value, index = self._value(node.value), self._value(node.slice)
        target = self._new()
        self._add(GetElement(node, target, value, index))
        return target

    def _value_Slice(self, node: ast.Slice) -> Register:  # noqa: N802
        parts = tuple(
            self._const(None, node) if part is None else self._value(part)
            for part in (node.lower, node.upper, node.step)
        )
        target = self._new()
        self._add(Build(node, target, "slice", parts))
        return target

    def _value_Call(self, node: ast.Call) -> Register:  # noqa: N802
        if isinstance(node.func, ast.Attribute):
            function = self._value_Attribute(node.func, called=True)
        else:
            function = self._value(node.func)
        arguments, target = self._arguments(node.args, node.keywords), self._new()
        self._add(Call(node, target, function, arguments))
        return target

    def _arguments(
        self, args: Sequence[ast.expr], keywords: Sequence[ast.keyword]
    ) -> tuple[Argument, ...]:
        given = [
            Argument(self._value(each.value), "*")
            if isinstance(each, ast.Starred)
            else Argument(self._value(each))
            for each in args
        ]
        given += [Argument(self._value(k.value), k.arg or "**") for k in keywords]
        return tuple(given)

    def _value_Tuple(self, node: ast.Tuple | ast.List | ast.Set) -> Register:  # noqa: N802
        kind: Any = type(node).__name__.lower()
        starred = {n for n, e in enumerate(node.elts) if isinstance(e, ast.Starred)}
        items = tuple(
            self._value(e.value if isinstance(e, ast.Starred) else e) for e in node.elts
        )
        target = self._new()
        self._add(Build(node, target, kind, items, frozenset(starred)))
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
        made = Build(node, target, "dict", tuple(items), frozenset(starred))
        self._add(made)
        return target

    def _value_JoinedStr(self, node: ast.JoinedStr) -> Register:  # noqa: N802
        items = tuple(map(self._value, node.values))
        target = self._new()
        self._add(Build(node, target, "str", items))
        return target

    def _value_FormattedValue(self, node: ast.FormattedValue) -> Register:  # noqa: N802
        value, target = self._value(node.value), self._new()
        spec = None if node.format_spec is None else self._value(node.format_spec)
        conversion = chr(node.conversion) if node.conversion > 0 else ""
        self._add(Format(node, target, value, conversion, spec))
        return target

    def _value_Lambda(self, node: ast.Lambda) -> Register:  # noqa: N802
        return self._function(node)

    def _function(self, node: FunctionNode) -> Register:
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
        inner = _Lowering(self.file, self._around(), self._outer_names())
        made, target = inner.lower(node), self._new()
        self._add(MakeFunction(node, target, made, tuple(defaults)))
        return target

    def _around(self) -> tuple[frozenset[str], ...]:
        """Return the names visible to a function made here, scope by scope."""
        if self._is_class:
            return (*self.enclosing, frozenset(["__class__"]))
        visible = frozenset({*self._own, *self._renamed}) - self._globals
        return (*self.enclosing, visible)

    def _outer_names(self) -> dict[str, str]:
        if self._is_class:
            return self.outer_names
        kept = {n: o for n, o in self.outer_names.items() if n not in self._own}
        return {**kept, **self._renamed}

    def _value_ListComp(self, node: ast.ListComp | ast.SetComp) -> Register:  # noqa: N802
        kind: Any = "list" if isinstance(node, ast.ListComp) else "set"
        made = self._new()
        self._add(Build(node, made, kind, ()))

        def innermost() -> None:
            self._add(Add(node, made, (self._value(node.elt),)))

        self._comprehension(node, node.generators, innermost, made)
        return made

    _value_SetComp = _value_ListComp  # noqa: N815 - named by the node

    def _value_DictComp(self, node: ast.DictComp) -> Register:  # noqa: N802
        made = self._new()
        self._add(Build(node, made, "dict", ()))

        def innermost() -> None:
            pair = self._value(node.key), self._value(node.value)
            self._add(Add(node, made, pair))

        self._comprehension(node, node.generators, innermost, made)
        return made

    def _comprehension(
        self,
        node: ast.expr,
        rounds: Sequence[ast.comprehension],
        innermost: Callable[[], None],
        into: Register | None,
    ) -> None:
        """Lower to loops; the names it binds are its own."""
        if not rounds:
            innermost()
            return
        one = rounds[0]
        if one.is_async:
            self._unknown(node, "async for cannot be followed")
            return
        iterable, target = self._value(one.iter), self._new()
        kept = dict(self._renamed)
        for name in sorted(target_names(one.target)):
            self._renamed[name] = f"{name}{self._new()}"
            self._renames.add(self._renamed[name])

        def conditions(number: int) -> None:
            if number == len(one.ifs):
                self._comprehension(node, rounds[1:], innermost, into)
                return
            test = self._value(one.ifs[number])
            then = self._in_block(lambda: conditions(number + 1))
            self._add(If(one.ifs[number], test, then))

        def body() -> None:
            self._assign(one.target, target)
            conditions(0)

        self._add(For(node, target, iterable, self._in_block(body), (), into))
        self._renamed = kept

    def _value_GeneratorExp(self, node: ast.GeneratorExp) -> Register:  # noqa: N802
        """Lower to a generator function, called with its outermost iterable."""
        first = node.generators[0]
        iterable = self._value(first.iter)
        outer = ast.Name(_ITERABLE, ast.Load())
        given = ast.comprehension(first.target, outer, first.ifs, first.is_async)
        inner = _Lowering(self.file, self._around(), self._outer_names())
        made = inner.lower_rounds(node, [given, *node.generators[1:]])
        function, target = self._new(), self._new()
        self._add(MakeFunction(node, function, made))
        self._add(Call(node, target, function, (Argument(iterable),)))
        return target

    def _value_Yield(self, node: ast.Yield) -> Register:  # noqa: N802
        absent = node.value is None
        value = self._const(None, node) if absent else self._value(node.value)  # type: ignore[arg-type]
        return self._yield(node, value)

    def _value_YieldFrom(self, node: ast.YieldFrom) -> Register:  # noqa: N802
        return self._yield(node, self._value(node.value), delegates=True)

    def _yield(
        self, at: ast.AST, value: Register, *, delegates: bool = False
    ) -> Register:
        self._generator = True
        target = self._new()
        self._add(Yield(at, target, value, delegates))
        return target


def _end_of(node: ast.FunctionDef) -> ast.AST:
    """Return a statement that marks the end of a body."""
    line = node.body[-1].end_lineno or node.lineno
    return ast.Pass(lineno=line, col_offset=0, end_lineno=line, end_col_offset=0)


def _names_declared(
    nodes: Sequence[ast.AST], kind: type[ast.Global | ast.Nonlocal]
) -> frozenset[str]:
    declared = (each.names for each in nodes if isinstance(each, kind))
    return frozenset(name for names in declared for name in names)


def _annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    spec = node.args
    listed = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
    found = [arg.annotation for arg in listed if arg is not None]
    yield from (each for each in (*found, node.returns) if each is not None)


def _runs_code(annotation: ast.expr) -> bool:
    parts = ast.walk(annotation)
    return any(isinstance(each, ast.Call | ast.NamedExpr) for each in parts)
