"""Small pieces of code that a user would write, and near relatives with a hidden effect.

The safe ones stand in a module with a class whose every operator has an effect: only a
value that may be an instance of it makes them unsafe, and none may be. The snippets are
in text files, one function each; a first comment names the operator if it is not `map`.
"""

import importlib.util
import itertools
import sys
from pathlib import Path

import pytest

from anabranch.language.drafts import build_graph
from anabranch.language.sources import from_iterable
from anabranch.python.analyze import analyze
from tests import needs

COMMON = """
import collections, copy, datetime, enum, functools, hashlib, heapq, itertools, json, math
import re, statistics, struct, zlib
import operator as op
import numpy as np
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime as DT, timedelta
from typing import NamedTuple

LOG = []

def effect(*x):
    LOG.append(1)
    return len(LOG)
"""
HOSTILE_METHODS = [
    "__call__",
    "__len__",
    "__iter__",
    "__next__",
    "__add__",
    "__radd__",
    "__mul__",
    "__sub__",
    "__truediv__",
    "__lt__",
    "__eq__",
    "__hash__",
    "__bool__",
    "__str__",
    "__repr__",
    "__getitem__",
    "__contains__",
    "__float__",
    "__int__",
    "append",
    "split",
]
HOSTILE = "\n".join(
    [
        "class Hostile:",
        *(f"    def {name}(self, *x): return effect()" for name in HOSTILE_METHODS),
        "    @property",
        "    def value(self): return effect()",
    ]
)
SAFE = """
class Item(NamedTuple):
    ts: int
    key: str
    value: float
    tags: list[str]
    more: dict[str, float]
    maybe: float | None
    pos: tuple[int, int]

    @property
    def speed(self):
        return self.value * 2

    def scaled(self, k):
        return self._replace(value=self.value * k)

class Out(NamedTuple):
    ts: int
    score: float = 0.0
    tag: str = ""

LINE = re.compile("a(b)(?P<c>d)")
FACTORS = {"a": 1.0, "b": 2.0}
NAMES = ["x", "y"]
NESTED = {"a": {"x": 1}, "b": {"x": 2}}
LIMITS = (1, 2.5)
"""
UNSAFE = """
TABLE = []
TABLES = [[], []]
D = {"a": [], "b": []}
A = np.zeros(3)
A2 = np.zeros((3, 3))

class Box:
    def __init__(self, n=0):
        self.n = n
"""
_numbers = itertools.count()


def snippets(name):
    text = Path(__file__).with_name(f"snippets_{name}.txt").read_text()
    return [each.strip("\n") for each in text.split("\n---\n")]


def module_of(text, folder):
    name = f"snippet_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def traits_of(snippet, module):
    stream = from_iterable(iter(()), getattr(module, "Item", None))
    match snippet.splitlines()[0]:
        case "# apply":
            made = stream.key_by("k").apply(module.operator, name="it")
        case "# scan":
            made = stream.scan(module.operator, module.initial, name="it")
        case first if "items: list" in first:
            made = stream.window(count=2).aggregate(module.operator, name="it")
        case _:
            made = stream.map(module.operator, name="it")
    return analyze(build_graph([made.to_list()]))["it"]


@pytest.mark.parametrize("snippet", needs.share(2, snippets("safe")))
def test_everyday_code_is_accepted_next_to_a_hostile_class(snippet, tmp_path):
    module = module_of(f"{COMMON}{HOSTILE}{SAFE}\n{snippet}\n", tmp_path)

    traits = traits_of(snippet, module)

    assert not traits.effects, traits.evidence


@pytest.mark.parametrize("snippet", snippets("unsafe"))
def test_a_hidden_effect_is_found(snippet, tmp_path):
    module = module_of(f"{COMMON}{UNSAFE}\n{snippet}\n", tmp_path)

    traits = traits_of(snippet, module)

    assert traits.effects, snippet


def test_the_hostile_class_makes_what_may_be_of_it_unsafe(tmp_path):
    snippet = "def operator(item):\n    return item + 1"
    module = module_of(f"{COMMON}{HOSTILE}\n{snippet}\n", tmp_path)

    assert traits_of(snippet, module).effects
