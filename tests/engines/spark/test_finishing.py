"""The end of a stream: all operators are asked at once, and speak one after the other."""

import pytest

import anabranch as ab
from anabranch.epochs.epoch_stages import EpochStages
from anabranch.epochs.task import FinishOperators, InjectOutputs


class Last(ab.Operator):
    """Passes numbers on, and at the end what it was given to say, if any."""

    def __init__(self, words: tuple[int, ...]):
        self.words = words

    def process(self, item: int):
        return [item]

    def finish(self):
        return self.words


class Needs(ab.Operator):
    """Fails at the end unless the operator before it has spoken."""

    def setup(self):
        self.seen = 0

    def process(self, item: int):
        self.seen += item == -1
        return [item]

    def finish(self):
        return [1 // self.seen]


@pytest.fixture
def jobs(monkeypatch):
    """What the jobs at the end of a stream were about."""
    found = []
    run = EpochStages.run_there

    def noted(self, stages, task, *given):
        match task.mode:
            case FinishOperators(operators):
                found.append(("ask", *operators))
            case InjectOutputs(operator):
                found.append(("run", operator))
        return run(self, stages, task, *given)

    monkeypatch.setattr(EpochStages, "run_there", noted)
    return found


def chain(**words: tuple[int, ...]) -> ab.Stream:
    stream = ab.from_iterable(range(5), int)
    for name, last in words.items():
        stream = stream.apply(Last, last, name=name)
    return stream


def run(stream: ab.Stream) -> list[int]:
    out = stream.to_list()
    ab.run(out, on="spark", degree=2, epoch_items=10)
    return out.items


@pytest.mark.spark
def test_who_has_nothing_to_say_costs_one_job_together(jobs):
    assert [0, 1, 2, 3, 4] == run(chain(a=(), b=(), c=()))
    assert [("ask", "a", "b", "c")] == jobs


@pytest.mark.spark
def test_who_hears_last_words_is_asked_again(jobs):
    assert [0, 1, 2, 3, 4, 7, 8, 9] == run(chain(a=(), b=(7, 8), c=(9,)))
    assert [
        ("ask", "a", "b", "c"),
        ("run", "b"),
        ("ask", "c"),
        ("run", "c"),
    ] == jobs


@pytest.mark.spark
def test_who_does_not_hear_them_has_answered_already(jobs):
    one, other = chain(a=(7,)), chain(b=(8,))

    assert [7, 8] == run(ab.union(one, other))[-2:]
    assert ("ask", "a", "b") == jobs[0]
    assert [("run", "a"), ("run", "b")] == [job for job in jobs if job[0] == "run"]


@pytest.mark.spark
def test_who_fails_for_lack_of_last_words_is_asked_when_they_have_come(jobs):
    found = run(chain(a=(-1,)).apply(Needs, name="needs"))

    assert [0, 1, 2, 3, 4, -1, 1] == found
    assert ("ask", "a", "needs") == jobs[0]
    assert [("ask", "a"), ("run", "a"), ("ask", "needs")] == jobs[1:4]
