from anabranch.graph.graph import Graph, Op, Output
from anabranch.language.composites import union
from anabranch.language.drafts import build_graph
from anabranch.language.sources import from_iterable
from anabranch.language.validate import faults_of
from anabranch.operators.fan_in import Union
from anabranch.operators.sinks import ToList
from anabranch.operators.sources import FromIterable
from anabranch.operators.stateless import Map
from tests.language.faults import assert_accepted, assert_refused


def texts(*ops):
    return [(fault.operator, fault.text) for fault in faults_of(Graph(ops))]


def source(name="source"):
    return Op(name, FromIterable([1]))


def sink(*inputs):
    return Op("sink", ToList(), tuple(Output(name) for name in inputs))


def mapped(name, *inputs):
    return Op(name, Map(abs), tuple(Output(input_) for input_ in inputs))


def test_two_operators_of_one_name_are_refused():
    def program():
        numbers = from_iterable([1])
        one = numbers.map(abs, name="same")
        two = numbers.map(abs, name="same")  # cause
        return [one.to_list(), two.to_list()]

    assert_refused(program, "the name is taken by the operator at")


def test_names_that_are_left_out_are_made_up():
    def program():
        numbers = from_iterable([1])
        return [numbers.map(abs).to_list(), numbers.map(abs, name="map_2").to_list()]

    assert_accepted(program)


def test_an_input_from_nowhere_is_refused():
    assert [
        ("map", "it reads from 'sauce', which is not in the program"),
    ] == texts(source(), mapped("map", "sauce"), sink("map"))


def test_a_stream_that_its_producer_does_not_have_is_refused():
    wrong = Op("sink", ToList(), (Output("source", 2),))

    assert [("sink", "it reads stream 2 of 'source', which has 1")] == texts(
        source(), wrong
    )


def test_a_cycle_is_refused_once_with_its_way():
    assert [("a", "it feeds itself: a -> b -> c -> a")] == texts(
        mapped("a", "c"), mapped("b", "a"), mapped("c", "b"), sink("c")
    )


def test_two_cycles_are_two_faults():
    found = texts(
        mapped("a", "a"), Op("b", Union(), (Output("a"), Output("b"))), sink("b")
    )

    assert [
        ("a", "it feeds itself: a -> a"),
        ("b", "it feeds itself: b -> b"),
    ] == found


def test_a_diamond_is_no_cycle():
    def program():
        numbers = from_iterable([1])
        return union(numbers.map(abs), numbers.map(abs)).to_list()

    assert_accepted(program)


def test_a_long_chain_is_no_trouble():
    """
    More operators than Python calls within each other, one behind the other, without recursion.
    """

    def program():
        stream = from_iterable([1])
        for _ in range(1_500):
            stream = stream.map(abs)
        return stream.to_list()

    assert_accepted(program)


def test_a_program_without_a_sink_is_refused_at_the_line_that_runs_it():
    (fault,) = faults_of(build_graph([]))

    assert "a program must end in a sink; there is none" == fault.text
    assert fault.file.endswith("test_structure.py")


def test_a_fan_in_of_nothing_is_refused():
    def program():
        return union().to_list()  # cause

    assert_refused(program, "union must have at least 1 input streams; it has 0")


def test_an_operator_with_an_input_too_many_is_refused():
    assert [("map", "map must have 1 input streams; it has 2")] == texts(
        source("a"), source("b"), mapped("map", "a", "b"), sink("map")
    )
