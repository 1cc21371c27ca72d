"""Plans stay while the shape of epochs does; what tasks are told is theirs."""

import random

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.engines.spark.access import ClassicAccess
from anabranch.engines.spark.anchors import Anchors
from anabranch.engines.spark.stage_plan import (
    MOST_BYTES,
    StagePlans,
    StageShape,
    dump,
    load,
)
from anabranch.epochs.task import (
    ROW_ARROW,
    EpochAttempt,
    EpochTask,
    Share,
    TaskStage,
    WarmUp,
)


def told(turn: int, injected: bytes = b"") -> EpochTask:
    share = {(0, 0): Share(injected=injected)}
    stage = TaskStage(range(1), (1,))
    return EpochTask(stage, EpochAttempt(turn=turn), WarmUp(), share)


def answer(task, batches):
    """Tell which turn, which part and how many rows before: a worker of a stage."""
    before = sum(batch.num_rows for batch in batches if batch.num_columns > 1)
    numbers = [0, task.attempt.turn, task.stage.part, before]
    columns = [pa.array([n], pa.int32()) for n in numbers]
    yield pa.RecordBatch.from_arrays([*columns, pa.array([b""])], schema=ROW_ARROW)


def run(plans, spark, shapes, tasks):
    table = plans.collect(spark, shapes, tasks)
    return [tuple(row.values())[1:4] for row in table.to_pylist()]


def test_tasks_are_what_they_were():
    tasks = [told(1), told(2, b"items")]

    assert tasks == load(*dump(tasks))


@pytest.fixture
def built(monkeypatch):
    """How often a plan was built."""
    found = []
    build = StagePlans._build

    def noted(self, *arguments):
        found.append(arguments)
        return build(self, *arguments)

    monkeypatch.setattr(StagePlans, "_build", noted)
    return found


@pytest.mark.spark
def test_a_plan_is_used_again_and_its_tasks_are_told_anew(spark, built):
    """Also where rows are shuffled: those of the job before are not taken for new ones."""
    plans = StagePlans(answer, ClassicAccess(spark))
    single, two = [StageShape(1, 1)], [StageShape(2, 1), StageShape(1, 1)]

    assert [(1, 0, 0)] == run(plans, spark, single, [told(1)])
    assert [(2, 0, 0)] == run(plans, spark, single, [told(2)])
    assert [(3, 0, 2)] == run(plans, spark, two, [told(9), told(3)])
    assert [(4, 0, 2)] == run(plans, spark, two, [told(9), told(4)])
    assert 2 == len(built)


@pytest.mark.spark
def test_tasks_at_anchors_get_the_same_rows_and_leave_nothing_in_memory(spark, built):
    """
    An anchor is a partition in the memory of executors; rows are shuffled once.
    """
    plans = StagePlans(answer, ClassicAccess(spark), Anchors("job"))
    kept = spark.sparkContext._jsc.getPersistentRDDs
    before = kept().size()
    three = [StageShape(1, 1), StageShape(2, 1), StageShape(1, 1)]

    assert [(3, 0, 2)] == run(plans, spark, three, [told(1), told(2), told(3)])
    assert [(4, 0, 2)] == run(plans, spark, three, [told(1), told(2), told(4)])
    assert 1 == len(built)
    assert 2 == kept().size() - before
    ((frame, _),) = plans._made.values()
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert 2 == plan.count("ShuffledHashJoin")
    assert 2 + 3 == plan.count(
        "Exchange "
    )  # of rows, and of each anchor when it was made
    plans.close()
    assert before == kept().size()


@pytest.mark.spark
def test_each_worker_of_a_task_knows_its_part(spark):
    plans = StagePlans(answer, ClassicAccess(spark))

    assert [(1, 2, 1)] == run(plans, spark, [StageShape(1, 3)], [told(1)])


@pytest.mark.spark
def test_what_is_too_much_for_a_property_goes_with_the_plan(spark, built):
    plans = StagePlans(answer, ClassicAccess(spark))
    much = random.Random(1).randbytes(MOST_BYTES)

    assert [(1, 0, 0)] == run(plans, spark, [StageShape(1, 1)], [told(1, much)])
    assert [(2, 0, 0)] == run(plans, spark, [StageShape(1, 1)], [told(2, much)])
    assert [(3, 0, 0)] == run(plans, spark, [StageShape(1, 1)], [told(3)])
    assert 3 == len(built)


@pytest.mark.spark
def test_epochs_over_one_list_share_a_plan(spark, built):
    """What the list holds is broadcast, which goes with the plan and not with the job."""
    out = ab.from_iterable(range(5_000), int).map(lambda n: n + 1).to_list()
    ab.run(out, on="spark", degree=2, epoch_items=500)

    assert list(range(1, 5_001)) == out.items
    assert 3 >= len(built)  # one to warm up
