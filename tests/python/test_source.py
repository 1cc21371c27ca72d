"""From function objects to the syntax that they were compiled from."""

import ast
import importlib.util
import os
import subprocess
import sys
import types
from xml.dom import minidom

import pytest

from anabranch.python.objects import is_users_code
from anabranch.python.source import file_of, node_of


def loaded(path, text):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES = {
    "a function": ("def f(x):\n    return x + 1\n", "return x + 1"),
    "a lambda": ("f = lambda x: x * 2\n", "x * 2"),
    "the second lambda of a line": ("g, f = lambda x: x, lambda x: -x\n", "-x"),
    "a decorated function": (
        "import functools\ndef d(g):\n    return g\n@d\ndef f(x):\n    return x\n",
        "return x",
    ),
    "a function in a function": (
        "def make():\n    def inner(x):\n        return x\n    return inner\nf = make()\n",
        "return x",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_the_syntax_of_a_function_is_found(text, expected, tmp_path):
    module = loaded(tmp_path / "some_module.py", text)

    node = node_of(module.f.__code__)

    body = node.body if isinstance(node, ast.Lambda) else node.body[-1]
    assert expected == ast.unparse(body)


PRIVATE = {
    "an attribute": "class C:\n def f(self, __a): self.__n = __a.__b; del self.__n",
    "a method": "class _C:\n def __f(self): return self.__f, C.__init__",
    "a class in a class": "class C:\n class __D:\n  def f(self): return __x, C.__D",
    "a base and a decorator": "class C:\n @__d\n class D(__B): __k = __v",
    "a lambda and a default": "class C:\n f = lambda self, k=__a: self.__n[k:__b]",
    "an import": "class C:\n import __m\n from m import __f, g as __g",
    "a global": "class C:\n def f(self):\n  global __n\n  __n = 1",
    "a handler": "class C:\n try: f()\n except E as __e: print(__e)",
    "a pattern": "class C:\n match x:\n  case [__a, *__b]: pass\n  case {**__r}: pass",
    "a named argument": "class C:\n f(__k=1)",
    "a class of underscores": "class __:\n def f(self): return self.__n",
    "no class": "def f(self): return self.__n",
}


@pytest.mark.parametrize("text", PRIVATE.values(), ids=PRIVATE)
def test_private_names_are_those_that_python_compiles(text, tmp_path):
    path = tmp_path / "private.py"
    path.write_text(text)

    found = file_of(str(path))

    wanted = compile(text, "x", "exec", dont_inherit=True)
    left = {name for name in identifiers_in(found.tree) if name.startswith("__")}
    assert names_in(wanted) == names_in(compile(found.tree, "x", "exec"))
    assert left <= {"__init__"} if " C" in text or " _C" in text else "__n" in left


def identifiers_in(tree):
    """Yield the names that are bound or read; arguments have theirs as they are."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.keyword | ast.alias | ast.Constant):
            for _, value in ast.iter_fields(node):
                yield from [value] if isinstance(value, str) else []


def names_in(code):
    """Return the names in a code object and those in it; functions have no name."""
    inside = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    own = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return own, [names_in(one) for one in inside]


def test_a_file_that_was_edited_after_import_has_no_source(tmp_path):
    path = tmp_path / "edited_module.py"
    module = loaded(path, "def f(x):\n    return x + 1\n")
    path.write_text("def f(x):\n    return x + 2\n")
    os.utime(path, (1, 1))

    assert node_of(module.f.__code__) is None


def test_code_that_was_made_from_text_has_no_source():
    names = {}
    exec("def f(x): return x", names)

    assert node_of(names["f"].__code__) is None


def test_every_binding_of_a_name_counts(tmp_path):
    path = tmp_path / "bound_names.py"
    path.write_text("def f(): pass\ndef g():\n    global f\n    f = 1\nm.f = 2\n")

    assert 4 == file_of(str(path)).bindings("f")


def test_code_that_equals_that_of_a_package_is_still_the_users(tmp_path):
    line = minidom.Node.__bool__.__code__.co_firstlineno
    text = (
        "\n" * (line - 2)
        + "class Node:\n    def __bool__(self):\n        return True\n"
    )
    path = tmp_path / "own.py"
    path.write_text(text)
    names = {}
    exec(compile(text, str(path), "exec"), names)

    package, own = minidom.Node.__bool__.__code__, names["Node"].__bool__.__code__

    assert not is_users_code(package)
    assert is_users_code(own)


SHOWN = """
import anabranch as ab
made = eval("lambda n: n + 2")
out = ab.from_iterable([1]).map(lambda n: n + 1).map(made).to_list()
print(ab.explain(out))
"""


def explain_by(*arguments, given=None):
    done = subprocess.run(
        [sys.executable, *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=True,
    )
    return " ".join(done.stdout.split())


def test_the_text_of_a_command_is_read_but_not_what_it_makes_from_a_text():
    shown = explain_by("-c", SHOWN, "-c")

    assert "r0: from_iterable -> map without" in shown
    assert "map_2 (<string>:4): the source of <lambda> is not available" in shown


def test_a_program_from_standard_input_is_told_to_be_a_file():
    shown = explain_by("-", given=SHOWN)

    assert "as Python has read it from standard input; put it into a file" in shown
