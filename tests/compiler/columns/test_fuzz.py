"""Functions written at random give in columns what they give in Python, to the bit."""

from __future__ import annotations

import ast
import importlib.util
import linecache
import math
import random
import warnings
from collections import Counter

import numpy as np
import pytest

import anabranch as ab
from anabranch.compiler.columns.choose_columns import find_columns
from anabranch.connectors.files.arrow_items import form_of, to_table
from anabranch.errors import OperatorError
from anabranch.graph.kind import Traits
from anabranch.language.drafts import build_graph
from anabranch.runtime.columns import chain as chains
from anabranch.runtime.columns.column import UnfitError
from anabranch.runtime.columns.program_segments import ProgramSegments
from anabranch.runtime.compiled.program import CompileChoice, make_program
from anabranch.runtime.positions import Positions, positions_of
from anabranch.runtime.program import Program
from tests import needs
from tests.compiler.columns.written_functions import (
    HEAD,
    Item,
    Items,
    Rich,
    RichWriter,
    WiderRichWriter,
    WiderWriter,
    Writer,
    write_columns,
    write_window_of,
)
from tests.compiler.columns.written_graphs import GraphWriter

ROLES = ("map", "replace", "filter", "flat_map", "scan", "window", "columns")


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


class Checked(ast.NodeTransformer):
    """Wraps what may go beyond 64 bits, which is wrong wherever it happens."""

    def wrap(self, node):
        self.generic_visit(node)
        called = ast.Call(ast.Name("fit", ast.Load()), [node], [])
        return ast.copy_location(called, node)

    visit_BinOp = visit_UnaryOp = wrap  # noqa: N815 - names of `ast`

    def visit_Subscript(self, node):
        is_read = isinstance(node.ctx, ast.Load)
        return self.wrap(node) if is_read else self.generic_visit(node)


def fit(number):
    if type(number) is np.int64:  # of an array
        return int(number)
    if type(number) is int:
        assert -(1 << 63) <= number < 1 << 63, "a kernel counts beyond 64 bits"
    return number


def float_of(value):
    assert type(value) not in (bool, np.bool_), "Numba has no float of a bool"
    return float(value)


def range_of(*bounds):
    assert max(map(abs, bounds)) < 1 << 62, "Numba counts the rounds of a range"
    return range(*bounds)


def interpret(kernel):
    """Run the text of a kernel as it stands, without Numba: hundreds of times faster.

    What Numba would do in another way is an error.
    """
    head = "import math\nimport numpy as np\ndef njit(**_):\n    return lambda f: f\n"
    names = {"fit": fit, "float": float_of, "range": range_of}
    tree = Checked().visit(ast.parse(head + kernel.text))
    exec(compile(ast.fix_missing_locations(tree), "<kernel>", "exec"), names)
    names["math"] = CMath
    run = names["kernel"]

    def fire(*args):
        with np.errstate(all="ignore"):
            return run(*args)

    return fire


def role_of(seed):
    return ROLES[seed // 2 % len(ROLES)]


def is_rich(seed):
    """Tell whether the items of a function are of many types."""
    return seed % 2 == 1


def writer_of(seed):
    """Return a writer; every other one writes more than the writers of graphs."""
    if seed % 4 > 1:
        return (WiderRichWriter if is_rich(seed) else WiderWriter)(seed)
    return (RichWriter if is_rich(seed) else Writer)(seed)


def load_module(path, texts):
    path.write_text(HEAD + "\n\n\n".join(texts) + "\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # `0 is None`
        spec.loader.exec_module(module)
    linecache.checkcache(str(path))
    return module


def write_module(folder, seeds):
    texts, initials = [], {}
    for seed in seeds:
        writer = writer_of(seed)
        role, name = role_of(seed), f"f{seed}"
        if role == "columns":
            continue
        made = getattr(writer, f"write_{role}")(name)
        if role == "scan":
            made, initials[seed] = made
        texts.append(made)
    return load_module(folder / f"written_{seeds[0]}.py", texts), initials


KEYS = (["s"], ["s", "b"], ["i"])
RICH_KEYS = (["s"], ["e"], ["o"], ["r"], ["k", "z"], ["b"])


def stream_of(module, initials, seed):
    rng, rich = random.Random(-seed), is_rich(seed)
    function, role = getattr(module, f"f{seed}", None), role_of(seed)
    source = ab.from_iterable([], Rich if rich else Item)
    keyed = source
    if rng.random() < 0.6:
        keyed = source.key_by(*rng.choice(RICH_KEYS if rich else KEYS))
    match role:
        case "map" | "replace":
            return source.map(function, name="op")
        case "filter":
            return source.filter(function, name="op")
        case "flat_map":
            return source.flat_map(function, name="op")
        case "scan":
            initial = eval(initials[seed], vars(module))
            return keyed.scan(function, initial, name="op")
    window = write_window_of(rng, rich)
    made = keyed.window(**{n: v for n, v in window.items() if v is not None})
    if role == "window":
        return made.aggregate(function, name="op")
    columns = {
        name: getattr(ab, kind)(*[attribute] * (attribute is not None))
        for name, kind, attribute in write_columns(rng, rich, "time" in window)
    }
    return made.aggregate(**columns, name="op")


def exactly(value):
    """Return a value so that equal means the same to the bit."""
    if isinstance(value, tuple | list):
        return (type(value).__name__, *map(exactly, value))
    digits = hex if type(value) is int else repr  # of any number of them
    return type(value).__name__, digits(value)


def describe_states(states):
    return {k: exactly(v) for k, v in states.items()}


def new_program(graph):
    (entry,) = graph.out_edges(graph.sources[0].name)
    return Program(graph, ["op"], [entry])


def run_python(program, items):
    """Return outputs, and which item each of them is of."""
    (left,) = program.exits.values()
    left.clear()
    rows = []
    for number, item in enumerate(items):
        program.run([item])
        rows += [number] * (len(left.items) - len(rows))
    return left.items[:], rows


def run_columns(chain, items):
    form = form_of(type(items[0]))
    table = None if form is None else to_table(items, form)
    batch = chain.of_items(items) if table is None else chain.of_table(table)
    made = chain.run(batch)
    rows = range(made.count) if made.rows is None else made.rows.tolist()
    return made.items(), list(rows)


def compare(graph, kernel, seed, found):
    """Run batches in both ways; the second goes on in Python where columns give up."""
    one, two = new_program(graph), new_program(graph)
    op = graph["op"]
    chain = chains.ColumnChain([op], {"op": kernel}, two.states)
    rng = random.Random(seed)
    source = Items(rng, is_rich(seed))
    for number in range(8):
        items = source.make(9, 0.0 if number < 5 else 0.15)
        try:
            expected = run_python(one, items)
        except OperatorError as error:
            found["raised"] += 1
            must_raise(str(error), chain, two, items)
            return
        in_columns = rng.random() < 0.85  # states go from one way to the other
        try:
            actual = (run_columns if in_columns else run_python)(
                chain if in_columns else two, items
            )
            found["columns"] += in_columns
            found[f"{role_of(seed)} in columns"] += in_columns
        except UnfitError:
            actual = run_python(two, items)
            found["gave up"] += 1
        assert exactly(expected) == exactly(actual)
        for name, states in one.states.items():
            assert describe_states(states) == describe_states(two.states[name])


def must_raise(text, chain, program, items):
    """Check that columns leave a batch to Python, which raises what it did before."""
    with pytest.raises(UnfitError):
        run_columns(chain, items)
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


def describe_exits(program, *, clear=True):
    made = {
        edge: (exactly(left.items), [list(c) for c in left.positions])
        for edge, left in program.exits.items()
    }
    for left in program.exits.values() if clear else ():
        left.clear()
    return made


def choose_positions(graph, rng):
    """Return positions as engines have them: full ones, of one number, or none."""
    pushes = {op.name: op.kind.traits(op).push for op in graph if op.inputs}
    prolific = [name for name, push in pushes.items() if (push.most or 2) > 1]
    full = positions_of(graph, frozenset(prolific))
    one = dict.fromkeys(graph.names, 1)
    return rng.choice([None, full, Positions(one, one, {}, frozenset())])


def compare_graphs(sinks, seed, rich, found):
    """Run batches through a program in Python, and through its segments."""
    graph, rng = build_graph(sinks), random.Random(-seed)
    traits = {op.name: Traits("stateless") for op in graph}
    kernels = {
        one.operator: one.kernel for one in find_columns(graph, traits) if one.kernel
    }
    inner = [op.name for op in graph if op.inputs and op.kind.outputs]
    entries = [op.name for op in graph.sources]
    form = choose_positions(graph, rng)
    one = Program(graph, [*entries, *inner], entries, positions=form)
    choice = CompileChoice(when="at once", columns=kernels)
    two = make_program(graph, [*entries, *inner], entries, choice, positions=form)
    if type(two) is Program:
        found["refused"] += 1
        return
    source, number = Items(rng, rich), 0
    for batch in range(8):
        items = source.make(12, 0.0 if batch < 5 else 0.1)
        several = len(entries) > 1
        ports = [rng.randrange(len(entries)) for _ in items] if several else None
        width = 0 if form is None else form.after[entries[0]]
        numbers = list(range(number, number + len(items)))
        positions = [numbers, ports or [0] * len(items)][:width] or None
        number += len(items)
        failures = []
        for program in (one, two):
            try:
                program.run(iter(items), positions, ports)
                failures.append(None)
            except OperatorError as error:
                failures.append(str(error))
        assert failures[0] == failures[1]
        expected, actual = describe_exits(one), describe_exits(two)
        if failures[0] is not None:
            found["raised"] += 1
            if form is None or not form.prolific:
                assert expected == actual
            for edge, (items, _) in expected.items():  # others may be ahead
                assert items == actual[edge][0][: len(items)]
            return
        assert expected == actual
        for name, states in one.states.items():
            assert describe_states(states) == describe_states(two.states[name])
        counts = two._choice.tally.share()
        found["columns"] += bool(counts) and max(counts.values()) > 0


def fuzz_graphs(folder, seeds):
    found = Counter()
    writers = [GraphWriter(seed) for seed in seeds]
    texts = [text for writer in writers for text in writer.texts]
    module = load_module(folder / f"graphs_{seeds[0]}.py", texts)
    for writer in writers:
        try:
            compare_graphs(writer.build(module), writer.seed, writer.rich, found)
        except BaseException as error:
            error.add_note(f"seed {writer.seed}")
            raise
    return found


@pytest.fixture
def interpreted(monkeypatch):
    monkeypatch.setattr(chains, "compile_columns", interpret)
    monkeypatch.setattr(ProgramSegments, "fewest", 1)


@pytest.mark.usefixtures("interpreted")
def test_50_graphs_give_the_same_bits_and_errors(tmp_path):
    found = fuzz_graphs(tmp_path, range(50))

    assert found["refused"] < 10
    assert found["columns"] > 90
    assert found["raised"] > 5


def twice(n: int) -> list[int]:
    return [n, n + 1]


def divide(n: int) -> int:
    return 10 // (n - 4)


def divide_as_text(n: int) -> int:
    return int(str(10 // (n - 3)))


@pytest.mark.usefixtures("interpreted")
def test_what_fails_behind_a_segment_comes_before_what_fails_in_it():
    """Item 3 gives 3 and 4: one thread divides 3 by both functions, and then 4."""
    two = ab.from_iterable([], int).flat_map(twice)
    graph = build_graph([two.map(divide).to_list(), two.map(divide_as_text).to_list()])
    kernels = {
        one.operator: one.kernel
        for one in find_columns(graph, {op.name: Traits("stateless") for op in graph})
        if one.kernel
    }
    names = [op.name for op in graph if op.kind.outputs]
    choice = CompileChoice(when="at once", columns=kernels)
    program = make_program(graph, names, names[:1], choice)

    assert ["flat_map", "map"] == list(kernels)
    with pytest.raises(OperatorError, match=r"'map_2'.* on an item: 3"):
        program.run(iter([0, 1, 3]))


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("seed", [10364, 10401, 11741, 12069])
def test_graphs_that_once_differed_give_the_same(tmp_path, seed):
    assert 1 == fuzz_graphs(tmp_path, [seed])["raised"]


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("seed", [14614, 18716])
def test_windows_whose_held_items_once_differed_give_the_same(tmp_path, seed):
    assert fuzz(tmp_path, [seed])["columns"] > 5


@pytest.mark.usefixtures("interpreted")
def test_450_functions_give_the_same_bits_and_errors(tmp_path):
    found = fuzz(tmp_path, range(450))

    assert found["refused"] < 150
    assert found["columns"] > 900
    assert found["raised"] > 50


def test_compiled_functions_give_the_same_bits_and_errors(tmp_path):
    count = needs.count_examples(2, 15)
    found = fuzz(tmp_path, range(1000, 1000 + count))

    assert found["columns"] > count


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("part", range(10))
def test_graphs_of_20_000_functions_give_the_same_bits_and_errors(tmp_path, part):
    """A graph has seven functions or so."""
    first = 10_000 + 300 * part

    assert fuzz_graphs(tmp_path, range(first, first + 300))["columns"] > 400


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
