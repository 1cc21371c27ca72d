"""Functions written at random give in columns what they give in Python, to the bit."""

from __future__ import annotations

import importlib.util
import linecache
import math
import random
from collections import Counter

import numpy as np
import pytest

import anabranch as ab
from anabranch.compiler.columns.find_columns import find_columns
from anabranch.connectors.files.arrow_items import form_of, to_table
from anabranch.errors import OperatorError
from anabranch.language.drafts import build_graph
from anabranch.python.traits import Traits
from anabranch.runtime.columns import chain as chains
from anabranch.runtime.columns.column import UnfitError
from anabranch.runtime.program import Program
from tests.compiler.columns.written_functions import HEAD, Item, Writer, make_items

ROLES = ("map", "replace", "filter", "scan", "window")


def as_in_c(function):
    """Return a function of `math` that gives infinity instead of an error."""

    def call(*args):
        try:
            return function(*args)
        except OverflowError:
            return math.inf

    return staticmethod(call)


class CMath:
    """The functions of `math` as C has them."""

    vars().update({n: getattr(math, n) for n in dir(math) if not n.startswith("_")})
    fmod = staticmethod(np.fmod)
    exp, expm1, pow = map(as_in_c, (math.exp, math.expm1, math.pow))
    sinh, cosh = map(as_in_c, (math.sinh, math.cosh))


def interpret(kernel):
    """Run the text of a kernel as it stands, without Numba: hundreds of times faster."""
    head = "import math\nimport numpy as np\ndef njit(**_):\n    return lambda f: f\n"
    names = {}
    exec(compile(head + kernel.text, "<kernel>", "exec"), names)
    names["math"] = CMath
    run = names["kernel"]

    def fire(*args):
        with np.errstate(all="ignore"):
            return run(*args)

    return fire


def write_module(folder, seeds):
    texts, initials = [], {}
    for seed in seeds:
        writer, role, name = Writer(seed), ROLES[seed % len(ROLES)], f"f{seed}"
        made = getattr(writer, f"write_{role}")(name)
        if role == "scan":
            made, initials[seed] = made
        texts.append(made)
    path = folder / f"written_{seeds[0]}.py"
    path.write_text(HEAD + "\n\n\n".join(texts) + "\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    linecache.checkcache(str(path))
    return module, initials


def stream_of(module, initials, seed):
    function, role = getattr(module, f"f{seed}"), ROLES[seed % len(ROLES)]
    source = ab.from_iterable([], Item)
    keyed = source.key_by("s") if seed % 2 else source
    match role:
        case "map" | "replace":
            return source.map(function, name="op")
        case "filter":
            return source.filter(function, name="op")
        case "scan":
            initial = eval(initials[seed], vars(module))
            return keyed.scan(function, initial, name="op")
    return keyed.window(count=3).aggregate(function, name="op")


def exactly(value):
    """Return a value so that equal means the same to the bit."""
    if isinstance(value, tuple | list):
        return (type(value).__name__, *map(exactly, value))
    return type(value).__name__, repr(value)


def describe_states(states):
    return {k: exactly(v) for k, v in states.items()}


def new_program(graph):
    (entry,) = graph.out_edges(graph.sources[0].name)
    return Program(graph, ["op"], [entry])


def run_python(program, items):
    for left in program.exits.values():
        left.clear()
    program.run(items)
    (left,) = program.exits.values()
    return left.items[:]


def compare(graph, kernel, seed, found):
    """Run batches in both ways; the second goes on in Python where columns give up."""
    one, two = new_program(graph), new_program(graph)
    op = graph["op"]
    chain = chains.ColumnChain([op], {"op": kernel}, two.states, Item)
    rng = random.Random(seed)
    for number in range(8):
        items = make_items(rng, 6, 0.0 if number < 5 else 0.15)
        try:
            expected = run_python(one, items)
        except OperatorError as error:
            found["raised"] += 1
            must_raise(str(error), chain, two, items)
            return
        try:
            actual = chain.run(to_table(items, form_of(Item))).items()
            found["columns"] += 1
        except UnfitError:
            actual = run_python(two, items)
            found["gave up"] += 1
        assert exactly(expected) == exactly(actual)
        for name, states in one.states.items():
            assert describe_states(states) == describe_states(two.states[name])


def must_raise(text, chain, program, items):
    """Check that columns leave a batch to Python, which raises what it did before."""
    with pytest.raises(UnfitError):
        chain.run(to_table(items, form_of(Item)))
    with pytest.raises(OperatorError) as again:
        run_python(program, items)
    assert text == str(again.value)


def fuzz(folder, seeds):
    found = Counter()
    module, initials = write_module(folder, seeds)
    for seed in seeds:
        graph = build_graph([stream_of(module, initials, seed).to_list()])
        (ran,) = find_columns(graph, {op.name: Traits("stateless") for op in graph})
        if ran.kernel is None:
            found["refused"] += 1
            found[f"refused: {ran.why.partition('py:')[2]}"] += 1
            assert "cannot be translated" not in ran.why, ran.why
            continue
        try:
            compare(graph, ran.kernel, seed, found)
        except BaseException as error:
            error.add_note(f"seed {seed}\n{ran.kernel.text}")
            raise
    return found


@pytest.fixture
def interpreted(monkeypatch):
    monkeypatch.setattr(chains, "compile_columns", interpret)


@pytest.mark.usefixtures("interpreted")
def test_500_functions_give_the_same_bits_and_errors(tmp_path):
    found = fuzz(tmp_path, range(500))

    assert found["refused"] < 150
    assert found["columns"] > 1000
    assert found["raised"] > 50


def test_compiled_functions_give_the_same_bits_and_errors(tmp_path):
    found = fuzz(tmp_path, range(1000, 1015))

    assert found["columns"] > 20


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("part", range(20))
def test_20_000_functions_give_the_same_bits_and_errors(tmp_path, part):
    first = 10_000 + 1000 * part

    assert fuzz(tmp_path, range(first, first + 1000))["columns"] > 2000


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_1_000_compiled_functions_give_the_same_bits(tmp_path, part):
    first = 40_000 + 100 * part

    assert fuzz(tmp_path, range(first, first + 100))["columns"] > 200
