"""The rounds of an `iterate` at the end of a stream, on all replicas.

The body is a program of its own. A round is an epoch of it with all items, followed by
its end; then its states are reset. Input and output pass through the driver, like all
last outputs of operators. Nothing is committed until the last round is over: a job
killed before that continues with the items that the operator holds.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from anabranch.epochs.checkpoint.seal import Seal
from anabranch.epochs.cluster import Backend
from anabranch.epochs.commit import Committer
from anabranch.epochs.end_of_stream import EndOfStream, SharedRounds
from anabranch.epochs.intake.intake import Piece, ShippedPiece, cut
from anabranch.epochs.layout import lay_out
from anabranch.epochs.loop import Epochs, open_epochs
from anabranch.epochs.outputs import EpochOutputs
from anabranch.epochs.task import Spec
from anabranch.epochs.unit.states import find_stored
from anabranch.graph.graph import Graph
from anabranch.operators.iterate import Iterate, run_rounds
from anabranch.plan.plan import Plan
from anabranch.runtime.body import BodyRunner, feed_body
from anabranch.runtime.failures import stop
from anabranch.runtime.verify.verifier import find_verdicts

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
