"""Jobs that are stopped, and what they leave: engines without Spark."""

from __future__ import annotations

import json
import threading
import time

import pytest

import anabranch as ab

ENGINES = ["sequential", "local"]
PATIENCE_S = 60


class Hold:
    """Lets items through up to one, at which a thread waits until it is let go."""

    def __init__(self, at):
        self.at = at
        self.reached = threading.Event()
        self.let_go = threading.Event()

    def __call__(self, n):
        if n == self.at:
            self.reached.set()
            self.let_go.wait(PATIENCE_S)
        return n


@pytest.fixture
def hold():
    made = Hold(5)
    yield made
    made.let_go.set()


def held(stream, hold, name="held"):
    return stream.map(hold, name=name)


def stopped(job, hold):
    """Ask for the end while an item is under way, then let it go on."""
    assert hold.reached.wait(PATIENCE_S)
    stopping = threading.Thread(target=job.stop)
    stopping.start()
    while not job._running._stopping.is_set():
        time.sleep(0.001)
    hold.let_go.set()
    stopping.join(PATIENCE_S)
    return job


WRITERS = {
    "csv": lambda stream, path: stream.write_csv(path),
    "jsonl": lambda stream, path: stream.write_jsonl(path),
    "parquet": lambda stream, path: stream.write_parquet(path),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("name", ["out", "out.{form}"])
def test_a_stopped_job_leaves_no_output(tmp_path, hold, engine, form, name):
    path = tmp_path / name.format(form=form)
    numbers = held(ab.from_iterable(range(1000), int), hold)
    job = ab.start(WRITERS[form](numbers, path), on=engine, degree=1)

    stopped(job, hold)

    assert ("stopped", "nothing") == (job.status, job.written)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_generator_counts_as_bounded_since_nobody_knows(tmp_path, hold, engine):
    numbers = held(ab.generate(lambda: iter(range(1000)), int), hold)
    job = ab.start(numbers.write_csv(tmp_path / "out"), on=engine, degree=1)

    stopped(job, hold)

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("engine", ENGINES)
def test_stopping_is_how_a_live_job_ends(tmp_path, engine):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    seen = []
    lines = ab.read_text(inbox, follow=True)
    tell = lines.for_each(seen.append)
    job = ab.start(tell, lines.write_csv(tmp_path / "out"), on=engine, degree=1)
    (inbox / ".one").write_text("a\nb\n")
    (inbox / ".one").rename(inbox / "one.txt")
    while len(seen) < 2:
        time.sleep(0.01)

    job.stop()

    assert ("stopped", "all so far") == (job.status, job.written)
    assert (tmp_path / "out" / "_SUCCESS").exists()
    (part,) = (tmp_path / "out").glob("part-*")
    assert "value\na\nb\n" == part.read_text()


@pytest.mark.parametrize("engine", ENGINES)
def test_dead_letters_stay_as_they_were_noted(tmp_path, hold, engine):
    lost = tmp_path / "lost.jsonl"
    numbers = ab.from_iterable(range(1000), int).map(lambda n: n + 1 // (n - 2))
    job = ab.start(
        held(numbers, hold).write_csv(tmp_path / "out"),
        on=engine,
        degree=1,
        on_error=ab.dead_letter(str(lost)),
    )

    stopped(job, hold)

    (line,) = lost.read_text().splitlines()
    assert "2" == json.loads(line)["item"]
    assert [lost] == list(tmp_path.iterdir())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_job_that_has_come_to_its_end_cannot_be_stopped_any_more(tmp_path, engine):
    path = tmp_path / "out"
    job = ab.run(ab.from_iterable(range(9), int).write_csv(path), on=engine)

    job.stop()

    assert ("finished", "all") == (job.status, job.written)
    assert (path / "_SUCCESS").exists()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_operator_that_does_not_return_is_named(tmp_path, hold, engine):
    numbers = ab.from_iterable(range(1000), int).map(lambda n: n, name="before")
    job = ab.start(
        held(numbers, hold, "stuck").write_csv(tmp_path / "out"), on=engine, degree=1
    )
    assert hold.reached.wait(PATIENCE_S)

    with pytest.warns(RuntimeWarning, match=r"operator 'stuck' .* had not returned"):
        job.stop(grace_s=0)

    assert ("stopped", "nothing") == (job.status, job.written)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_sink_and_a_source_that_do_not_return_are_named_too(hold, engine):
    def items():
        yield from range(5)
        hold(5)
        yield 5

    source = ab.start(ab.generate(items, int, name="src").to_list(), on=engine)
    assert hold.reached.wait(PATIENCE_S)
    source.end(0)
    hold.reached.clear()
    sink = ab.start(
        ab.from_iterable(range(9), int).for_each(hold, name="snk"),
        on=engine,
    )
    assert hold.reached.wait(PATIENCE_S)
    sink.end(0)

    assert "operator 'src'" in source.hung
    assert "operator 'snk'" in sink.hung


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_delivered_after_a_job_was_given_up(hold, engine):
    seen, others = [], set(threading.enumerate())
    job = ab.start(
        held(ab.from_iterable(range(1000), int), hold).for_each(seen.append),
        on=engine,
        degree=1,
    )
    assert hold.reached.wait(PATIENCE_S)
    job.end(0)
    before = list(seen)

    hold.let_go.set()
    for thread in set(threading.enumerate()) - others:
        if thread.is_alive():  # others may be starting one
            thread.join(PATIENCE_S)

    assert [0, 1, 2, 3, 4][: len(before)] == before
    assert before == seen


@pytest.mark.parametrize("engine", ENGINES)
def test_in_a_hurry_the_grace_is_left_out(hold, engine):
    job = ab.start(held(ab.from_iterable(range(9), int), hold).to_list(), on=engine)
    assert hold.reached.wait(PATIENCE_S)

    job.end(grace_s=1e6, hurry=lambda: True)

    assert "stopped" == job.status
    assert "'held'" in job.hung
    assert job.hung == job.history[-1].why


@pytest.mark.parametrize("engine", ENGINES)
def test_a_program_may_stop_itself(engine):
    """
    The function that asks must return before the job can end.
    """
    seen, jobs, known = [], [], threading.Event()

    def take(n):
        seen.append(n)
        if n == 3:
            known.wait(PATIENCE_S)
            jobs[0].stop()

    numbers = ab.generate(lambda: iter(range(10**9)), int)
    jobs.append(ab.start(numbers.for_each(take), on=engine, degree=1))
    known.set()

    assert jobs[0].wait(PATIENCE_S)
    assert ("stopped", None) == (jobs[0].status, jobs[0].hung)
    assert list(range(len(seen))) == seen
