"""From function objects to the syntax that they were compiled from."""

import ast
import importlib.util
import os
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
