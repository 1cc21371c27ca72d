"""The plan of an epoch's Spark job: made once per shape, with new instructions each
time.

Building a stage takes some seventy calls into the JVM, more time than a small epoch's
rows. Only the tasks' instructions change from epoch to epoch. So these go with the job
as one of its properties, which Spark gives to every attempt of its tasks, and the
stages are reused: as long as epochs have the same stages and the same number of tasks,
their plan is the same. If they are too large for a property, the plan contains them and
is used once; so it is if jobs have no properties, as those of Spark Connect.
"""

from __future__ import annotations

import base64
import io
import pickle
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, TypeAlias

import cloudpickle
import pyarrow as pa
from pyspark import Broadcast, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from anabranch.engines.spark.access import SparkAccess
from anabranch.engines.spark.anchors import Anchors
from anabranch.epochs.cluster import StageShape
from anabranch.epochs.task import ROW_ARROW, EpochTask, pause_collection
from anabranch.errors import EngineError

ROW_SCHEMA = from_arrow_schema(ROW_ARROW)  # text would be parsed for every stage
PROPERTY = "anabranch.tasks"
MOST_BYTES = 1 << 17  # of a property: each task of a job gets it
KEPT = 8  # plans

Run: TypeAlias = Callable[
    [EpochTask, Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]
]


class StagePlans:
    """The plans of a job's epochs; used by the thread that runs them."""

    def __init__(
        self, run: Run, access: SparkAccess, anchors: Anchors | None = None
    ) -> None:
        """Create plans whose workers call `run`, at their anchors if there are any."""
        self._run = run
        self._access = access
        self._anchors = anchors
        self._made: dict[Any, tuple[DataFrame, Sequence[Any]]] = {}

    def collect(
        self,
        spark: SparkSession,
        shapes: Sequence[StageShape],
        tasks: Sequence[EpochTask],
    ) -> pa.Table:
        """Run a job with these stages and tasks; return its rows."""
        with pause_collection():
            told, shared = dump(list(tasks))
        text = base64.b64encode(zlib.compress(told, 1)).decode()
        if len(text) > MOST_BYTES or not self._access.set_property(PROPERTY, text):
            return self._build(spark, shapes, shared, told).toArrow()
        # Kept objects have unique ids.
        key = id(spark), tuple(shapes), tuple(map(id, shared))
        if key not in self._made:
            if len(self._made) >= KEPT:
                self._made.pop(next(iter(self._made)))
            self._made[key] = self._build(spark, shapes, shared), (spark, *shared)
        frame, _ = self._made[key]
        # Spark would reuse the shuffled rows of an earlier job with the same plan.
        return (frame.alias("again") if len(shapes) > 1 else frame).toArrow()

    def close(self) -> None:
        """Forget the plans, and free what they keep in the memory of executors."""
        self._made.clear()
        if self._anchors is not None:
            self._anchors.close()

    def _build(
        self,
        spark: SparkSession,
        shapes: Sequence[StageShape],
        shared: Sequence[Any],
        told: bytes | None = None,
    ) -> DataFrame:
        first, *others = shapes
        anchors = self._anchors
        if anchors is None:
            frame = spark.range(0, first.tasks, 1, first.tasks)
        else:
            frame = anchors.begin(spark, first.tasks)
        for number, shape in enumerate([first, *others]):
            if number:
                frame = frame.repartitionById(shape.tasks, "dest")
                if anchors is not None:
                    frame = anchors.join(spark, frame, shape.tasks)
            for part in range(shape.workers):
                function = stage_function(self._run, number, part, shared, told)
                function.__name__ = shape.name
                with self._access.own_python():
                    frame = frame.mapInArrow(function, ROW_SCHEMA)
        return frame


def stage_function(
    run: Run, number: int, part: int, shared: Sequence[Any], told: bytes | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Return the function of one of the workers of a stage's tasks."""

    def run_stage(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        tasks: list[EpochTask] = load(read_property() if told is None else told, shared)
        task = tasks[number]
        task = replace(task, stage=replace(task.stage, part=part))
        return run(task, batches)

    return run_stage


def read_property() -> bytes:
    """Read the local properties of this task's job."""
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - Spark calls us
    text = context.getLocalProperty(PROPERTY)
    assert text is not None  # noqa: S101 - see `collect`
    return zlib.decompress(base64.b64decode(text))


def dump(told: Any, known: Sequence[Any] = ()) -> tuple[bytes, list[Any]]:
    """Pickle a task's instructions; return them with the broadcasts they refer to.

    `known` broadcasts come first, in the same order.
    """
    file = io.BytesIO()
    pickler = _Pickler(file, known)
    pickler.dump(told)
    return file.getvalue(), pickler.shared


def load(told: bytes | memoryview, shared: Sequence[Any]) -> Any:
    """Load the output of `dump`."""
    unpickler = _Unpickler(io.BytesIO(told))
    unpickler.shared = shared
    return unpickler.load()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Leaves broadcasts to Spark, which sends them with the functions of a plan."""

    def __init__(self, file: io.BytesIO, known: Sequence[Any]) -> None:
        super().__init__(file)
        self.shared = list(known)

    def reducer_override(self, obj: Any) -> Any:
        # Not a persistent id: that would be called for every number.
        if not isinstance(obj, Broadcast):
            if isinstance(obj, (type, FunctionType)):  # all that it decides about
                return super().reducer_override(obj)
            return NotImplemented
        for number, one in enumerate(self.shared):
            if one is obj:
                return find_shared, (number,)
        self.shared.append(obj)
        return find_shared, (len(self.shared) - 1,)


def find_shared(number: int) -> Any:
    """Represent a broadcast in a pickle; `load` replaces it."""
    msg = f"broadcast {number} can only be found while a task's description is loaded"
    raise EngineError(msg)


class _Unpickler(pickle.Unpickler):
    shared: Sequence[Any] = ()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (find_shared.__module__, find_shared.__name__):
            return self.shared.__getitem__
        return super().find_class(module, name)
