"""From an operator of the graph to its kernel."""

from __future__ import annotations

from anabranch.graph.blocks import Block, Collect, Deal
from anabranch.graph.custom import Apply, Scan
from anabranch.graph.graph import Op
from anabranch.graph.iterate import Iterate
from anabranch.graph.joins import Join
from anabranch.graph.kinds import (
    Barrier,
    Filter,
    FlatMap,
    Map,
    Merge,
    Punctuate,
    Split,
    Union,
)
from anabranch.graph.windows import Aggregate
from anabranch.runtime.kernels.blocks import BlockKernel, DealKernel
from anabranch.runtime.kernels.custom import ApplyKernel, ScanKernel
from anabranch.runtime.kernels.fan_in import BarrierKernel, CollectKernel, MergeKernel
from anabranch.runtime.kernels.iterate import IterateKernel, RunBody
from anabranch.runtime.kernels.join import JoinKernel
from anabranch.runtime.kernels.kernel import Kernel
from anabranch.runtime.kernels.stateless import (
    FilterKernel,
    FlatMapKernel,
    MapKernel,
    PassKernel,
    PunctuateKernel,
    SplitKernel,
)
from anabranch.runtime.kernels.windows import AggregateKernel


def make_kernel(op: Op, run_body: RunBody) -> Kernel:  # noqa: C901, PLR0911, PLR0912
    """Return the kernel of an operator; `run_body` runs the body of an `iterate`."""
    match op.kind:
        case Map() as kind:
            return MapKernel(kind)
        case Filter() as kind:
            return FilterKernel(kind)
        case FlatMap() as kind:
            return FlatMapKernel(kind)
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
            return ScanKernel(kind)
        case Apply() as kind:
            return ApplyKernel(kind)
        case Aggregate() as kind:
            return AggregateKernel(kind)
        case Join() as kind:
            return JoinKernel(kind)
        case Block() as kind:
            return BlockKernel(kind)
        case Deal() as kind:
            return DealKernel(kind)
        case Collect() as kind:
            return CollectKernel(kind)
        case Iterate() as kind:
            return IterateKernel(kind, run_body)
    msg = f"no kernel for {op.kind!r}"
    raise TypeError(msg)
