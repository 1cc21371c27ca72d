"""Nothing of the user's runs that the analysis did not foresee.

Programs are run by the sequential engine, which gives them their meaning, while a trace
notes every function of theirs that is called. Each of these must be among the functions
that the analysis followed: a special method that Python calls, or one that an engine
calls, may have an effect like any other.
"""

import ast
import random
import sys
import threading

import pytest

import anabranch as ab
from anabranch.language.drafts import build_graph
from anabranch.python.analyze import learn
from anabranch.python.source import node_of
from tests import needs
from tests.python.test_programs import ACCEPTED, HEADER
from tests.python.test_snippets import module_of

TOO_LARGE = "the code is too large to follow"
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
    "the place of a window is a property": (
        "class T:\n    def __init__(self, n):\n        self.n = n\n"
        "    @property\n    def at(self):\n        return self.n\n"
        "def program(ab):\n    s = ab.from_iterable([T(1), T(5), T(9)])\n"
        "    return s.window(time=4, on='at').aggregate(len)\n"
    ),
    "the least of a column is compared": (
        "class V:\n    def __init__(self, n):\n        self.n = n\n"
        "    def __lt__(self, o):\n        return self.n < o.n\n"
        "    def __gt__(self, o):\n        return self.n > o.n\n"
        "class T:\n    def __init__(self, n):\n        self.v = V(n)\n"
        "def program(ab):\n    s = ab.from_iterable([T(1), T(2)])\n"
        "    return s.window(count=2).aggregate(low=ab.min('v'), high=ab.max('v'))\n"
    ),
    "items of a file are made by their constructor": (
        "import pathlib, tempfile\n"
        "FILE = pathlib.Path(tempfile.mkdtemp()) / 'rows.csv'\n"
        "FILE.write_text('n\\n1\\n2\\n')\n"
        "@dataclass(frozen=True)\nclass T:\n    n: int\n"
        "    def __post_init__(self):\n        check(self.n)\n"
        "def check(n):\n    assert n\n"
        "def program(ab):\n    return ab.read_csv(FILE, T).map(lambda t: t.n)\n"
    ),
    "the result of a route is gone through": (
        "class V:\n    def __iter__(self):\n        return iter([0, 1])\n"
        "def program(ab):\n    return ab.from_iterable([1]).split(lambda n: V(), 2)[0]\n"
    ),
    "a lookup hashes and compares": (
        "class K(NamedTuple):\n    n: int\n    @property\n    def k(self):\n"
        "        return self.n\n"
        "def program(ab):\n    s = ab.from_iterable([K(1), K(2)])\n"
        "    return s.key_by('k').scan(lambda s, t: (t, s), None)\n"
    ),
    "the state of a scan has operators": (
        "class S:\n    def __init__(self, n=0):\n        self.n = n\n"
        "    def __add__(self, o):\n        return S(self.n + o)\n"
        "    def __bool__(self):\n        return self.n > 1\n"
        "def program(ab):\n    def step(s, n):\n        s = s + n\n"
        "        return s, 1 if s else 0\n"
        "    return ab.from_iterable([1, 2]).scan(step, S())\n"
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


def functions_that_run(program, filename, **options):
    """Run a program; return the functions of a file that were called, by name."""
    called = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename == filename:
            called.add(frame.f_code)

    sys.settrace(note)
    threading.settrace(note)
    try:
        ab.run(program, on="sequential", **options)
    finally:
        sys.settrace(None)
        threading.settrace(None)
    comprehensions = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>")
    return {code for code in called if code.co_name not in comprehensions}


def unforeseen(text, folder):
    """Return the functions of a program that run and were not followed.

    Where the analysis says that the code is too large to follow, it claims nothing.
    """
    module = module_of(f"{HEADER}{text}\n", folder)
    sink = stream_of(module).to_list()
    found = learn(build_graph([sink])).findings
    effects = [e.text for each in found.values() for one in each for e in one.effects]
    if TOO_LARGE in effects:
        return [TOO_LARGE]
    followed = {node for each in found.values() for one in each for node in one.visited}
    run = functions_that_run(sink, module.__file__)
    lines = {node.lineno for node in followed if isinstance(node, ast.Lambda)}
    return sorted(
        code.co_qualname
        for code in run
        if node_of(code) not in followed
        and not (code.co_name == "<lambda>" and code.co_firstlineno in lines)
    )


@pytest.mark.parametrize("method", needs.share(2, OPERATIONS))
def test_special_methods_that_python_calls_are_followed(method, tmp_path):
    assert [] == unforeseen(operation(method), tmp_path)


@pytest.mark.parametrize("program", ENGINES.values(), ids=ENGINES)
def test_methods_that_engines_call_are_followed(program, tmp_path):
    assert [] == unforeseen(program, tmp_path)


def test_the_hooks_of_pickling_are_followed(tmp_path):
    text = (
        "LOG = []\nclass T:\n    def __init__(self, n):\n        self.n = n\n"
        "    def __getstate__(self):\n        LOG.append(1)\n        return self.n\n"
        "    def __setstate__(self, n):\n        LOG.append(2)\n        self.n = n\n"
        "ITEMS = [T(1)]\ndef operator(item):\n    return item.n\n"
    )
    module = module_of(f"{HEADER}{text}\n", tmp_path)
    found = learn(build_graph([stream_of(module).to_list()])).findings["it"]
    followed = {node for one in found for node in one.visited}

    assert {True} == {
        node_of(getattr(module.T, name).__code__) in followed
        for name in ("__getstate__", "__setstate__")
    }


def test_the_function_that_takes_dead_letters_is_followed(tmp_path):
    text = (
        "FAILED = []\nclass Note:\n    def __init__(self, failure):\n"
        "        self.text = str(failure)\n"
        "def on_error(failure):\n    FAILED.append(Note(failure))\n"
        "ITEMS = [1, 0]\ndef operator(item):\n    return 1 // item\n"
    )
    module = module_of(f"{HEADER}{text}\n", tmp_path)
    sink = stream_of(module).to_list()
    found = learn(build_graph([sink]), module.on_error).findings
    followed = {node for each in found.values() for one in each for node in one.visited}
    run = functions_that_run(sink, module.__file__, on_error=module.on_error)

    assert {"operator", "on_error", "Note.__init__"} == {c.co_qualname for c in run}
    assert [] == [code.co_qualname for code in run if node_of(code) not in followed]


RUNNABLE = {
    title: text
    for title, text in ACCEPTED.items()
    if "ITEMS = [" in text and "def program" not in text
}


@pytest.mark.parametrize("program", needs.share(4, RUNNABLE.values()), ids=RUNNABLE)
def test_accepted_programs_run_nothing_else(program, tmp_path):
    assert [] == unforeseen(program, tmp_path)


@pytest.mark.parametrize("seed", needs.quick(5, range(20)))
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


# What expressions of generated programs are made of; V is a class with special methods.
LEAVES = ["V(1)", "V(item)", "item", "2", "'a'", "[V(2), V(1)]", "(V(1), 3)"]
FORMS = [
    *("({} + {})", "({} - {})", "({} * {})", "({} == {})", "({} < {})", "({} in [{}])"),
    *(
        "(-{})",
        "(not {})",
        "abs({})",
        "repr({})",
        "str({})",
        "'{{:>3}}'.format({})",
        "len([{}])",
    ),
    *("({} if {} else 0)", "({} and {})", "sorted([{}, {}])", "max({}, {})"),
    *("sum([{}, {}], V(0))", "{{{}: {}}}", "[x for x in [{}, {}] if x]", "({}).n"),
    *("list(map(lambda x: x, [{}]))", "any(x == {} for x in [{}])", "(hash({}) % 3)"),
    *(
        "round(2.5, {})",
        "list(enumerate('ab', {}))",
        "('a' * {})",
        "sorted([2, 1], key=V)",
    ),
    *("list(filter(V, [{}, {}]))", "([{}] == [{}])", "({} >= {})", "({} != {})"),
    *("list(itertools.groupby([1, 1], V))", "np.sum({})", "format({})", "len({})"),
    *("copy.copy({})", "functools.reduce(lambda a, b: a + b, [{}, {}])", "bool({})"),
]
METHODS = {
    "__add__(self, o)": "return V(self.n)",
    "__radd__(self, o)": "return V(self.n)",
    "__sub__(self, o)": "return NotImplemented",
    "__rsub__(self, o)": "return 1",
    "__mul__(self, o)": "return o",
    "__neg__(self)": "return self",
    "__abs__(self)": "return V(2)",
    "__eq__(self, o)": "return isinstance(o, V) and self.n == o.n",
    "__hash__(self)": "return hash(self.n)",
    "__lt__(self, o)": "return id(self) < 0",
    "__gt__(self, o)": "return False",
    "__bool__(self)": "return bool(self.n)",
    "__len__(self)": "return 1",
    "__index__(self)": "return 1",
    "__le__(self, o)": "return V(1)",
    "sum(self, **k)": "return 1",
    "__repr__(self)": "return 'V'",
    "__str__(self)": "return f'v{self.n}'",
    "__format__(self, how)": "return 'f'",
    "__copy__(self)": "return V(self.n)",
    "__getattr__(self, name)": "raise AttributeError(name)",
}


def generated(chance):
    """Return a program with a class of some special methods, and expressions on it."""
    chosen = chance.sample(list(METHODS), 7)
    lines = ["class V:", "    def __init__(self, n):", "        self.n = n"]
    for method in chosen:
        lines += [f"    def {method}:", f"        {METHODS[method]}"]

    def expression(depth):
        if depth == 0 or chance.random() < 0.2:
            return chance.choice(LEAVES)
        form = chance.choice(FORMS)
        return form.format(
            *(expression(depth - 1) for _ in range(form.replace("{{", "").count("{}")))
        )

    lines += ["def attempt(f):", "    try:", "        f()"]
    lines += ["    except Exception:", "        pass", "ITEMS = [1, 2]"]
    lines += ["def operator(item):"]
    lines += [f"    attempt(lambda: {expression(2)})" for _ in range(4)]
    return "\n".join([*lines, "    return item"])


def check_generated(seeds, folder):
    """Check the programs of some seeds, of which few may be too large to follow."""
    given_up = 0
    for seed in seeds:
        text = generated(random.Random(seed))
        inside = folder / str(seed)
        inside.mkdir()
        found = unforeseen(text, inside)
        given_up += found == [TOO_LARGE]

        assert found in ([], [TOO_LARGE]), text
    assert given_up <= len(seeds) / 10


def test_generated_programs_run_nothing_else(tmp_path):
    check_generated(range(12), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("hundred", range(10))
def test_many_generated_programs_run_nothing_else(hundred, tmp_path):
    check_generated(range(100 + 100 * hundred, 200 + 100 * hundred), tmp_path)
