"""How many outputs are counted, by the text of the function."""

import ast
import textwrap

import pytest

from anabranch.graph.kind import Push
from anabranch.python.lower import lower_node
from anabranch.python.rates import count_outputs

CASES = {
    "a list counts its elements": ("def f(x): return [x, x]", (2, 2)),
    "a starred list has no bound": ("def f(x): return [x, *x]", (1, None)),
    "a set may lose equal elements": ("def f(x): return {x, 1}", (1, 2)),
    "a choice covers both": ("def f(x): return [x] if x else []", (0, 1)),
    "a comprehension has no bound": ("def f(x): return [y for y in x]", (0, None)),
    "every path of a generator": ("def f(x):\n if x: yield 1\n yield 2", (1, 2)),
    "a loop has no bound": ("def f(x):\n for y in x: yield y", (0, None)),
    "a loop that is written out": ("def f(x):\n for y in (1, 2): yield y", (2, 2)),
    "a break leaves early": (
        "def f(x):\n for y in (1, 2):\n  if x: break\n  yield y",
        (0, None),
    ),
    "a path that raises does not count": (
        "def f(x):\n if x: raise ValueError\n yield 1",
        (1, 1),
    ),
    "a handler goes on": (
        "def f(x):\n try:\n  yield 1\n except E:\n  yield 2\n yield 3",
        (2, 3),
    ),
    "yield from a list": ("def f(x): yield from [x, x]", (2, 2)),
    "yield from a helper": ("def f(x): yield from helper(x)", (1, 2)),
    "a helper is returned": ("def f(x): return helper(x)", (1, 2)),
    "an unknown helper has no bound": ("def f(x): return other(x)", (0, None)),
    "a recursive function has no bound": ("def f(x): return f(x)", (0, None)),
    "nothing is yielded": ("def f(x):\n return\n yield", (0, 0)),
    "a generator inside does not count": (
        "def f(x):\n def g():\n  yield 1\n yield 2",
        (1, 1),
    ),
    "one of the cases runs": (
        "def f(x):\n match x:\n  case 1: yield 1\n  case _:\n   yield 2\n   yield 3",
        (1, 2),
    ),
    "none of the cases may run": (
        "def f(x):\n match x:\n  case 1: yield 1",
        (0, 1),
    ),
    "what awaits has no bound": (
        "def f(x):\n yield 1\n async for y in x: yield y",
        (1, None),
    ),
    "a lambda": ("lambda x: (x, x, x)", (3, 3)),
}
HELPER = lower_node(ast.parse("def helper(x):\n yield 1\n if x: yield 2").body[0])


@pytest.mark.parametrize(("text", "push"), CASES.values(), ids=CASES)
def test_count_outputs(text, push):
    statement = ast.parse(textwrap.dedent(text)).body[0]
    node = statement.value if isinstance(statement, ast.Expr) else statement
    function = lower_node(node)
    known = {"helper": HELPER, "f": function}

    assert Push(*push) == count_outputs(function, known.get)[0]
