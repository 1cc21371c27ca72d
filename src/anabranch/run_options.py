"""The options of `run` and `start`: one frozen class, declared and explained once.

`Keywords` repeats the types for type checkers, which do not read them from the class.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, ParamSpec, TypeAlias, TypedDict, TypeVar

from anabranch.connectors.storage import why_no_store, why_not_deciding
from anabranch.control.goals import Latency, Throughput, seconds_of
from anabranch.errors import ArgumentError, CheckpointError
from anabranch.export.targets import refuse_target
from anabranch.graph.paths import (
    is_store_url,
    path_advice,
    plain_path,
    why_not_path,
)
from anabranch.metrics.job_metrics import Journal, OnDecision
from anabranch.runtime.failures import OnError, policy
from anabranch.runtime.thread import Options
from anabranch.runtime.verify.verifier import Verify

EngineName: TypeAlias = Literal["spark", "local", "sequential"]


def _is_whole(number: Any) -> bool:
    return type(number) is int and number >= 1


def _refuse_goal(goal: Any, degree: int | None) -> None:
    if not isinstance(goal, Throughput | Latency | None):
        advice = 'ab.latency("200 ms")'
        if isinstance(goal, str):
            advice = f"ab.latency({goal!r})"
        msg = (
            f"goal must be ab.throughput() or ab.latency(...); got {goal!r}; "
            f"write for instance goal={advice}"
        )
        raise ArgumentError(msg)
    if degree is not None and isinstance(goal, Latency):
        msg = (
            f"a latency goal chooses the number of replicas; got degree="
            f"{degree} too; leave one of them out, or say "
            f"ab.latency(..., replicas=...)"
        )
        raise ArgumentError(msg)


_BUCKETS = tuple(
    1 << exponent for exponent in range(15)
)  # that Spark's states may have
_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run.

    - `on`: the engine, "spark", "local" or "sequential".
    - `checkpoint`: a directory, or the URL of one in a store; a run that finds a
      checkpoint there goes on with it (Spark).
    - `degree`: the number of replicas; nothing is tuned then.
    - `on_error`: "stop", "skip" or `ab.dead_letter(...)`, for items that fail.
    - `item_timeout`: the longest time that a function may take for one item, such as
      "30 s"; beyond it the item counts as failed.
    - `goal`: what the job is tuned for while it runs, `ab.throughput()` by default or
      `ab.latency("200 ms")`.
    - `master`: the Spark master, for example "spark://host:7077"; an embedded Spark on
      this machine by default.
    - `epoch_items`: the number of items that each source gives to an epoch (Spark).
    - `buckets`: the number of buckets of keys, the units in which states are divided among
      replicas and moved; a power of two, 1,024 by default. A checkpoint keeps the number of
      its first run (Spark).
    - `verify`: checks while the job runs that operators in parallel keep no state, as the
      analysis found: "sample" checks some batches, "all" every batch, "off" none.
    - `ui`: True serves a dashboard on this machine and prints its address; a number is
      the port to use.
    - `metrics`: where the metrics of the job go while it runs: "prometheus://:9464" serves
      them on that port, "otlp://host:4317" sends them there by OpenTelemetry, with a trace
      for each epoch (docs/operations.md).
    - `on_decision`: a function that is called with each adaptation when it is made; see
      `Job.history` for its contents.
    """

    on: EngineName = "spark"
    checkpoint: str | os.PathLike[str] | None = None
    degree: int | None = None
    on_error: str | OnError = "stop"
    item_timeout: str | float | None = None
    goal: Throughput | Latency | None = None
    master: str | None = None
    epoch_items: int | None = None
    buckets: int | None = None
    verify: Verify = "sample"
    ui: bool | int = False
    metrics: str | None = None
    on_decision: OnDecision | None = None

    def __post_init__(self) -> None:
        for name in ("degree", "epoch_items"):
            number = getattr(self, name)
            if number is not None and not _is_whole(number):
                msg = f"{name} must be a whole number of at least 1; got {number!r}"
                raise ArgumentError(msg)
        if self.buckets not in (None, *_BUCKETS):
            msg = (
                f"buckets must be a power of two from {_BUCKETS[0]} to {_BUCKETS[-1]}; got "
                f"{self.buckets!r}"
            )
            raise ArgumentError(msg)
        if self.item_timeout is not None:
            seconds_of(self.item_timeout)
        if self.verify not in ("sample", "all", "off"):
            msg = f"verify must be 'sample', 'all' or 'off'; got {self.verify!r}"
            raise ArgumentError(msg)
        if self.metrics is not None:
            refuse_target(self.metrics)
        if self.on_decision is not None and not callable(self.on_decision):
            msg = f"on_decision must be a function; got {self.on_decision!r}"
            raise ArgumentError(msg)
        _refuse_goal(self.goal, self.degree)
        if self.checkpoint is not None and self.on != "spark":
            msg = (
                f"a checkpoint is kept on='spark' only; got on={self.on!r} and "
                f"checkpoint={os.fspath(self.checkpoint)!r}; run on='spark', or leave "
                f"the checkpoint out"
            )
            raise ArgumentError(msg)

    def for_engine(self) -> Options:
        """Return the part of the options that engines read."""
        directory = self.checkpoint
        return Options(
            on_error=policy(self.on_error),
            degree=self.degree,
            checkpoint=None if directory is None else checkpoint_path(directory),
            master=self.master,
            epoch_items=self.epoch_items,
            buckets=self.buckets,
            verify=self.verify,
            item_timeout_s=(
                None if self.item_timeout is None else seconds_of(self.item_timeout)
            ),
            journal=Journal(self.on_decision),
        )


class Keywords(TypedDict, total=False):
    """The same options as keyword arguments of a function."""

    on: EngineName
    checkpoint: str | os.PathLike[str] | None
    degree: int | None
    on_error: str | OnError
    item_timeout: str | float | None
    goal: Throughput | Latency | None
    master: str | None
    epoch_items: int | None
    buckets: int | None
    verify: Verify
    ui: bool | int
    metrics: str | None
    on_decision: OnDecision | None


def take_options(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make `help` and editors show the options of a function that takes `Keywords`."""
    signature = inspect.signature(function)
    others = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    keywords = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=one.default,
            annotation=one.type,
        )
        for one in fields(RunOptions)
    ]
    shown = signature.replace(parameters=[*others, *keywords])
    function.__signature__ = shown  # type: ignore[attr-defined]
    explained = inspect.cleandoc(RunOptions.__doc__ or "").partition("\n\n")[2]
    own = inspect.cleandoc(function.__doc__ or "")
    function.__doc__ = f"{own}\n\nOptions:\n\n{explained}\n"
    return function


def read_options(function: str, given: Mapping[str, Any]) -> RunOptions:
    """Return the options that a function was given by keyword.

    >>> read_options("run", {"on": "local", "degree": 2}).degree
    2
    >>> read_options("run", {"degre": 2})
    Traceback (most recent call last):
        ...
    TypeError: run() got an unexpected keyword argument 'degre'
    """
    known = {one.name for one in fields(RunOptions)}
    for name in given:
        if name not in known:
            msg = f"{function}() got an unexpected keyword argument {name!r}"
            raise TypeError(msg)
    return RunOptions(**given)


def checkpoint_path(given: str | os.PathLike[str]) -> str:
    """Return the directory of a checkpoint: a plain path, or the URL of a store.

    >>> checkpoint_path("file:///jobs/vwap.checkpoint")
    '/jobs/vwap.checkpoint'
    >>> checkpoint_path("s3://jobs/vwap.checkpoint")
    's3://jobs/vwap.checkpoint'
    """
    path = plain_path(given)
    if is_store_url(path):
        why = why_no_store(path) or why_not_deciding(path)
        advice = "give a path that the driver and all workers see, or s3://bucket/path"
    else:
        why, advice = why_not_path(path), path_advice(path)
    if why is not None:
        msg = f"a checkpoint must be a directory or in a store; {why}; {advice}"
        raise CheckpointError(msg)
    return str(path)
