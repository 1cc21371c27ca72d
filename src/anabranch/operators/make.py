"""From an operator of the graph to its kernel."""

from __future__ import annotations

from dataclasses import replace

from anabranch.graph.graph import Op
from anabranch.operators.blocks import (
    Block,
    BlockKernel,
    Collect,
    CollectKernel,
    Deal,
    DealKernel,
)
from anabranch.operators.clock import EventTime, EventTimeKernel
from anabranch.operators.custom import Apply, ApplyKernel, Scan, ScanKernel
from anabranch.operators.fan_in import Barrier, BarrierKernel, Merge, MergeKernel, Union
from anabranch.operators.iterate import (
    Gather,
    GatherKernel,
    Iterate,
    IterateKernel,
    RoundsKernel,
    RunBody,
)
from anabranch.operators.join import Join, JoinKernel, Lookup, LookupKernel
from anabranch.operators.kernel import Kernel
from anabranch.operators.lifted import Lifted, LiftedKernel
from anabranch.operators.stateless import (
    Filter,
    FilterKernel,
    FlatMap,
    FlatMapKernel,
    Map,
    MapKernel,
    PassKernel,
    Punctuate,
    PunctuateKernel,
    Split,
    SplitKernel,
)
from anabranch.operators.window_parts import MergedAggregate, MergedAggregateKernel
from anabranch.operators.windows import Aggregate, AggregateKernel


def make_kernel(op: Op, run_body: RunBody) -> Kernel:  # noqa: C901, PLR0911, PLR0912
    """Return the kernel of an operator; `run_body` runs the body of an `iterate`."""
    match op.kind:
        case Map() as kind:
            return MapKernel(kind, copied=op.copied)
        case Filter() as kind:
            return FilterKernel(kind)
        case FlatMap() as kind:
            return FlatMapKernel(kind, copied=op.copied)
        case Punctuate() as kind:
            return PunctuateKernel(kind)
        case Split() as kind:
            return SplitKernel(kind)
        case Union():
            return PassKernel()
        case Merge() as kind:
            return MergeKernel(kind, len(op.inputs))
        case Barrier() as kind:
            return BarrierKernel(kind, len(op.inputs))
        case Scan() as kind:
            return ScanKernel(kind, copied=op.copied)
        case Apply() as kind:
            return ApplyKernel(kind, copied=op.copied)
        case EventTime() as kind:
            return EventTimeKernel(kind)
        case MergedAggregate() as kind:
            return MergedAggregateKernel(kind)
        case Aggregate() as kind:
            return AggregateKernel(kind)
        case Join() as kind:
            return JoinKernel(kind)
        case Lookup() as kind:
            return LookupKernel(kind)
        case Block() as kind:
            return BlockKernel(kind)
        case Deal() as kind:
            return DealKernel(kind)
        case Collect() as kind:
            return CollectKernel(kind)
        case Lifted() as kind:
            return LiftedKernel(
                kind, make_kernel(replace(op, kind=kind.kind), run_body)
            )
        case Gather():
            return GatherKernel()
        case Iterate(gathered=True) as kind:
            return RoundsKernel(kind, kind.run or run_body)
        case Iterate() as kind:
            return IterateKernel(kind, kind.run or run_body)
    msg = f"no kernel for {op.kind!r}"
    raise TypeError(msg)
