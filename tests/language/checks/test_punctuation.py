from anabranch.language.composites import barrier, merge, union
from anabranch.language.sources import from_iterable
from anabranch.operators.custom import Operator
from tests.language.faults import assert_accepted, assert_refused, faults_in
from tests.language.types import Trade


class Same(Operator):
    def process(self, item):
        return [item]


def marked():
    return from_iterable([], Trade).punctuate(lambda t: t.volume > 9, name="marks")


def by_punctuation(stream):
    return stream.window(punctuation=True).aggregate(list).to_list()


def test_punctuations_that_nothing_puts_in_are_missed():
    def program():
        words = from_iterable("ab").map(str.upper)
        return words.window(punctuation=True).aggregate(list).to_list()  # cause

    assert_refused(program, "nothing puts any into its stream; put .punctuate(when)")


def test_punctuations_that_are_lost_are_traced_to_where():
    """
    The fault names who puts them in and who takes them out.
    """

    def program():
        both = union(marked(), from_iterable([]), name="both")
        later = both.filter(bool)
        return later.window(punctuation=True).aggregate(list).to_list()  # cause

    assert_refused(program, "those of 'marks'")
    (fault,) = faults_in(program)
    assert "are lost at 'both'" in fault.text
    assert "put .punctuate(when) behind 'both'" in fault.fix


LOSING = {
    "union": lambda: union(marked(), from_iterable([])),
    "merge": lambda: merge(marked(), from_iterable([]), by="ts"),
    "barrier": lambda: barrier(marked(), from_iterable([])),
    "join": lambda: marked().join(from_iterable([]), left_window=1, right_window=1),
    "aggregate": lambda: marked().window(count=2).aggregate(list),
    "block": lambda: marked().block(list, pop=1, push=1),
}


def test_fan_ins_and_rates_of_their_own_lose_punctuations():
    for name, stream in LOSING.items():
        (fault,) = faults_in(lambda stream=stream: by_punctuation(stream()))
        assert f"are lost at {name!r}" in fault.text


PASSING = {
    "map": lambda: marked().map(lambda t: t),
    "filter": lambda: marked().filter(bool),
    "flat_map": lambda: marked().flat_map(list),
    "scan": lambda: marked().scan(lambda s, t: (s, t), 0),
    "apply": lambda: marked().apply(Same),
    "split": lambda: marked().split(lambda t: 0, 2)[1],
    "iterate": lambda: marked().iterate(lambda s: s.map(lambda t: t), rounds=2),
    "punctuate behind a union": lambda: union(marked(), from_iterable([])).punctuate(
        bool
    ),
}


def test_operators_on_one_stream_let_punctuations_through():
    for stream in PASSING.values():
        assert_accepted(lambda stream=stream: by_punctuation(stream()))


def test_a_window_inside_a_body_sees_no_punctuations():
    """
    Each round goes through the body without marks.
    """

    def program():
        return (
            marked()
            .iterate(
                lambda s: s.window(punctuation=True).aggregate(  # cause
                    lambda items: items[0]
                ),
                rounds=2,
            )
            .to_list()
        )

    assert_refused(program, "nothing puts any into its stream")
