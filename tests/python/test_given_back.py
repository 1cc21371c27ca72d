"""Library functions that give back what they were given, or what a method gives.

What they give is not new: a change of it is a change of what outlives the call.
"""

import importlib.util
import itertools

import pytest

from anabranch.language.drafts import build_graph
from anabranch.language.sources import from_iterable
from anabranch.python.analyze import analyze

_numbers = itertools.count()
SHARED = """
import copy, functools, itertools, operator, re
import numpy as np

G = []
KEPT = np.empty(1, dtype=object)
KEPT[0] = G
TABLE = {"a": G, "b": 0}
PAIR = operator.itemgetter("b", "a")
OR_SHARED = operator.methodcaller("get", "missing", G)
BOUND = functools.partial(len, G)


class Single:
    def __init__(self):
        self.held = G

    def __deepcopy__(self, memo):
        return self

    def __divmod__(self, other):
        return self.held

    def __add__(self, other):
        return self.held


def find_single():
    return ONE


class Named:
    held = G

    def __reduce__(self):
        return find_single, ()


ONE = Single()
"""

GIVEN_BACK = [
    "sum([], G)",
    "sum([], start=G)",
    "divmod(ONE, 1)",
    "operator.add(ONE, 1)",
    "copy.deepcopy(ONE).held",
    "copy.deepcopy([{'k': ONE}])[0]['k'].held",
    "copy.deepcopy(Named()).held",
    "PAIR(TABLE)[1]",
    "operator.itemgetter('b', 'a')(TABLE)[1]",
    "operator.attrgetter('held', 'held')(ONE)[0]",
    "OR_SHARED({})",
    "list(itertools.zip_longest([1], [], fillvalue=G))[0][1]",
    "next(itertools.combinations([G, 1], 1))[0]",
    "KEPT.item()",
    "KEPT.T[0]",
    "BOUND.args[0]",
    "functools.partial(len, G).args[0]",
    "functools.partial(sorted, key=G).keywords['key']",
    "ValueError(G).args[0]",
    "re.error(G).args[0]",
]
NEW = [
    "sum([[1], [2]], [])",
    "divmod(item, 7)",
    "copy.deepcopy(TABLE)['a']",
    "operator.itemgetter(0, 1)([[], []])[0]",
    "list(itertools.zip_longest([1], [], fillvalue=[]))[0][1]",
    "[*next(itertools.combinations([1, 2], 2))]",
    "np.arange(3).T[0].item()",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("given_back")


def state_of(expression, change, folder):
    path = folder / f"given_back_{next(_numbers)}.py"
    path.write_text(
        f"{SHARED}\ndef grow(item):\n"
        f"    made = {expression}\n    {change}\n    return made\n"
    )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stream = from_iterable([1, 2, 3]).map(module.grow, name="it")
    return analyze(build_graph([stream.to_list()]))["it"].state


@pytest.mark.parametrize("change", ["made += [item]", "made.append(item)"])
@pytest.mark.parametrize("expression", GIVEN_BACK)
def test_a_change_of_what_is_given_back_is_seen(expression, change, folder):
    assert state_of(expression, change, folder) == "global"


@pytest.mark.parametrize("expression", NEW)
def test_what_is_made_anew_may_be_changed(expression, folder):
    assert state_of(expression, "made += [item]", folder) == "stateless"
