"""What runs where: units, levels and the streams between them."""

import itertools

import anabranch as ab
from anabranch.epochs.layout import lay_out
from anabranch.job import compile_sinks
from anabranch.language.drafts import Result
from tests.connectors.own import Files, Parted
from tests.engines.spark.items import Trade, mean, note, traded, trades, vwap


def layout(*sinks: Result):
    made = compile_sinks(*sinks)
    return lay_out(made.graph, made.plan)


def units(*sinks: Result) -> list[tuple[int, str]]:
    return [(u.level, "+".join(u.operators)) for u in layout(*sinks).units]


def source() -> ab.Stream:
    return ab.from_iterable(trades(10), Trade, name="src")


def test_a_stateless_program_from_file_to_file_is_one_narrow_level(tmp_path):
    read = ab.read_csv(tmp_path / "t.csv", Trade, name="src")
    made = layout(read.filter(traded, name="f").write_csv(tmp_path / "o", name="w"))

    (unit,) = made.units
    assert ("src", "f") == unit.operators
    assert ("w",) == unit.writes
    assert unit.replicated
    assert {"write"} == {route.how for route in made.routes.values()}


def test_a_keyed_program_has_a_level_each_for_reading_for_keys_and_for_writing(
    tmp_path,
):
    keyed = source().key_by("symbol").scan(vwap, (0.0, 0), name="s")
    made = layout(keyed.write_csv(tmp_path / "o", name="w"))

    assert [(0, "src"), (1, "s"), (2, "")] == [
        (u.level, "+".join(u.operators)) for u in made.units
    ]
    assert ["key", "range"] == [route.how for route in made.routes.values()]


def test_an_operator_with_effects_runs_in_the_driver():
    counter = itertools.count()
    numbered = source().map(lambda t: (next(counter), t), name="n").map(note, name="m")
    made = layout(numbered.to_list(name="out"))

    assert {"n"} <= {
        name for unit in made.units if unit.in_driver for name in unit.operators
    }


def test_units_of_one_level_do_not_depend_on_one_another():
    left = source().key_by("symbol").window(count=3).aggregate(mean, name="w")
    right = ab.from_iterable(trades(5), Trade, name="other").map(note, name="n")
    both = ab.union(left.map(str, name="a"), right.map(str, name="b"), name="u")
    made = layout(both.scan(lambda n, x: (n + 1, (n, x)), 0, name="s").to_list())

    level = {name: unit.level for unit in made.units for name in unit.operators}
    for edge, route in made.routes.items():
        if route.unit >= 0:
            assert level[edge.producer.operator] < made.units[route.unit].level


def test_an_operator_that_gives_nothing_for_a_sign_is_not_one_to_one():
    read = source()
    marked = read.punctuate(traded).block(list, pop=1, push=1, name="one")
    ahead = read.block(list, pop=1, push=1, peek=2, name="ahead")
    plain = read.block(list, pop=1, push=1, name="plain")
    made = layout(marked.to_list(), ahead.to_list(), plain.to_list())

    assert {"plain"} == made.one_to_one & {"one", "ahead", "plain"}


def test_a_sink_in_parts_leaves_units_the_names_that_checkpoints_know(tmp_path):
    """
    Behind a region with a key it is written by a unit of its own.
    """

    def place(sink):
        first = source().key_by("symbol").scan(vwap, (0.0, 0), name="first")
        second = first.key_by("vwap").scan(count, 0, name="second")
        last = second.key_by("symbol").scan(count, 0, name="last")
        made = layout(first.write(sink), last.to_list())
        found = {name: unit.name for name, unit in made.unit_of.items()}
        return len(made.units), found

    units, names = place(Files(str(tmp_path)))

    assert {"u0", "u1", "u2", "u3"} == {*names.values()}
    assert (units + 1, names) == place(Parted(tmp_path))


def count(n, item):
    return n + 1, item
