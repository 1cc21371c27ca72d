"""The options of the compiler: the target engine, and rules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """The abilities of the engine, and the requirements of the run.

    A `batched` engine works on epochs of many items, so it can cut any stateless stream
    into contiguous ranges and concatenate the results, and it orders everything else by
    position. With `parallel_ends` it can read and write with several workers at once.
    An `aligned` one deals items in groups, so that blocks of several items can be
    replicated. Without `replicas` it has one thread.

    With `rounds` it runs the body of an `iterate` on all replicas.

    A `resilient` run continues after errors, so items may be missing anywhere.
    """

    batched: bool = False
    parallel_ends: bool = True
    aligned: bool = False
    replicas: bool = True
    resilient: bool = False
    rounds: bool = False


SPARK = Target(batched=True, aligned=True, rounds=True)
LOCAL = Target(parallel_ends=False, aligned=True, rounds=True)
SEQUENTIAL = Target(parallel_ends=False, replicas=False)


@dataclass(frozen=True)
class Rules:
    """Restrictions that can be switched on.

    The paper on hybrid scheduling forbids a stream of dynamic rate between two
    operators that fixed rates connect in another way. Positions give the order here, so
    it is allowed unless `dynamic_inside_static` is False.

    The paper on safe data parallelism gives a region one input and one output stream.
    Positions give the order at any fan-in, so regions are graphs here unless they must
    be `chains`.

    The operators in `whole_rounds` gather their windows and run the rounds in one place,
    as in the checkpoint of an earlier release.
    """

    dynamic_inside_static: bool = True
    chains: bool = False
    whole_rounds: frozenset[str] = frozenset()
