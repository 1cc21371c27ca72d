"""What a statement does to the variables and the objects of a function."""

from __future__ import annotations

import ast
import importlib.util
import sys
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from anabranch.graph.site import is_users_file
from anabranch.operators.lifted import StatePlace
from anabranch.python.classes import class_of
from anabranch.python.expressions import Expressions
from anabranch.python.local_classes import (
    NotBuiltError,
    build_class,
    decorator_of,
    put_class_cells,
)
from anabranch.python.objects import is_users_class
from anabranch.python.packages import CONTEXTS, facts_about
from anabranch.python.universe import Universe
from anabranch.python.values import (
    ELEMENTS,
    LOST,
    NOTHING,
    PLAIN,
    Arguments,
    Frame,
    Fresh,
    Known,
    LibraryObject,
    Lost,
    Plain,
    Value,
    join,
    shown,
)


class Definitions(Expressions):
    """The part of the interpreter that defines functions and imports modules."""

    def __init__(self, universe: Universe) -> None:
        super().__init__(universe)
        self.local_classes: dict[Any, tuple[type, Frame]] = {}  # by where they stand
        self.defined_in: dict[int, Frame] = {}  # their functions, by id

    @abstractmethod
    def bind(self, name: str, value: Value, node: ast.AST, frame: Frame) -> None:
        """Let a name stand for a value, in the scope that it belongs to."""

    def definition(self, node: ast.FunctionDef, frame: Frame) -> None:
        value = self.function(node, frame)
        for annotation in _annotations(node):
            if any(
                isinstance(n, ast.Call | ast.NamedExpr) for n in ast.walk(annotation)
            ):
                text = f"the annotation {shown(annotation)} runs code"
                self.unknown(text, annotation, frame)
        for decorator in reversed(node.decorator_list):
            callee = self.evaluate(decorator, frame)
            value = self.call(callee, Arguments([value]), decorator, frame)
        self.bind(node.name, value, node, frame)

    def class_definition(self, node: ast.ClassDef, frame: Frame) -> None:
        """Define a class whose body is no more than methods and literals."""
        key = (node, id(frame))
        if key not in self.local_classes:
            try:
                bases = [self._only(each, frame) for each in node.bases]
                decorators = [
                    decorator_of(self._only(_undecorated(each), frame), each)
                    for each in node.decorator_list
                ]
                made, functions = build_class(node, bases, decorators, frame.function)
            except NotBuiltError as error:
                text = f"the class {node.name} cannot be followed: {error}"
                self.unknown(text, node, frame)
                self.bind(node.name, LOST, node, frame)
                return
            put_class_cells(made, functions)
            self.local_classes[key] = (made, frame)
            self.defined_in.update({id(each): frame for each in functions})
            self.universe = self.universe.with_class(made)
        made = self.local_classes[key][0]
        value: Value = frozenset([Known(made, f"the class {node.name}")])
        self.bind(node.name, value, node, frame)

    def _only(self, node: ast.expr, frame: Frame) -> Any:
        """Return the one object that exists already and that an expression means."""
        match [*self.evaluate(node, frame)]:
            case [Known(obj=obj)]:
                return obj
        msg = f"{shown(node)} is not known"
        raise NotBuiltError(msg)

    def importing(self, node: ast.Import | ast.ImportFrom, frame: Frame) -> None:
        value: Value
        prefix = getattr(node, "module", None)
        for alias in node.names:
            full = prefix or alias.name
            module = sys.modules.get(full)
            if module is None or alias.name == "*" or getattr(node, "level", None):
                text = f"imports {full} while it runs"
                value = LOST
                if getattr(node, "level", None) or _may_be_users(full):
                    self.unknown_code(text, node, frame)
                else:
                    value = self.unknown_package(text, NOTHING, node, frame)
                name = (alias.asname or alias.name).partition(".")[0]
                self.bind(name, value, node, frame)
                continue
            text = f"the module {full}"
            value = frozenset([Known(module, text)])
            if prefix is not None:
                value = self.attribute(value, alias.name, node, frame)
            elif alias.asname is None:
                top = sys.modules[full.partition(".")[0]]
                value = frozenset([Known(top, text)])
            self.bind(
                (alias.asname or alias.name).partition(".")[0], value, node, frame
            )


def _undecorated(node: ast.expr) -> ast.expr:
    """Return what is called to decorate."""
    return node.func if isinstance(node, ast.Call) else node


def _may_be_users(module: str) -> bool:
    """Tell whether a module that is not loaded yet may be the user's own."""
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return True
    if spec is None or spec.origin is None:
        return True
    return spec.origin not in ("built-in", "frozen") and is_users_file(spec.origin)


def _annotations(node: ast.FunctionDef) -> list[ast.expr]:
    spec = node.args
    arguments = [
        *spec.posonlyargs,
        *spec.args,
        *spec.kwonlyargs,
        spec.vararg,
        spec.kwarg,
    ]
    found = [arg.annotation for arg in arguments if arg is not None]
    return [each for each in (*found, node.returns) if each is not None]


class Statements(Definitions):
    """The part of the interpreter that executes statements.

    Every branch is taken, in any order: `Frame` says why that is enough.
    """

    def execute(self, body: list[ast.stmt], frame: Frame) -> None:
        """Execute the statements of a block."""
        frame.versions.append({})
        for node in body:
            handler = _HANDLERS.get(type(node))
            if handler is None:
                kind = type(node).__name__
                self.unknown(f"a {kind} statement cannot be followed", node, frame)
            else:
                handler(self, node, frame)
        frame.versions.pop()

    # -- assignment

    def bind(
        self,
        name: str,
        value: Value,
        node: ast.AST,
        frame: Frame,
        *,
        anew: bool = False,
    ) -> None:
        """Let a name stand for a value, in the scope that it belongs to.

        With `anew` it stands for nothing else in the rest of the block.
        """
        scope: Frame | None = frame
        while scope is not None and name not in scope.own:
            if name in scope.declared_global:
                break
            scope = scope.parent
        if scope is None or name in scope.declared_global:
            names = frame.function.__globals__
            variable = StatePlace("global" if name in names else "outer variable", name)
            text, at = f"assigns the {variable}", self.at(node, frame)
            self.found.change(names.get(name, names), text, at, variable)
            is_global = variable.scope == "global"
            outer = names if is_global else self.enclosing(frame.function)
            self.found.rebind(name, outer, self.at(node, frame))
            return
        anew = anew and scope is frame
        for key in scope.replace(name, node) if anew else scope.keys_to_join(name):
            self.hold(key, value, scope)

    def hold(self, key: Any, value: Value, frame: Frame) -> None:
        """Add to what a variable may stand for."""
        old = frame.variables.get(key, NOTHING)
        if not value <= old:
            frame.variables[key] = old | value
            self.growth += 1

    def assign(
        self, target: ast.expr, value: Value, frame: Frame, *, anew: bool = False
    ) -> None:
        match target:
            case ast.Name(id=name):
                self.bind(name, value, target, frame, anew=anew)
            case ast.Attribute(value=owner, attr=name):
                held = self.evaluate(owner, frame)
                self.assign_attribute(held, name, value, target, frame)
            case ast.Subscript(value=owner, slice=index):
                self.run_operators(self.evaluate(index, frame), index, frame)
                held = self.evaluate(owner, frame)
                self.assign_element(held, value, target, frame)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(targets, value, target, frame, anew=anew)
            case ast.Starred(value=inner):
                fresh = self.fresh(target, frame, list)
                self.heap.put(fresh.site, ELEMENTS, value)
                self.assign(inner, frozenset([fresh]), frame, anew=anew)
            case _:
                self.unknown(f"assigns {shown(target)}", target, frame)

    def _unpack(
        self,
        targets: list[ast.expr],
        value: Value,
        node: ast.AST,
        frame: Frame,
        *,
        anew: bool = False,
    ) -> None:
        exact = not any(isinstance(each, ast.Starred) for each in targets)
        self.watch_iteration(value, node, frame, given="known")
        for index, target in enumerate(targets):
            if exact:
                parts = [self._at_position(r, index, node, frame) for r in value]
                self.assign(target, join(parts), frame, anew=anew)
            else:
                held = self.elements(value, node, frame)
                self.assign(target, held, frame, anew=anew)

    def run_unpacking(self, value: Value, node: ast.AST, frame: Frame) -> None:
        """Run what `a, b = value` runs."""
        self.watch_iteration(value, node, frame, given="known")
        self.elements(value, node, frame)

    def assignment(self, node: ast.Assign, frame: Frame) -> None:
        value = self.evaluate(node.value, frame)
        for target in node.targets:
            self.assign(target, value, frame, anew=True)

    def annotated(self, node: ast.AnnAssign, frame: Frame) -> None:
        if not isinstance(node.target, ast.Name):
            self.evaluate(node.annotation, frame)
        if node.value is not None:
            value = self.evaluate(node.value, frame)
            self.assign(node.target, value, frame, anew=True)

    def augmented(self, node: ast.AugAssign, frame: Frame) -> None:
        right = self.evaluate(node.value, frame)
        left = self.evaluate(_as_load(node.target), frame)
        if isinstance(node.op, ast.Add):  # a list takes in what it goes through
            self.watch_iteration(right, node, frame)
        kept = self.change_in_place(left, right, node, frame)
        made = self.combined(left, right, node.op, node, frame)
        self.assign(node.target, kept | made, frame)

    def delete(self, node: ast.Delete, frame: Frame) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name):
                self.assign(target, NOTHING, frame)
            elif target.id not in frame.own:
                self.bind(target.id, NOTHING, target, frame)

    # -- control

    def expression(self, node: ast.Expr, frame: Frame) -> None:
        self.evaluate(node.value, frame)

    def return_(self, node: ast.Return, frame: Frame) -> None:
        value = PLAIN if node.value is None else self.evaluate(node.value, frame)
        self.give_back(value, frame)

    def give_back(self, value: Value, frame: Frame) -> None:
        """Add to what a function may return."""
        if not value <= frame.returned:
            frame.returned |= value
            self.growth += 1

    def conditional(self, node: ast.If | ast.While, frame: Frame) -> None:
        self.truth(node.test, frame)
        self.execute(node.body, frame)
        self.execute(node.orelse, frame)

    def truth(self, test: ast.expr, frame: Frame) -> None:
        """Evaluate a condition."""
        value = self.evaluate(test, frame)
        for root in value:
            self.run_special(root, ("__bool__", "__len__"), test, frame)

    def loop(self, node: ast.For, frame: Frame) -> None:
        source = self.evaluate(node.iter, frame)
        found = self.iterate(source, node.iter, frame)
        frame.versions.append({})
        self.assign(node.target, found, frame, anew=True)
        self.execute(node.body, frame)
        frame.versions.pop()
        self.execute(node.orelse, frame)

    def assertion(self, node: ast.Assert, frame: Frame) -> None:
        self.truth(node.test, frame)
        if node.msg is not None:
            self.evaluate(node.msg, frame)

    def raising(self, node: ast.Raise, frame: Frame) -> None:
        for each in (node.exc, node.cause):
            if each is not None:
                raised = self.evaluate(each, frame)
                classes = frozenset(
                    root
                    for root in raised
                    if isinstance(root, Known) and isinstance(root.obj, type)
                )
                self.call(classes, Arguments(), each, frame)
                self._raise(raised - classes)

    def _raise(self, raised: Value) -> None:
        """Remember the exceptions that were not made here: a handler may get them."""
        kept = frozenset(root for root in raised if not isinstance(root, Fresh | Plain))
        if not kept <= self.raised:
            self.raised |= kept
            self.growth += 1

    def attempt(self, node: ast.Try, frame: Frame) -> None:
        self.execute(node.body, frame)
        for handler in node.handlers:
            caught = PLAIN
            if handler.type is not None:
                caught = self.evaluate(handler.type, frame)
            if handler.name is not None:
                fresh = self.fresh(handler, frame, self._kind_caught(caught))
                everything = join(frame.variables.values())
                self.heap.put(fresh.site, ELEMENTS, everything - {fresh})
                self.bind(handler.name, self.raised | {fresh}, handler, frame)
            self.execute(handler.body, frame)
        self.execute(node.orelse, frame)
        self.execute(node.finalbody, frame)

    def _kind_caught(self, caught: Value) -> type | None:
        """Return what an exception is that cannot be of a class of the user's."""
        for root in self.operands(caught):
            match root:
                case Known(obj=type() as cls):
                    if is_users_class(cls) or self.universe.subclasses_of(cls):
                        return None
                case Fresh(_, kind) if kind is tuple:
                    continue
                case _:
                    return None
        return LibraryObject

    def context(self, node: ast.With, frame: Frame) -> None:
        for item in node.items:
            manager = self.evaluate(item.context_expr, frame)
            entered: list[Value] = []
            for root in manager:
                kind = getattr(root, "type", None)
                if class_of(root) is not None:
                    names = ("__enter__", "__exit__")
                    entered.append(self.run_special(root, names, node, frame))
                elif isinstance(root, Fresh) and (
                    kind in CONTEXTS or facts_about(root) is not None
                ):
                    entered.append(self.heap.elements(root.site))
                else:
                    text = f"with {shown(item.context_expr)} enters a context"
                    if isinstance(root, Lost) and root.made:
                        self.unknown_package(text, NOTHING, item.context_expr, frame)
                    else:
                        self.unknown(text, item.context_expr, frame)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, manager | join(entered), frame)
        self.execute(node.body, frame)

    def matching(self, node: ast.Match, frame: Frame) -> None:
        subject = self.evaluate(node.subject, frame)
        self.run_operators(subject, node, frame)
        reached = subject | self.inside(subject)
        reached |= self.inside(reached) | self.elements(subject, node, frame)
        for case in node.cases:
            for inner in ast.walk(case.pattern):
                self._match_pattern(inner, reached, frame)
            if case.guard is not None:
                self.truth(case.guard, frame)
            self.execute(case.body, frame)

    def _match_pattern(self, pattern: ast.AST, reached: Value, frame: Frame) -> None:
        match pattern:
            case ast.MatchClass(cls=cls, kwd_attrs=names, patterns=patterns):
                classes = self.evaluate(cls, frame)
                self.check_class(classes, reached, cls, frame)
                for name in (*names, *(_match_args(classes) if patterns else ())):
                    reached |= self.attribute(reached, name, cls, frame)
            case ast.MatchValue(value=value):
                compared = self.evaluate(value, frame)
                self.run_operators(compared, value, frame)
                self.watch_equality(compared | reached, value, frame)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                self.bind(name, reached, pattern, frame)
            case ast.MatchMapping(rest=name):
                for root in reached:
                    self.run_special(root, ("get", "keys"), pattern, frame)
                if name is not None:
                    self.bind(name, reached, pattern, frame)

    def nothing(self, node: ast.stmt, frame: Frame) -> None:
        """Execute a statement that only directs the flow of control."""


def _match_args(classes: Value) -> list[str]:
    """Return the attributes that positional patterns read."""
    return [
        name
        for root in classes
        if isinstance(root, Known)
        for name in getattr(root.obj, "__match_args__", ())
    ]


def _as_load(target: ast.expr) -> ast.expr:
    """Return a target of `+=` as the expression that reads it."""
    match target:
        case ast.Name(id=name):
            made: ast.expr = ast.Name(name, ast.Load())
        case ast.Attribute(value=value, attr=attr):
            made = ast.Attribute(value, attr, ast.Load())
        case ast.Subscript(value=value, slice=index):
            made = ast.Subscript(value, index, ast.Load())
        case _:
            return target
    return ast.copy_location(made, target)


_HANDLERS: dict[type[ast.stmt], Callable[[Any, Any, Frame], None]] = {
    ast.Assign: Statements.assignment,
    ast.AnnAssign: Statements.annotated,
    ast.AugAssign: Statements.augmented,
    ast.Delete: Statements.delete,
    ast.Expr: Statements.expression,
    ast.Return: Statements.return_,
    ast.If: Statements.conditional,
    ast.While: Statements.conditional,
    ast.For: Statements.loop,
    ast.Assert: Statements.assertion,
    ast.Raise: Statements.raising,
    ast.Try: Statements.attempt,
    ast.TryStar: Statements.attempt,
    ast.With: Statements.context,
    ast.Match: Statements.matching,
    ast.FunctionDef: Statements.definition,
    ast.ClassDef: Statements.class_definition,
    ast.Import: Statements.importing,
    ast.ImportFrom: Statements.importing,
    ast.Pass: Statements.nothing,
    ast.Break: Statements.nothing,
    ast.Continue: Statements.nothing,
    ast.Global: Statements.nothing,
    ast.Nonlocal: Statements.nothing,
}
