"""Nothing of the user's runs that the analysis did not foresee.

Programs are run by the sequential engine, which gives them their meaning, while a trace
notes every function of theirs that is called. Each of these must be among the functions
that the analysis followed: a special method that Python calls, or one that an engine
calls, may have an effect like any other.
"""

import random
import sys
import threading

import pytest

import anabranch as ab
from anabranch.language.drafts import build_graph
from anabranch.python.analyze import learn
from anabranch.python.source import node_of
from tests.python.test_programs import ACCEPTED, HEADER
from tests.python.test_snippets import module_of

# special method: (its body, an expression that makes Python call it)
OPERATIONS = {
    "__add__(self, o)": ("return 1", "V() + 1"),
    "__radd__(self, o)": ("return 1", "1 + V()"),
    "__iadd__(self, o)": ("return self", "add_in_place(V())"),
    "__sub__(self, o)": ("return 1", "V() - 1"),
    "__rmul__(self, o)": ("return 1", "2 * V()"),
    "__matmul__(self, o)": ("return 1", "V() @ 1"),
    "__rpow__(self, o)": ("return 1", "2 ** V()"),
    "__neg__(self)": ("return 1", "-V()"),
    "__invert__(self)": ("return 1", "~V()"),
    "__abs__(self)": ("return 1", "abs(V())"),
    "__round__(self, n=0)": ("return 1", "round(V())"),
    "__int__(self)": ("return 1", "int(V())"),
    "__float__(self)": ("return 1.0", "float(V())"),
    "__index__(self)": ("return 1", "[3, 4][V()]"),
    "__bool__(self)": ("return True", "1 if V() else 2"),
    "__len__(self)": ("return 2", "not V()"),
    "__eq__(self, o)": ("return True", "V() == 1"),
    "__ne__(self, o)": ("return True", "V() != 1"),
    "__lt__(self, o)": ("return True", "sorted([V(), V()]) is None"),
    "__gt__(self, o)": ("return True", "max(V(), V()) is None"),
    "__contains__(self, o)": ("return True", "1 in V()"),
    "__iter__(self)": ("return iter([1])", "1 in V()"),
    "__getitem__(self, i)": ("return [1][i]", "list(V())"),
    "__reversed__(self)": ("return iter([1])", "list(reversed(V()))"),
    "__call__(self)": ("return 1", "V()()"),
    "__str__(self)": ("return 'v'", "f'{V()}'"),
    "__repr__(self)": ("return 'v'", "str([V()])"),
    "__format__(self, how)": ("return 'v'", "'{:>3}'.format(V())"),
    "__getattr__(self, name)": ("return 1", "V().missing"),
    "__getattribute__(self, name)": (
        "return object.__getattribute__(self, name)",
        "V().__class__ and V().anything",
    ),
    "__enter__(self)": ("return 1", "entered(V())"),
    "__copy__(self)": ("return 1", "copy.copy(V())"),
    "__fspath__(self)": ("return 'v'", "os.path.join('a', V())"),
    "__divmod__(self, o)": ("return 1", "divmod(V(), 2)"),
    "__floor__(self)": ("return 1", "math.floor(V())"),
    "__missing__(self, key)": ("return 1", "V()['a']"),
    "__new__(cls)": ("return object.__new__(cls)", "V() is None"),
    "__init__(self)": ("self.n = 1", "V().n"),
    "__setattr__(self, name, value)": (
        "object.__setattr__(self, name, value)",
        "assigned(V())",
    ),
}
BASES = {"__missing__(self, key)": "(dict)"}
EXTRA = {
    "__iter__(self)": "",
    "__enter__(self)": "    def __exit__(self, *a):\n        return None\n",
    "__getattribute__(self, name)": "    anything = 1\n",
    "__repr__(self)": "",
}
HELPERS = """
import os
def add_in_place(v):
    v += 1
    return 1
def entered(v):
    with v as n:
        return n
def assigned(v):
    v.a = 1
    return 1
"""
ENGINES = {
    "a key is a property": (
        "class T:\n    def __init__(self, n):\n        self.n = n\n"
        "    @property\n    def k(self):\n        return self.n % 2\n"
        "def program(ab):\n    s = ab.from_iterable([T(1), T(2)])\n"
        "    return s.key_by('k').scan(lambda s, t: (s + 1, s), 0)\n"
    ),
    "a column is a property": (
        "class T:\n    k = 1\n    @property\n    def v(self):\n        return 3\n"
        "def program(ab):\n    s = ab.from_iterable([T(), T()]).key_by('k')\n"
        "    return s.window(count=2).aggregate(total=ab.sum('v'))\n"
    ),
    "the values of a column are added": (
        "class V:\n    def __radd__(self, o):\n        return o + 1\n"
        "class T:\n    def __init__(self):\n        self.k = 1\n        self.v = V()\n"
        "def program(ab):\n    s = ab.from_iterable([T(), T()]).key_by('k')\n"
        "    return s.window(count=2).aggregate(total=ab.sum('v'))\n"
    ),
    "the result of a filter says whether it is true": (
        "class V:\n    def __bool__(self):\n        return True\n"
        "def program(ab):\n    return ab.from_iterable([1]).filter(lambda n: V())\n"
    ),
    "the result of a flat_map is gone through": (
        "class V:\n    def __iter__(self):\n        return iter([1])\n"
        "def program(ab):\n    return ab.from_iterable([1]).flat_map(lambda n: V())\n"
    ),
    "what is merged is compared": (
        "class K:\n    def __init__(self, n):\n        self.n = n\n"
        "    def __lt__(self, o):\n        return self.n < o.n\n"
        "    def __le__(self, o):\n        return self.n <= o.n\n"
        "    def __gt__(self, o):\n        return self.n > o.n\n"
        "class T:\n    def __init__(self, n):\n        self.k = K(n)\n"
        "def program(ab):\n    a, b = ab.from_iterable([T(1)]), ab.from_iterable([T(2)])\n"
        "    return ab.merge(a, b, by='k')\n"
    ),
}


def operation(method):
    body, expression = OPERATIONS[method]
    return (
        f"{HELPERS}\nclass V{BASES.get(method, '')}:\n    def {method}:\n        {body}\n"
        f"{EXTRA.get(method, '')}\nITEMS = [1, 2]\n"
        f"def operator(item):\n    return repr(type({expression}))\n"
    )


def stream_of(module):
    if hasattr(module, "program"):
        return module.program(ab)
    return ab.from_iterable(module.ITEMS).map(module.operator, name="it")


def functions_that_run(program, filename):
    """Run a program; return the functions of a file that were called, by name."""
    called = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename == filename:
            called.add(frame.f_code)

    sys.settrace(note)
    threading.settrace(note)
    try:
        ab.run(program, on="sequential")
    finally:
        sys.settrace(None)
        threading.settrace(None)
    comprehensions = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>")
    return {code for code in called if code.co_name not in comprehensions}


def unforeseen(text, folder):
    """Return the functions of a program that run and were not followed."""
    module = module_of(f"{HEADER}{text}\n", folder)
    sink = stream_of(module).to_list()
    found = learn(build_graph([sink])).findings
    followed = {node for each in found.values() for one in each for node in one.visited}
    run = functions_that_run(sink, module.__file__)
    return sorted(code.co_qualname for code in run if node_of(code) not in followed)


@pytest.mark.parametrize("method", OPERATIONS)
def test_special_methods_that_python_calls_are_followed(method, tmp_path):
    assert [] == unforeseen(operation(method), tmp_path)


@pytest.mark.parametrize("program", ENGINES.values(), ids=ENGINES)
def test_methods_that_engines_call_are_followed(program, tmp_path):
    assert [] == unforeseen(program, tmp_path)


RUNNABLE = {
    title: text
    for title, text in ACCEPTED.items()
    if "ITEMS = [" in text and "def program" not in text
}


@pytest.mark.parametrize("program", RUNNABLE.values(), ids=RUNNABLE)
def test_accepted_programs_run_nothing_else(program, tmp_path):
    assert [] == unforeseen(program, tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_operations_that_are_combined_run_nothing_else(seed, tmp_path):
    chance = random.Random(seed)
    chosen = chance.sample([m for m in OPERATIONS if m not in BASES], 4)
    classes, parts = [], []
    for number, method in enumerate(chosen):
        body, expression = OPERATIONS[method]
        head = f"class V{number}:\n    def {method}:\n        {body}\n"
        classes.append(head + EXTRA.get(method, ""))
        parts.append(expression.replace("V(", f"V{number}("))
    listed = ", ".join(f"lambda: repr(type({each}))" for each in parts)
    text = (
        f"{HELPERS}\n"
        + "\n".join(classes)
        + f"\nPARTS = [{listed}]\nITEMS = [0, 1, 2, 3]\n"
        "def operator(item):\n    return PARTS[item]()\n"
    )

    assert [] == unforeseen(text, tmp_path)
