"""No generated function with hidden state is ever called stateless.

A hiding place says where the state lives and which expression touches it; a wrapping
hides that expression in other code. Every combination is broken if it runs in parallel.
The converse holds a share of generated pure functions to be accepted.
"""

import importlib.util
import itertools
import sys
import tempfile
import textwrap
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.language.drafts import build_graph
from anabranch.language.sources import from_iterable
from anabranch.python.analyze import analyze
from tests import needs

_numbers = itertools.count()
_folder = tempfile.TemporaryDirectory()

# (code of the module, parameters of the operator, expression that touches the state)
HIDING_PLACES = {
    "global list": ("STATE = []", "item", "STATE.append(item)"),
    "global dict": ("STATE = {}", "item", "STATE.update({item: 1})"),
    "global dict key": ("STATE = {}", "item", "STATE.setdefault(item, len(STATE))"),
    "global set": ("STATE = set()", "item", "STATE.add(item)"),
    "default argument": ("", "item, state=[]", "state.append(item)"),
    "default dictionary": ("", "item, state={}", "state.update(a=item)"),
    "captured iterator": ("STATE = iter(range(99))", "item", "next(STATE)"),
    "captured count": (
        "import itertools\nSTATE = itertools.count()",
        "item",
        "next(STATE)",
    ),
    "bound method": ("STATE = []\npush = STATE.append", "item", "push(item)"),
    "class attribute": ("class State:\n    n = []", "item", "State.n.append(item)"),
    "instance attribute": (
        (
            "class State:\n    def __init__(self):\n        self.n = 0\n"
            "    def bump(self):\n        self.n += 1\n        return self.n\nstate = State()"
        ),
        "item",
        "state.bump()",
    ),
    "helper": ("STATE = []\ndef touch(x):\n    STATE.append(x)", "item", "touch(item)"),
    "helper of a helper": (
        "STATE = []\ndef deep(x):\n    STATE.append(x)\ndef touch(x):\n    return deep(x)",
        "item",
        "touch(item)",
    ),
    "helper's parameter": (
        "STATE = []\ndef touch(where, x):\n    where.append(x)",
        "item",
        "touch(STATE, item)",
    ),
    "global rebinding": (
        "STATE = 0\ndef touch():\n    global STATE\n    STATE += 1\n    return STATE",
        "item",
        "touch()",
    ),
    "closure": (
        (
            "def make():\n    n = 0\n    def touch():\n        nonlocal n\n        n += 1\n"
            "        return n\n    return touch\ntouch = make()"
        ),
        "item",
        "touch()",
    ),
    "partial": (
        "import functools\ndef keep(s, x):\n    s.append(x)\ntouch = functools.partial(keep, [])",
        "item",
        "touch(item)",
    ),
    "cached impure function": (
        (
            "import functools\nSTATE = []\n@functools.lru_cache\ndef touch(x):\n"
            "    STATE.append(x)\n    return len(STATE)"
        ),
        "item",
        "touch(item)",
    ),
    "cached list": (
        "import functools\n@functools.lru_cache\ndef shared():\n    return []",
        "item",
        "shared().append(item)",
    ),
    "setattr": ("class S: pass\nSTATE = S()", "item", 'setattr(STATE, "last", item)'),
    "getattr": ("STATE = []", "item", 'getattr(STATE, "append")(item)'),
    "class method": (
        (
            "class S:\n    n = 0\n    @classmethod\n    def touch(cls):\n        cls.n += 1\n"
            "        return cls.n"
        ),
        "item",
        "S.touch()",
    ),
    "property": (
        (
            "class S:\n    n = 0\n    @property\n    def next(self):\n        S.n += 1\n"
            "        return S.n"
        ),
        "item",
        "S().next",
    ),
    "operator": (
        (
            "STATE = []\nclass S:\n    def __add__(self, x):\n        STATE.append(x)\n"
            "        return 1"
        ),
        "item",
        "S() + item",
    ),
    "truth": (
        (
            "STATE = []\nclass S:\n    def __bool__(self):\n        STATE.append(1)\n"
            "        return True"
        ),
        "item",
        "(1 if S() else 2)",
    ),
    "index": (
        (
            "STATE = []\nclass S:\n    def __getitem__(self, k):\n        STATE.append(k)\n"
            "        return k\ns = S()"
        ),
        "item",
        "s[item]",
    ),
    "iteration": (
        (
            "STATE = []\nclass S:\n    def __iter__(self):\n        STATE.append(1)\n"
            "        return iter([1])\ns = S()"
        ),
        "item",
        "list(s)",
    ),
    "callable object": (
        (
            "class S:\n    n = 0\n    def __call__(self, x):\n        self.n += 1\n"
            "        return self.n\ns = S()"
        ),
        "item",
        "s(item)",
    ),
    "attribute hook": (
        (
            "STATE = []\nclass S:\n    def __getattr__(self, k):\n        STATE.append(k)\n"
            "        return k\ns = S()"
        ),
        "item",
        "s.anything",
    ),
    "default dict read": (
        "import collections\nSTATE = collections.defaultdict(list)",
        "item",
        "STATE[item]",
    ),
    "heap": ("import heapq\nSTATE = []", "item", "heapq.heappush(STATE, item)"),
    "bisect": ("import bisect\nSTATE = []", "item", "bisect.insort(STATE, item)"),
    "deque": (
        "import collections\nSTATE = collections.deque()",
        "item",
        "STATE.rotate(1)",
    ),
    "array": ("import numpy as np\nSTATE = np.zeros(3)", "item", "STATE.fill(item)"),
    "array output": (
        "import numpy as np\nSTATE = np.zeros(3)",
        "item",
        "np.multiply(item, 2, out=STATE)",
    ),
    "input item": ("", "item", "item.append(1)"),
    "part of the input": ("", "item", "item.tags.update(a=1)"),
    "random": ("import random", "item", "random.random()"),
    "clock": ("import time", "item", "time.time()"),
    "file": ("", "item", "open(item).read()"),
    "environment": ("import os", "item", "os.environ.get('A')"),
    "generator": (
        "def source():\n    n = 0\n    while True:\n        n += 1\n        yield n\ns = source()",
        "item",
        "s.send(None)",
    ),
    "unbound method": ("STATE = []", "item", "list.append(STATE, item)"),
    "operator module": (
        "import operator\nSTATE = {}",
        "item",
        "operator.setitem(STATE, item, 1)",
    ),
    "method caller": (
        "import operator\nSTATE = []\ntouch = operator.methodcaller('append', 1)",
        "item",
        "touch(STATE)",
    ),
    "dunder": ("STATE = {}", "item", "STATE.__setitem__(item, 1)"),
    "nested container": ("STATE = {'a': [[]]}", "item", "STATE['a'][0].append(item)"),
    "mutable in a tuple": ("STATE = (1, [])", "item", "STATE[1].append(item)"),
    "dictionary of functions": (
        "STATE = []\ndef f(x):\n    STATE.append(x)\nTABLE = {'f': f}",
        "item",
        "TABLE['f'](item)",
    ),
    "class of an instance": (
        "class S:\n    n = 0\ns = S()",
        "item",
        "setattr(type(s), 'n', item)",
    ),
    "class through an attribute": (
        "class S:\n    n = []\ns = S()",
        "item",
        "s.__class__.n.append(item)",
    ),
    "function attribute": (
        "def f(): pass\nf.seen = []",
        "item",
        "f.seen.append(item)",
    ),
    "dictionary that fills itself": (
        (
            "class D(dict):\n    def __missing__(self, k):\n        self[k] = 1\n"
            "        return 1\nD_ = D()"
        ),
        "item",
        "D_[item]",
    ),
    "property through hasattr": (
        (
            "class S:\n    n = 0\n    @property\n    def label(self):\n        S.n += 1\n"
            "        return 1\ns = S()"
        ),
        "item",
        "hasattr(s, 'label')",
    ),
    "property through format": (
        (
            "class S:\n    n = 0\n    @property\n    def label(self):\n        S.n += 1\n"
            "        return 1\ns = S()"
        ),
        "item",
        "'{0.label}'.format(item)",
    ),
    "subscript of a class": (
        (
            "STATE = []\nclass S:\n    def __class_getitem__(cls, k):\n"
            "        STATE.append(k)\n        return k"
        ),
        "item",
        "S[item]",
    ),
    "encoder": (
        (
            "import json\nSTATE = []\nclass E(json.JSONEncoder):\n    def default(self, o):\n"
            "        STATE.append(o)\n        return 1"
        ),
        "item",
        "json.dumps(item, cls=E)",
    ),
    "uncalled default": ("STATE = []", "item", "(lambda x=STATE.append(item): x)"),
    "values of a dictionary": (
        "STATE = {'a': []}",
        "item",
        "[v.append(item) for v in STATE.values()]",
    ),
    "elements of a zip": (
        "STATE = [[], []]",
        "item",
        "[a.append(b) for a, b in zip(STATE, [1, 2])]",
    ),
    "copied outside": ("STATE = [[]]", "item", "list(STATE)[0].append(item)"),
    "namespace": (
        "import types\nSTATE = []",
        "item",
        "types.SimpleNamespace(s=STATE).s.append(item)",
    ),
    "record": (
        "from typing import NamedTuple\nSTATE = []\nclass R(NamedTuple):\n    s: list",
        "item",
        "R(STATE).s.append(item)",
    ),
    "replaced record": (
        (
            "from typing import NamedTuple\nSTATE = []\nclass R(NamedTuple):\n    s: list\n"
            "r = R([])"
        ),
        "item",
        "r._replace(s=STATE).s.append(item)",
    ),
    "returned by a helper": (
        "STATE = []\ndef get():\n    return STATE",
        "item",
        "get().append(item)",
    ),
    "yielded by a helper": (
        "STATE = []\ndef get():\n    yield STATE",
        "item",
        "next(get()).append(item)",
    ),
    "returned by a method": (
        (
            "class S:\n    def __init__(self):\n        self.log = []\n"
            "    def get(self):\n        return self.log\ns = S()"
        ),
        "item",
        "s.get().append(item)",
    ),
    "callback in a list": (
        "STATE = []\ndef run(fs, x):\n    for f in fs:\n        f(x)",
        "item",
        "run([STATE.append], item)",
    ),
    "reduce": (
        "import functools\nSTATE = []",
        "item",
        "functools.reduce(lambda s, x: s.append(x) or s, [1], STATE)",
    ),
    "in place operator": (
        "STATE = []\ndef touch(s):\n    s += [1]",
        "item",
        "touch(STATE)",
    ),
    "in place union": (
        "STATE = set()\ndef touch(s):\n    s |= {1}",
        "item",
        "touch(STATE)",
    ),
    "deleted element": (
        "STATE = [1]\ndef touch(s):\n    del s[:]",
        "item",
        "touch(STATE)",
    ),
    "slice assignment": (
        "STATE = [1]\ndef touch(s):\n    s[:] = [2]",
        "item",
        "touch(STATE)",
    ),
    "loop target": (
        "STATE = [1]\ndef touch(s):\n    for s[0] in (1, 2):\n        pass",
        "item",
        "touch(STATE)",
    ),
    "with target": (
        (
            "import contextlib\nSTATE = [1]\ndef touch(s):\n"
            "    with contextlib.nullcontext(2) as s[0]:\n        pass"
        ),
        "item",
        "touch(STATE)",
    ),
    "metaclass": (
        (
            "STATE = []\nclass M(type):\n    def __call__(cls, x):\n        STATE.append(x)\n"
            "class S(metaclass=M): pass"
        ),
        "item",
        "S(item)",
    ),
    "constructor": (
        (
            "STATE = []\nclass S:\n    def __new__(cls, x):\n        STATE.append(x)\n"
            "        return object.__new__(cls)"
        ),
        "item",
        "S(item)",
    ),
    "inherited constructor": (
        (
            "STATE = []\nclass B:\n    def __init__(self, x):\n        STATE.append(x)\n"
            "class S(B): pass"
        ),
        "item",
        "S(item)",
    ),
    "super": (
        (
            "STATE = []\nclass B:\n    def go(self, x):\n        STATE.append(x)\n"
            "class S(B):\n    def go(self, x):\n        return super().go(x)"
        ),
        "item",
        "S().go(item)",
    ),
    "setter": (
        (
            "STATE = []\nclass S:\n    @property\n    def x(self): return 1\n"
            "    @x.setter\n    def x(self, v): STATE.append(v)\n"
            "def touch(v):\n    S().x = v"
        ),
        "item",
        "touch(item)",
    ),
    "descriptor": (
        (
            "STATE = []\nclass D:\n    def __get__(self, o, t):\n        STATE.append(1)\n"
            "class S:\n    d = D()"
        ),
        "item",
        "S().d",
    ),
    "comparison method": (
        (
            "STATE = []\nclass S:\n    def __lt__(self, o):\n        STATE.append(1)\n"
            "        return True"
        ),
        "item",
        "sorted([S(), S()])",
    ),
    "hash method": (
        (
            "STATE = []\nclass S:\n    def __hash__(self):\n        STATE.append(1)\n"
            "        return 1"
        ),
        "item",
        "{S()}",
    ),
    "text method": (
        (
            "STATE = []\nclass S:\n    def __str__(self):\n        STATE.append(1)\n"
            "        return ''"
        ),
        "item",
        "str(S())",
    ),
    "hash of a key": (
        (
            "STATE = []\nclass S:\n    def __hash__(self):\n        STATE.append(1)\n"
            "        return 1\ndef touch(k):\n    d = {}\n    d[S()] = k\n    set().add(S())"
        ),
        "item",
        "touch(item)",
    ),
    "member of an enum": (
        "import enum\nclass E(enum.Enum):\n    A = 1\ndef touch(x):\n    E.A.last = x",
        "item",
        "touch(item)",
    ),
    "property of an enum": (
        (
            "import enum\nSTATE = []\nclass E(enum.Enum):\n    A = 1\n    @property\n"
            "    def label(self):\n        STATE.append(1)"
        ),
        "item",
        "E.A.label",
    ),
    "unpacked iterator": (
        (
            "STATE = []\nclass It:\n    def __iter__(self):\n        return self\n"
            "    def __next__(self):\n        STATE.append(1)\n"
            "        raise StopIteration\ndef touch():\n    a, *b = It()"
        ),
        "item",
        "touch()",
    ),
    "length method": (
        (
            "STATE = []\nclass S:\n    def __len__(self):\n        STATE.append(1)\n"
            "        return 1"
        ),
        "item",
        "len(S())",
    ),
    "module attribute": (
        "import sys\nME = sys.modules[__name__]\nSTATE = []",
        "item",
        "ME.STATE.append(item)",
    ),
}
# The expression is {touch}; each wrapping returns something that looks harmless.
WRAPPINGS = {
    "statement": "{touch}\nreturn item",
    "result": "return ({touch}, item)",
    "comprehension": "return [{touch} for _ in range(2)]",
    "condition in a comprehension": "return [x for x in (1, 2) if {touch}]",
    "generator expression": "return sum(1 for _ in (0,) if {touch} is None)",
    "dictionary": "return {{'a': {touch}}}",
    "conditional": "return item if item else {touch}",
    "short circuit": "return item and {touch}",
    "walrus": "if (found := {touch}) is None:\n    pass\nreturn item",
    "nested function": "def inner():\n    return {touch}\nreturn inner()",
    "lambda": "inner = lambda: {touch}\nreturn inner()",
    "lambda in map": "return list(map(lambda _: {touch}, [1]))",
    "lambda as key": "return sorted([2, 1], key=lambda n: {touch} or n)",
    "try": "try:\n    pass\nfinally:\n    {touch}\nreturn item",
    "handler": "try:\n    return int(item)\nexcept ValueError:\n    {touch}\n    return 0",
    "loop": "for _ in range(1):\n    {touch}\nreturn item",
    "loop's else": "while False:\n    pass\nelse:\n    {touch}\nreturn item",
    "text": 'return f"""{{({touch})}}"""',
    "match": "match item:\n    case 1:\n        return 1\n    case _ if {touch}:\n        return 2",
    "default of a nested function": "def inner(x={touch}):\n    return x\nreturn inner()",
    "argument": "return len([{touch}])",
    "starred": "return (*[{touch}], item)",
    "comparison": "return 1 < 2 == ({touch} is None)",
    "assertion": "assert {touch} is not item\nreturn item",
    "subscript": "return [1, 2][bool({touch})]",
    "slice": "return 'abc'[: bool({touch})]",
    "yield": "def inner():\n    yield {touch}\nreturn list(inner())",
    "assignment": "a = b = {touch}\nreturn item",
    "augmented": "n = 0\nn += bool({touch})\nreturn n",
    "after return in a branch": "if item:\n    return item\n{touch}\nreturn None",
    "raise": "if not item:\n    raise ValueError({touch})\nreturn item",
    "recursion": "def go(n):\n    return go(n - 1) if n else {touch}\nreturn go(2)",
}
PURE_MODULE = """
import math
TABLE = {"a": 1, "b": 2}
LIMIT = 7
def clean(x, factor=2):
    return [x] * factor
class Box:
    def __init__(self, x):
        self.held = [x]
    def add(self, x):
        self.held.append(x)
        return self
"""
PURE_EXPRESSIONS = (
    "str(item)",
    "len(str(item)) + LIMIT",
    "TABLE.get(item, 0)",
    "clean(item)",
    "Box(item).add(1).held",
    "[x for x in clean(item) if x]",
    "sorted(clean(item), key=lambda x: str(x))",
    "math.sqrt(len(str(item)))",
    "{'item': item}",
    "sum(len(str(x)) for x in clean(item))",
    "item.name",
    "(item, LIMIT)",
    "max([1, 2], default=0)",
)


def load(code):
    path = Path(_folder.name) / f"generated_{next(_numbers)}.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {path.stem: loaded}):
        spec.loader.exec_module(loaded)
    return loaded


def states_of(module, parameters, bodies):
    """Return what is found about functions with these bodies, each by itself."""
    functions = [
        f"def operator_{n}({parameters}):\n{textwrap.indent(body, '    ')}\n"
        for n, body in enumerate(bodies)
    ]
    loaded = load("\n\n".join([module, *functions]))
    for n in range(len(bodies)):
        operator = getattr(loaded, f"operator_{n}")
        sink = from_iterable(iter(())).map(operator, name="it").to_list()
        traits = analyze(build_graph([sink]))["it"]
        yield traits.state, next(e for e in traits.evidence if e.trait == "state")


def wrapped(touch, wrappings):
    """Put the touching expression into one wrapping, or two inside one another."""
    body = WRAPPINGS[wrappings[0]].format(touch=touch)
    for outer in wrappings[1:]:
        inner = "def hidden():\n" + textwrap.indent(body, "    ") + "\n"
        body = inner + WRAPPINGS[outer].format(touch="hidden()")
    return body


@settings(
    max_examples=needs.count_examples(25, 200),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(
    place=st.sampled_from(sorted(HIDING_PLACES)),
    wrappings=st.lists(st.sampled_from(sorted(WRAPPINGS)), min_size=1, max_size=3),
)
def test_no_function_with_hidden_state_is_called_stateless(place, wrappings):
    module, parameters, touch = HIDING_PLACES[place]
    body = wrapped(touch, wrappings)

    [(state, reason)] = states_of(module, parameters, [body])

    assert state == "global", f"{place} in {wrappings}: {reason}\n{body}"


@pytest.mark.parametrize("place", needs.share(2, HIDING_PLACES))
def test_a_hiding_place_is_found_in_some_wrappings(place):
    """
    Each place meets an eighth of the wrappings, and each wrapping some of the places.
    """
    module, parameters, touch = HIDING_PLACES[place]
    some = list(WRAPPINGS)[list(HIDING_PLACES).index(place) % 8 :: 8]
    bodies = [wrapped(touch, [wrapping]) for wrapping in some]

    states = [state for state, _ in states_of(module, parameters, bodies)]

    assert states == ["global"] * len(some)


@pytest.mark.long
@pytest.mark.parametrize("place", HIDING_PLACES)
def test_a_hiding_place_is_found_in_every_wrapping(place):
    module, parameters, touch = HIDING_PLACES[place]
    bodies = [wrapped(touch, [wrapping]) for wrapping in WRAPPINGS]

    states = [state for state, _ in states_of(module, parameters, bodies)]

    assert states == ["global"] * len(WRAPPINGS)


@pytest.mark.parametrize("expression", needs.quick(2, PURE_EXPRESSIONS))
def test_a_pure_expression_is_accepted_in_every_wrapping(expression):
    bodies = [wrapped(expression, [wrapping]) for wrapping in WRAPPINGS]

    found = list(states_of(PURE_MODULE, "item", bodies))

    assert [] == [reason.text for state, reason in found if state != "stateless"]
