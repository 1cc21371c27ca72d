"""The end of a stream: operators give their last outputs, producers first.

All are asked at once. The outputs of the first one then run through the rest in an epoch
of their own, and its consumers are asked again. Where there are many keys, that takes
several epochs, each with a span of the keys in the order of their ranks.

The rounds of an `iterate` run on all replicas. The body is a program of its own. A round
is an epoch of it with all items, followed by its end; then its states are reset. Input
and output pass through the driver, like all last outputs of operators. Nothing is
committed until the last round is over: a job killed before that continues with the items
that the operator holds.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from anabranch.epochs.checkpoint.seal import Seal
from anabranch.epochs.cluster import Backend
from anabranch.epochs.commit import Committer
from anabranch.epochs.epoch_stages import raise_first
from anabranch.epochs.intake.intake import Piece, ShippedPiece, cut
from anabranch.epochs.layout import EpochLayout, lay_out
from anabranch.epochs.loop import Epochs, open_epochs
from anabranch.epochs.outputs import EpochOutputs
from anabranch.epochs.task import (
    FinishOperators,
    InjectOutputs,
    KeySpan,
    Report,
    Share,
    Spec,
)
from anabranch.epochs.unit.states import find_stored
from anabranch.errors import AnabranchError, RefutedError
from anabranch.graph.graph import Graph, ancestors
from anabranch.operators.iterate import Iterate, run_rounds
from anabranch.plan.plan import Plan
from anabranch.runtime.body import BodyRunner, feed_body
from anabranch.runtime.failures import stop
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.verify.verifier import find_verdicts

MOST_KEYS = 1 << 20  # whose last outputs the driver takes at a time


@dataclass(frozen=True)
class SharedRounds:
    """The rounds of an operator that tasks share, from the items of a window."""

    operator: str
    run: Callable[[list[Any]], list[Any]]


def _go_on() -> bool:
    return True


class EndOfStream:
    """Ends the stream of a program; `rounds` are those that tasks share, by the operator
    that holds their items.

    `go_on` is asked before each epoch.
    """

    def __init__(
        self,
        epochs: Epochs,
        rounds: Mapping[str, SharedRounds] | None = None,
        go_on: Callable[[], bool] = _go_on,
    ) -> None:
        self._epochs = epochs
        self._layout = epochs.layout
        self._rounds = rounds or {}
        self._go_on = go_on
        self._most_keys = MOST_KEYS

    def finish(self) -> bool:
        """Have operators finish one by one; return whether all have finished.

        After one has given its last outputs, its consumers are asked again.
        """
        waiting = [
            name
            for name in self._layout.graph.names
            if name in self._layout.unit_of
            and _may_finish(self._layout, name)
            and name not in self._epochs.ending.finished
        ]
        # In the driver, an operator's last outputs cannot be undone.
        together = not self._epochs.in_driver_too
        answers: dict[str, list[Report]] = {}
        while waiting:
            name, *others = waiting
            if not self._go_on():
                return False
            if name not in answers:
                found = self._ask_all(waiting if together else [name])
                together = found is not None
                if found is None:
                    continue
                answers = found
            reports = answers.pop(name)
            giver = name
            if name in self._rounds:
                giver, reports = self._run_rounds(name, reports)
            given = self._give_last_outputs(name, reports, giver)
            if given is None:
                return False
            if given:
                answers = {
                    other: reports
                    for other, reports in answers.items()
                    if name not in ancestors(self._layout.graph, other)
                }
            waiting = others
        return True

    def ask_state(self, name: str) -> Any:
        """Return the state of an unkeyed operator, as of the last commit."""
        answers = self._ask([name]) or {}
        ((_, (state,)),) = (
            one for told in answers[name] for one in told.finished[name]
        )
        return state

    def _give_last_outputs(
        self, name: str, reports: list[Report], giver: str
    ) -> bool | None:
        """Run an operator's last outputs through the rest; return whether it has any.

        They are those of `giver`: of the operator itself, or of rounds behind it. None if
        it was stopped on the way.
        """
        given = False
        until: bytes | None = None  # of the keys that have reported
        while True:
            bound = min(
                (r.bounds[name] for r in reports if name in r.bounds), default=None
            )
            if until is None and bound is None:
                self._epochs.ending.finishing = None
                return self._inject(name, reports, giver) or given
            if until is not None:
                self._epochs.ending.finishing = name, until.hex()
                given |= self._inject(name, reports, giver)
                if not self._go_on():
                    return None
            until, reports = self._ask_span(name, bound)

    def _ask_span(
        self, name: str, until: bytes | None
    ) -> tuple[bytes | None, list[Report]]:
        """Ask an operator for the last outputs of its next keys, up to a rank if any.

        If they are more than the driver can take, ask how far fewer of them go.
        """
        while True:
            try:
                found = self._ask([name], spans=self._find_spans([name], until))
            except Exception as error:
                if not self._asks_fewer(error):
                    raise
                until = None
            else:
                return until, (found or {})[name]

    def _ask_all(self, names: Sequence[str]) -> dict[str, list[Report]] | None:
        """Ask operators for their last outputs; those with many keys tell how far."""
        while True:
            try:
                return self._ask(names, spans=self._find_spans(names, None))
            except Exception as error:
                if not self._asks_fewer(error):
                    raise

    def _find_spans(
        self, names: Iterable[str], until: bytes | None
    ) -> dict[str, KeySpan]:
        """Return the keys that operators are asked for; those in the driver have all."""
        spans = {}
        for name in names:
            unit = self._layout.unit_of[name]
            if not unit.in_driver:
                replicas = self._epochs.divider.division.channels[unit.number]
                done = self._epochs.ending.finishing
                after = bytes.fromhex(done[1]) if done and done[0] == name else b""
                spans[name] = KeySpan(max(1, self._most_keys // replicas), after, until)
        return spans

    def _asks_fewer(self, error: Exception) -> bool:
        """Ask for the last outputs of fewer keys at a time, if they were too large."""
        epochs = self._epochs
        too_large = epochs.cluster.is_too_large(error)
        if not too_large or self._most_keys == 1 or epochs.in_driver_too:
            return False
        self._most_keys = max(1, self._most_keys // 8)
        epochs.tell(
            f"the last outputs of at most {self._most_keys} keys are taken at a time",
            f"those of more keys are larger than {epochs.cluster.result_limit}",
            "the end of the stream takes more epochs",
        )
        return True

    def _run_rounds(self, name: str, reports: list[Report]) -> tuple[str, list[Report]]:
        """Return reports in which rounds replace the items that an operator holds, and
        the operator whose outputs these are.

        If something fails, tasks of the operator run them, as one thread would.
        """
        items = [
            item
            for report in reports
            for _, held in report.finished[name]
            for item in held
        ]
        if not items:
            return name, []
        self._epochs.cluster.leave()  # the rounds need its slots
        shared = self._rounds[name]
        try:
            outputs = shared.run(items)
        except RefutedError:
            raise
        except Exception:
            if self._epochs.cluster.cancelled:
                raise
            return name, (self._ask([name], held=False) or {})[name]
        return shared.operator, [replace(reports[0], finished={name: [(b"", outputs)]})]

    def _ask(
        self,
        names: Sequence[str],
        *,
        held: bool = True,
        spans: Mapping[str, KeySpan] | None = None,
    ) -> dict[str, list[Report]] | None:
        """Ask operators for their last outputs; return their reports.

        None if one of several has failed: it may lack the outputs of others. Operators
        whose rounds tasks share are asked what they have `held`.
        """
        sharing = self._rounds.keys() & names if held else ()
        told = self._epochs.ask(
            FinishOperators(tuple(names), frozenset(sharing), spans or {})
        )
        try:
            reports = raise_first(told)
        except AnabranchError:
            if len(names) == 1:
                raise
            return None
        if len(names) > 1 and any(report.failures for report in reports):
            return None
        return {
            name: [report for report in reports if name in report.finished]
            for name in names
        }

    def _inject(self, name: str, reports: list[Report], giver: str) -> bool:
        """Run an operator's last outputs through the rest; tell whether there were any.

        They are numbered in order, over all its replicas, and leave from `giver`.
        """
        found = [
            (order, report.channel, outputs)
            for report in reports
            for order, outputs in report.finished[name]
        ]
        failures = any(report.failures for report in reports)
        if not found and not failures:
            return False
        epochs = self._epochs
        placed: dict[int, list[tuple[int, Any]]] = {}
        first = number = epochs.ending.ended
        for _, channel, outputs in sorted(found, key=itemgetter(0)):
            for output in outputs:
                placed.setdefault(channel, []).append((number, output))
                number += 1
        unit = self._layout.unit_of[giver].number
        positions = self._layout.positions
        filled = [
            b"" if place in positions.turns[giver] else 0
            for place in range(1, positions.after[giver])
        ]
        shares = {}
        for channel, some in placed.items():
            columns: list[list[Any]] = [[number for number, _ in some]]
            columns += [[one] * len(some) for one in filled]
            items = [item for _, item in some]
            injected = epochs.runner.pickler.dumps((items, columns))
            shares[unit, channel] = Share(injected=injected)
        epochs.ending.ended = number
        injecting = InjectOutputs(giver, range(first, number), epochs.begun)
        epochs.inject(injecting, shares, reports, after=name)
        return True


def _may_finish(layout: EpochLayout, name: str) -> bool:
    op = layout.graph[name]
    return bool(op.inputs) and kernel_of(op).finishes


WORTH_S = 0.5  # duration of a round above which tasks are tried: items are sent there


class ResidentRounds:
    """The rounds of an `iterate` in resident tasks."""

    def __init__(
        self,
        backend: Backend,
        spec: Spec,
        kind: Iterate,
        plan: Plan,
        *,
        degree: int | None,
    ) -> None:
        """Derive the body's specification from the job's."""
        self._backend = backend
        self._kind = kind
        self._degree = degree
        self._outputs: list[Any] = []
        self._graph = feed_body(kind.body, [], self._outputs)
        self.layout = lay_out(self._graph, plan)
        job = uuid.uuid4().hex
        self._spec = replace(
            spec,
            job=job,
            layout=self.layout,
            resilient=False,  # a failure ends the rounds
            state_directory=str(Path(spec.scratch) / f"state-{job}"),
            outputs={},
            external=None,
            checkpoint=None,
            identity="",
            seal=Seal(),
            verdicts=find_verdicts(self._graph, plan, regions=False),
        )
        self._epochs: Epochs | None = None

    def __call__(self, items: list[Any]) -> list[Any]:
        """Run the rounds on the items of a window; return the result of the last."""
        most = self._degree or self._backend.cores
        run = BodyRunner(self._run, most, WORTH_S, self._prepare)
        try:
            return run_rounds(self._kind, items, run)
        finally:
            if self._epochs is not None:
                self._epochs.close()
                self._epochs = None

    def _prepare(self) -> None:
        """Start the workers if necessary."""
        if self._epochs is not None:
            return
        outputs = EpochOutputs(self._graph, stop, lambda table: table)
        committer = Committer(self._graph, stop, outputs, None)
        degree = self._degree or self._backend.cores
        self._epochs = open_epochs(
            self._backend, self._spec, degree, committer, in_round=True
        )
        self._epochs.divider.exactly = self._degree is not None
        self._epochs.warm_up()

    def _run(self, _: Graph, items: list[Any], degree: int) -> list[Any]:
        """Run a round."""
        epochs = self._epochs
        assert epochs is not None  # noqa: S101 - it was prepared
        self._outputs.clear()
        epochs.begin_anew()
        source, dumps = self._graph.sources[0].name, epochs.runner.pickler.dumps
        pieces: list[Piece] = [
            ShippedPiece(source, first + 1, end - first, dumps(items[first:end]))
            for first, end in cut(0, len(items), degree)
        ]
        if pieces:
            epochs.run({source: pieces})
        EndOfStream(epochs).finish()
        return self._outputs[:]


def share_rounds(
    backend: Backend, spec: Spec, plan: Plan, degree: int | None
) -> dict[str, SharedRounds]:
    """Return how rounds run on all replicas, by the operator that holds their items.

    On several hosts the states of a body would have to move in the middle of a round.
    """
    found: dict[str, SharedRounds] = {}
    several = backend.why_not_one_host() is not None
    for body in plan.bodies:
        kind = spec.layout.graph[body.operator].kind
        assert isinstance(kind, Iterate)  # noqa: S101 - the plan was checked
        if degree != 1 and not spec.layout.unit_of[body.operator].in_driver:
            rounds = ResidentRounds(backend, spec, kind, body.plan, degree=degree)
            if not (several and find_stored(rounds.layout)):
                holder = body.operator
                if kind.gathered:
                    (holder,) = spec.layout.graph.producers(holder)
                found[holder] = SharedRounds(body.operator, rounds)
    return found
