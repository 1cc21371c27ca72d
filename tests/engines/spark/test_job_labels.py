"""Spark's pages tell the program, the epoch and the operators of each job."""

import uuid

import pytest

import anabranch as ab
from anabranch.engines.spark.workers import DESCRIPTION, GROUP, POOL, JobLabels

LABELS = (GROUP, POOL, DESCRIPTION)


def test_a_description_names_some_of_many_operators():
    text = JobLabels("many.py").describe("epoch 1", [f"op{n}" for n in range(20)])

    assert text.startswith("many.py, epoch 1: op0, op1,")
    assert text.endswith("op7 and 12 more")


def find_jobs(spark, group):
    """Return the descriptions of all jobs of a group, oldest first."""
    store = spark.sparkContext._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    found = [jobs.apply(n) for n in range(jobs.size())]
    return [
        one.description().get()
        for one in sorted(found, key=lambda one: one.jobId())
        if one.jobGroup().isDefined() and group in one.jobGroup().get()
    ]


@pytest.fixture
def labelled(spark):
    """A thread whose jobs the user has labelled."""
    context = spark.sparkContext
    group = f"mine-{uuid.uuid4().hex}"
    values = (group, "my pool", "my report")
    for name, value in zip(LABELS, values, strict=True):
        context.setLocalProperty(name, value)
    yield values
    for name in LABELS:
        context.setLocalProperty(name, None)


def run(items=6):
    numbers = ab.from_iterable(range(items), int)
    return ab.run(numbers.map(abs, name="size").to_list(), epoch_items=3, degree=1)


@pytest.mark.spark
def test_labels_of_the_user_hold_for_the_jobs_of_a_program(
    spark, labelled, a_job_for_each_epoch
):
    run()

    found = find_jobs(spark, labelled[0])
    assert "my report (test_job_labels.py), warm-up: from_iterable, size" == found[0]
    assert "my report (test_job_labels.py), epoch 2: from_iterable, size" in found
    context = spark.sparkContext
    assert labelled == tuple(map(context.getLocalProperty, LABELS))


@pytest.mark.spark
def test_tasks_that_stay_have_the_labels_of_the_user(spark, labelled):
    run()

    named = "my report (test_job_labels.py), resident tasks: from_iterable, size"
    assert [named] == find_jobs(spark, labelled[0])


@pytest.mark.spark
def test_without_labels_the_group_is_the_program(spark, a_job_for_each_epoch):
    before = len(find_jobs(spark, "test_job_labels.py "))

    run()

    found = find_jobs(spark, "test_job_labels.py ")[before:]
    assert "test_job_labels.py, epoch 1: from_iterable, size" in found
    assert [None] * 3 == [spark.sparkContext.getLocalProperty(one) for one in LABELS]
