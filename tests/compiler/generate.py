"""Random programs with random traits, for properties of the compiler."""

from __future__ import annotations

from hypothesis import strategies as st

from anabranch.graph.graph import Graph, Op, Output
from anabranch.graph.kind import Push, SinkKind, SourceKind, Traits
from anabranch.operators.blocks import Block
from anabranch.operators.fan_in import Union
from anabranch.operators.stateless import FlatMap, Split

NAMES = st.frozensets(st.sampled_from("klm"), max_size=3)
PUSHES = st.sampled_from([(1, 1), (1, 1), (1, 1), (0, 1), (0, None), (2, 2), (0, 0)])


@st.composite
def programs(draw, most=14):
    """Return a graph and its traits; mostly chains, so that regions get long."""
    ops: list[Op] = []
    traits: dict[str, Traits] = {}
    for index in range(draw(st.integers(2, most))):
        name = f"o{index}"
        op = Op(name, SourceKind())
        usable = [o for o in ops if not isinstance(o.kind, SinkKind)]
        if usable and draw(st.integers(0, 9)) > 0:
            op = _inner(draw, name, usable, ops)
        if ops and draw(st.integers(0, 9)) == 0:
            op = Op(
                op.name, op.kind, op.inputs, fuse_with=draw(st.sampled_from(ops)).name
            )
        ops.append(op)
        traits[name] = _traits(draw, op)
    return Graph(tuple(ops)), traits


def _inner(draw, name, usable, ops):
    kind = draw(st.integers(0, 14))
    inputs = [usable[-1] if draw(st.integers(0, 4)) else draw(st.sampled_from(usable))]
    if kind == 0:
        inputs.append(draw(st.sampled_from(usable)))
    outputs = tuple(
        Output(o.name, draw(st.integers(0, o.kind.outputs - 1))) for o in inputs
    )
    match kind:
        case 0:
            return Op(name, Union(), outputs)
        case 1 | 2:
            return Op(name, SinkKind(), outputs)
        case 3:
            return Op(name, Split(hash, 2), outputs)
        case 4:
            pop = draw(st.integers(1, 2))
            return Op(name, Block(list, pop, 1, draw(st.integers(pop, 3))), outputs)
        case _:
            return Op(name, FlatMap(list), outputs)


def _traits(draw, op):
    key = tuple(sorted(draw(NAMES)))
    state = draw(
        st.sampled_from(["stateless", "stateless", "keyed", "keyed", "global"])
    )
    if not key or isinstance(op.kind, Union | SinkKind):
        state = "stateless"
    pop, push = draw(st.sampled_from([1] * 12 + [2, None])), Push(*draw(PUSHES))
    if isinstance(op.kind, Block):
        pop, push = op.kind.pop, Push(op.kind.push, op.kind.push)
    marks = draw(st.sampled_from(["preserving"] * 4 + ["generating", "free"]))
    return Traits(
        state,
        key=key if state == "keyed" else (),
        pop=pop,
        push=push,
        forwards=draw(st.none() | NAMES),
        punctuation="free" if isinstance(op.kind, SourceKind | Union) else marks,
        expects_punctuation=draw(st.integers(0, 5)) == 0,
        in_parallel=draw(st.booleans()),
    )
