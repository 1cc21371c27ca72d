"""Which variables go from stage to stage, and which a stage keeps for its next turn.

A variable that is read before it is assigned in a turn has its value from an earlier
turn, or from before the loop. If a single stage does that with a variable of its own, the
variable is the state of this stage. If it goes from one stage to another, the turns
depend on one another across stages, and that is refused.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from anabranch.errors import LoopError
from anabranch.frontend.flow import Flow, flow_of, flow_of_expression
from anabranch.frontend.read_loop import MarkedLoop, Stage


@dataclass(frozen=True)
class Wires:
    """What goes into a stage and out of it, and what it keeps; sorted by name."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True)
class Wiring:
    """What the head of a loop keeps for itself and gives, and the wires of stages."""

    head_kept: tuple[str, ...]
    head_outputs: tuple[str, ...]
    stages: tuple[Wires, ...]


def wire(loop: MarkedLoop) -> Wiring:
    """Return what goes where; refuse what depends on other turns of other stages."""
    return _Wirer(loop).wiring()


class _Wirer:
    def __init__(self, loop: MarkedLoop) -> None:
        self.loop = loop
        before = flow_of(loop.before)
        self.bound = {*loop.parameters, *before.writes}
        self.flows = [flow_of(stage.body) for stage in loop.stages]
        self.head = self._head()

    def _head(self) -> Flow:
        """Return the flow of what runs before the first stage, in every turn."""
        loop = self.loop.loop
        if isinstance(loop, ast.While):
            test = ast.copy_location(ast.Expr(loop.test), loop.test)
            return flow_of([test, *self.loop.head])
        target = ast.Assign([loop.target], ast.Constant(None))
        return flow_of([ast.copy_location(target, loop.target), *self.loop.head])

    def wiring(self) -> Wiring:
        head_kept = self._head_kept()
        there = set(self.head.sure or ()) | set(head_kept)
        kept: list[set[str]] = []
        before: list[set[str]] = []  # what there is when a stage begins
        for number in range(len(self.flows)):
            before.append(set(there))
            kept.append(self._kept(number, there))
            there |= set(self.flows[number].sure or ()) | kept[-1]
        wires: list[Wires] = []
        live = set(self._last_outputs(there))
        for number in reversed(range(len(self.flows))):
            stage, flow = self.loop.stages[number], self.flows[number]
            self._check_marks(stage, flow, before[number], live)
            given = set(flow.sure or ()) | kept[number]
            needed = (set(flow.reads) & before[number]) | (live - given)
            wires.append(
                Wires(
                    tuple(sorted(needed)),
                    tuple(sorted(live)),
                    tuple(sorted(kept[number])),
                )
            )
            live = needed
        self._refuse_captures()
        return Wiring(head_kept, tuple(sorted(live)), tuple(reversed(wires)))

    def _head_kept(self) -> tuple[str, ...]:
        """Return the variables that the head hands on to its next turn."""
        reads = dict(self.head.reads)
        if isinstance(self.loop.loop, ast.For):  # evaluated once, before the first turn
            for name in flow_of_expression(self.loop.loop.iter).reads:
                if name in self.head.writes and name in self.bound:
                    reads.setdefault(name, self.loop.loop.lineno)
        for name, line in reads.items():
            for flow in self.flows:
                if name in flow.writes:
                    raise self._refuse_carried(name, line, flow.writes[name])
            if name in self.head.writes and name not in self.bound:
                raise self._refuse_unbound(name, line)
        return tuple(sorted(set(reads) & set(self.head.writes)))

    def _kept(self, number: int, there: set[str]) -> set[str]:
        """Return the variables that a stage hands on to its own next turn."""
        flow, kept = self.flows[number], set[str]()
        parts = [self.head, *self.flows]
        for name, line in flow.reads.items():
            writing = [n - 1 for n, part in enumerate(parts) if name in part.writes]
            if name in there or not writing:
                continue
            if writing != [number]:
                other = next(n for n in writing if n != number)
                raise self._refuse_carried(name, line, parts[other + 1].writes[name])
            if name not in self.bound:
                raise self._refuse_unbound(name, line)
            kept.add(name)
        return kept

    def _last_outputs(self, there: set[str]) -> tuple[str, ...]:
        last = self.loop.stages[-1]
        for name in last.outputs or ():
            if name not in there:
                reason = f"the stage gives {name}, which is not surely assigned"
                fix = "assign it in every turn"
                raise self.loop.place.refuse(last.line, reason, fix)
        return last.outputs or ()

    def _check_marks(
        self, stage: Stage, flow: Flow, before: set[str], live: set[str]
    ) -> None:
        if stage.inputs is not None:
            self._check_inputs(stage, stage.inputs, flow, before)
        if stage.outputs is not None:
            self._check_outputs(stage, stage.outputs, flow, before, live)

    def _check_inputs(
        self, stage: Stage, inputs: tuple[str, ...], flow: Flow, before: set[str]
    ) -> None:
        refuse = self.loop.place.refuse
        for name, line in flow.reads.items():
            if name in before and name not in inputs:
                reason = f"the stage reads {name}, which its inputs do not name"
                raise refuse(line, reason, "add it to inputs, or leave inputs out")
        for name in inputs:
            if name not in before | self.bound:
                reason = f"the inputs name {name}, which nothing before it assigns"
                raise refuse(stage.line, reason, "take it out of inputs")

    def _check_outputs(
        self,
        stage: Stage,
        outputs: tuple[str, ...],
        flow: Flow,
        before: set[str],
        live: set[str],
    ) -> None:
        refuse = self.loop.place.refuse
        for name in sorted(live):
            if name in flow.writes and name not in outputs:
                reason = (
                    f"the stage assigns {name}, which a later stage reads, "
                    "but its outputs do not name it"
                )
                fix = "add it to outputs, or leave outputs out"
                raise refuse(flow.writes[name], reason, fix)
        for name in outputs:
            if name not in before | set(flow.writes):
                reason = f"the outputs name {name}, which the stage does not assign"
                raise refuse(stage.line, reason, "take it out of outputs")

    def _refuse_captures(self) -> None:
        """Refuse functions that would see a variable change behind their back."""
        flows = [self.head, *self.flows]
        for number, flow in enumerate(flows):
            later = flows[number:] if flow is self.head else flows[number + 1 :]
            for name, line in flow.captured.items():
                lines = [one.writes[name] for one in later if name in one.writes]
                if lines:
                    reason = (
                        f"a function or generator made here sees {name}, which line "
                        f"{lines[0]} assigns while it may still be used"
                    )
                    fix = f"give it the value, as in `lambda x, {name}={name}: ...`"
                    raise self.loop.place.refuse(line, reason, fix)

    def _refuse_carried(self, name: str, line: int, assigned: int) -> LoopError:
        reason = (
            f"{name} may have its value from an earlier turn, in which line {assigned} "
            "assigned it: turns of different stages run at the same time"
        )
        fix = f"assign {name} in every turn before it is read, or in the same stage"
        return self.loop.place.refuse(line, reason, fix)

    def _refuse_unbound(self, name: str, line: int) -> LoopError:
        reason = f"{name} may be read before it is assigned"
        return self.loop.place.refuse(line, reason, "assign it before the loop")
