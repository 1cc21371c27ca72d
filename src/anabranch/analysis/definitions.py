"""What a function that is defined, or a module that is imported, inside of one means."""

from __future__ import annotations

import ast
import sys
from abc import abstractmethod

from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.expressions import Expressions
from anabranch.analysis.values import Arguments, Known, Value


class Definitions(Expressions):
    """The part of the interpreter that defines functions and imports modules."""

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

    def importing(self, node: ast.Import | ast.ImportFrom, frame: Frame) -> None:
        prefix = getattr(node, "module", None)
        for alias in node.names:
            full = prefix or alias.name
            module = sys.modules.get(full)
            if module is None or alias.name == "*" or getattr(node, "level", None):
                self.unknown(f"imports {full} while it runs", node, frame)
                continue
            text = f"the module {full}"
            value: Value = frozenset([Known(module, text)])
            if prefix is not None:
                value = self.attribute(value, alias.name, node, frame)
            elif alias.asname is None:
                top = sys.modules[full.partition(".")[0]]
                value = frozenset([Known(top, text)])
            self.bind(
                (alias.asname or alias.name).partition(".")[0], value, node, frame
            )


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
