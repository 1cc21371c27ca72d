"""Programs as users write them, with the code that Python or an engine runs unasked.

Each stands in a text file under a sentence. It maps `operator` over `ITEMS`, or builds a
stream in `program`; the operator called `it` is the one that counts.
"""

import logging
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.language.drafts import build_graph
from anabranch.python.analyze import analyze
from anabranch.python.methods import HANDLERS
from tests import needs
from tests.python.test_snippets import COMMON, module_of

HEADER = f"{COMMON}\nimport dataclasses, types, typing\nfrom anabranch import Operator, declare\n"


def programs(name):
    text = Path(__file__).with_name(f"programs_{name}.txt").read_text()
    blocks = (block.strip("\n").split("\n", 1) for block in text.split("\n---\n"))
    return {title.removeprefix("# "): program for title, program in blocks}


REFUSED = programs("refused")
ACCEPTED = programs("accepted")


@pytest.fixture(autouse=True)
def process():
    """Forget what a program has registered for codecs and logs."""
    before, make = dict(HANDLERS), logging.getLogRecordFactory()
    loggers = dict(logging.root.manager.loggerDict)
    yield
    HANDLERS.clear()
    HANDLERS.update(before)
    logging.setLogRecordFactory(make)
    logging.root.manager.loggerDict.clear()
    logging.root.manager.loggerDict.update(loggers)


def traits_of(program, folder):
    module = module_of(f"{HEADER}{program}\n", folder)
    if hasattr(module, "program"):
        stream = module.program(ab)
    else:
        stream = ab.from_iterable(module.ITEMS).map(module.operator, name="it")
    return analyze(build_graph([stream.to_list()]))["it"]


@pytest.mark.parametrize("program", REFUSED.values(), ids=REFUSED)
def test_what_runs_unasked_is_found(program, tmp_path):
    assert traits_of(program, tmp_path).effects


# Ways to get a global list out of a table that is made here.
WAYS = [
    'dict(a=LIST)["a"]',
    '{**{"a": LIST}}["a"]',
    'dict([("a", LIST)])["a"]',
    '{"a": LIST}.pop("a")',
    '{"a": LIST}.setdefault("a", [])',
    'list({"a": LIST}.items())[0][1]',
    'list({"a": LIST}.values())[0]',
    'dict.fromkeys("a", LIST)["a"]',
    'defaultdict(lambda: LIST)["a"]',
    'collections.OrderedDict(a=LIST)["a"]',
    'collections.ChainMap({"a": LIST})["a"]',
    '{"a": LIST}.popitem()[1]',
    '{"b": 1}.get("a", LIST)',
    '{k: LIST for k in "a"}["a"]',
    'dict(zip("a", [LIST]))["a"]',
    '({"a": 1} | {"a": LIST})["a"]',
    '{"a": LIST}.copy()["a"]',
    'copy.copy({"a": LIST})["a"]',
    '[v for k, v in {"a": LIST}.items()][0]',
    'next(iter({"a": LIST}.values()))',
    "max([LIST], key=len)",
    "sorted([LIST])[0]",
    "functools.reduce(lambda a, b: a, [LIST, 1])",
    "op.itemgetter(0)([LIST])",
    "next(itertools.chain([LIST]))",
    "list(zip([LIST]))[0][0]",
    'dict({"a": LIST}.items())["a"]',
    '{"a": {"b": LIST}}["a"]["b"]',
    'fill({})["a"]',
    'update({})["a"]',
    'Counter({"a": LIST})["a"]',
    'Box({"a": LIST}).d["a"]',
    'dict(sorted({"a": LIST}.items()))["a"]',
    'tuple({"a": LIST}.values())[0]',
    'min({"a": LIST}.values(), key=len)',
    'list(map(lambda p: p[1], {"a": LIST}.items()))[0]',
    'dict(**{"a": LIST})["a"]',
    'vars(Box(LIST))["d"]',
    '(lambda **k: k)(a=LIST)["a"]',
    "(lambda *a: a)(LIST)[0]",
    '[*{"a": LIST}.values()][0]',
    'list({"a": LIST}.items()).pop()[1]',
]
REACHING = """
LIST = []
class Box:
    def __init__(self, d):
        self.d = d
def fill(d):
    d["a"] = LIST
    return d
def update(d):
    d.update(a=LIST)
    return d
"""


def test_a_global_list_is_found_in_whatever_table_it_lies(tmp_path):
    operators = [
        f"def operator_{n}(item):\n    {way}.append(item)\n    return 1\n"
        for n, way in enumerate(WAYS)
    ]
    module = module_of(HEADER + REACHING + "".join(operators), tmp_path)
    stream = ab.from_iterable([1])
    for n in range(len(WAYS)):
        stream = stream.map(getattr(module, f"operator_{n}"), name=f"it_{n}")
    traits = analyze(build_graph([stream.to_list()]))

    assert [] == [w for n, w in enumerate(WAYS) if not traits[f"it_{n}"].effects]


@pytest.mark.parametrize("program", needs.share(2, ACCEPTED.values()), ids=ACCEPTED)
def test_what_has_no_effect_is_accepted(program, tmp_path):
    traits = traits_of(program, tmp_path)

    assert not traits.effects, traits.evidence
