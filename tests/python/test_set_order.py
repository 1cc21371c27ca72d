"""Programs that read the order of a set that was copied are not given copies, no others.

The order of a set depends on its history, also if it is one of ints. A copy has none.
"""

from __future__ import annotations

import collections
import itertools
from dataclasses import dataclass, field

import pytest

import anabranch as ab
from anabranch.compiler.compile import compile_graph
from anabranch.compiler.options import LOCAL, SPARK
from anabranch.errors import PlanError
from anabranch.language.drafts import build_graph


class Kept(ab.Operator):
    """Keeps sets of ints in several ways."""

    def setup(self):
        self.open = set()
        self.other = {1}
        self.frozen = frozenset()
        self.of = {}
        self.groups = collections.defaultdict(set)
        self.nested = [[set()]]


class Pops(Kept):
    def process(self, n: int):
        self.open.add(n)
        yield self.open.pop()


class Loops(Kept):
    def process(self, n: int):
        self.open.add(n)
        for each in self.open:
            yield each + 1


class Lists(Kept):
    def process(self, n: int):
        self.frozen |= {n}
        yield list(self.frozen)


class First(Kept):
    def process(self, n: int):
        self.open.add(n)
        yield next(iter(self.open))


class Unpacks(Kept):
    def process(self, n: int):
        self.open.add(n)
        first, *_ = self.open
        yield first


class Shows(Kept):
    def process(self, n: int):
        self.open.add(n)
        yield f"{self.open}"


class Joins(Kept):
    def process(self, n: int):
        self.open.add(n)
        yield ",".join(str(each) for each in self.open)


class SumsFloats(Kept):
    def process(self, n: int):
        self.open.add(n / 10)
        yield sum(self.open)


class Chains(Kept):
    def process(self, n: int):
        self.open.add(n)
        yield list(itertools.islice(self.open, 2))


class InTable(Kept):
    def process(self, n: int):
        self.of.setdefault(n % 2, set()).add(n)
        yield tuple(self.of[n % 2])


class InGroups(Kept):
    def process(self, n: int):
        self.groups[n % 2].add(n)
        yield tuple(self.groups[n % 2])


class Nested(Kept):
    def process(self, n: int):
        self.nested[0][0].add(n)
        yield tuple(self.nested[0][0])


class OfItsCopy(Kept):
    def process(self, n: int):
        self.open.add(n)
        yield tuple(self.open.copy())


class OfItsUnion(Kept):
    def process(self, n: int):
        self.open.add(n)
        both = {n} | self.open
        yield tuple(both)


class OfItsUpdate(Kept):
    def process(self, n: int):
        self.open.add(n)
        new = set()
        new.update(self.open)
        yield tuple(new)


class OfUnionInPlace(Kept):
    def process(self, n: int):
        self.open.add(n)
        new = {n}
        new |= self.open
        yield tuple(new)


class OfItsParts(Kept):
    def process(self, n: int):
        self.open.add(n)
        yield tuple({each + 1 for each in self.open})


class Constant(ab.Operator):
    """Never changes; each worker makes its own."""

    def setup(self):
        self.few = {1, 9, 17}

    def process(self, n: int):
        yield [n + each for each in self.few]


class Words(Kept):
    def process(self, n: int):
        self.open.add(str(n))
        yield tuple(self.open)


class ByHelper(Kept):
    def process(self, n: int):
        self.open.add(n)
        yield listed(self.open)


def listed(values):
    return [*values]


class OrderFree(Kept):
    def process(self, n: int):
        self.open.add(n)
        self.other |= self.open
        self.other.update(self.open)
        self.frozen = frozenset(self.open | self.other)
        yield sorted(self.open), len(self.open), n in self.open, max(self.open)
        yield min(self.open), sum(self.open), self.open <= self.other
        yield any(each > 3 for each in self.open), sorted({e + 1 for e in self.open})
        self.open.discard(n - 3)
        self.open -= {n - 4}


class MadeInTheCall(Kept):
    def process(self, n: int):
        self.open.add(n)
        near = {n - 1, n, n + 1}
        yield list(near), list({n, n * 8}), near.pop()


class KeysOfDict(Kept):
    def process(self, n: int):
        self.of[n % 5] = None
        yield list(self.of)


def numbers():
    return ab.from_iterable(range(24), int)


def add(state, n):
    state.add(n)
    return state, tuple(state)


class Seen:
    def __init__(self):
        self.numbers = set()


@dataclass(slots=True)
class Slotted:
    numbers: set = field(default_factory=set)


def add_to(state, n):
    state.numbers.add(n)
    return state, list(state.numbers)


def sort_in(state, n):
    state.numbers.add(n)
    return state, sorted(state.numbers)


def count(state, n):
    state.add(n)
    return state, len(state)


def around(n: int):
    return {n, n * 8, n * 16}


READING = {
    kind.__name__: lambda kind=kind: numbers().apply(kind)
    for kind in (
        *(Pops, Loops, Lists, First, Unpacks, Shows, Joins, SumsFloats, Chains),
        *(InTable, Nested, OfItsCopy, OfItsUnion, OfUnionInPlace, OfItsParts),
        *(ByHelper,),
    )
} | {
    "with a key": lambda: numbers().key_by(lambda n: n % 3).apply(Pops),
    "the state of a scan": lambda: numbers().scan(add, set()),
    "an attribute of a state": lambda: numbers().scan(add_to, Seen()),
    "a slot of a state": lambda: numbers().scan(add_to, Slotted()),
    "items of a list": lambda: ab.from_iterable([{1}, {2}]).map(list),
    "items of an operator": lambda: numbers().map(around).map(list),
}
FREE = {
    kind.__name__: lambda kind=kind: numbers().key_by(lambda n: n % 3).apply(kind)
    for kind in (OrderFree, MadeInTheCall, KeysOfDict, Constant)
} | {
    "the state of a scan": lambda: numbers().key_by(lambda n: n % 3).scan(count, set()),
    "items of an operator": lambda: numbers().map(around).map(sorted),
    "an attribute of a state": lambda: (
        numbers().key_by(lambda n: n % 3).scan(sort_in, Seen())
    ),
    "within a function": lambda: numbers().map(lambda n: list(around(n))),
}


def plan_for(stream, target):
    return compile_graph(build_graph([stream.to_list()]), target).plan


@pytest.mark.parametrize("program", READING.values(), ids=READING)
def test_who_reads_the_order_of_a_copied_set_is_given_no_copies(program):
    why = plan_for(program(), SPARK).one_thread
    assert "must not be given copies" in why
    assert "depends on the order of a set, which a copy in another process loses" in why
    assert not plan_for(program(), LOCAL).one_thread


@pytest.mark.parametrize("program", FREE.values(), ids=FREE)
def test_who_does_not_runs_in_parallel(program):
    plan = plan_for(program(), SPARK)
    assert not plan.one_thread
    assert plan.regions


@pytest.mark.parametrize("kind", [InGroups, OfItsUpdate, Words])
def test_a_set_whose_hashes_may_be_of_this_process_stays_in_it(kind):
    plan = plan_for(numbers().key_by(lambda n: n % 3).apply(kind), SPARK)
    (apply,) = [op for op in plan.operators if op.name == "apply"]
    assert "global" == apply.state
    assert "depends on the order of a set, which differs from" in apply.reasons[0].text
    assert not plan.one_thread


def test_a_checkpoint_would_make_copies(tmp_path):
    with pytest.raises(PlanError, match=r"self\.open\.pop\(\).*sorted.*checkpoint="):
        ab.run(
            numbers().apply(Pops).to_list(), on="spark", checkpoint=tmp_path / "here"
        )


def test_a_set_in_an_outer_variable_is_lifted_unless_its_order_is_read():
    def lifted_by(step):
        graph = build_graph([numbers().map(step, name="step").to_list()])
        (step,) = [
            op for op in compile_graph(graph, SPARK).plan.operators if op.name == "step"
        ]
        return step.lifted

    seen: set[int] = set()

    def tell(n):
        seen.add(n)
        return len(seen)

    def show(n):
        seen.add(n)
        return list(seen)

    def show_copy(n):
        seen.add(n)
        return list(seen.copy())

    assert (("outer variable", "seen"),) == lifted_by(tell)
    assert () == lifted_by(show)
    assert () == lifted_by(show_copy)
