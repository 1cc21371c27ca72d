"""A program that runs epoch by epoch, on whatever engine is below.

An epoch takes some rows of each source. After the last one the operators finish one by
one, producers first, each in an epoch of its own. The engine is a `Backend`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch.connectors.reader import Silence
from anabranch.epochs.checkpoint.directory import Checkpoint
from anabranch.epochs.checkpoint.program import program_of, refuse_hidden_state
from anabranch.epochs.checkpoint.record import Record
from anabranch.epochs.checkpoint.seal import Seal
from anabranch.epochs.cluster import Backend
from anabranch.epochs.commit import Committer, find_last_epochs, find_reached
from anabranch.epochs.control import EpochActuator, EpochLatencyActuator
from anabranch.epochs.division import OF_JOBS, StageCosts
from anabranch.epochs.end_of_stream import EndOfStream, SharedRounds, share_rounds
from anabranch.epochs.epoch_size import Admission, ResultLimit
from anabranch.epochs.faults import reach
from anabranch.epochs.intake.intake import THREAD, Intake, Taken, Taking
from anabranch.epochs.intake.open_intake import open_intake, refuse_changed_files
from anabranch.epochs.layout import lay_out, why_not_cut
from anabranch.epochs.log import (
    Arrivals,
    EpochLog,
    OperatorMeasures,
    births_in,
    tasks_of,
)
from anabranch.epochs.loop import Epochs, open_epochs
from anabranch.epochs.outputs import Deliveries, EpochOutputs
from anabranch.epochs.state.restore import local_directory
from anabranch.epochs.state.states import BUCKETS
from anabranch.epochs.task import ExternalSinks, Spec
from anabranch.epochs.transport.module_contents import (
    Variable,
    refuse_differences,
    show_variables,
)
from anabranch.epochs.transport.modules import send_importing_by_value
from anabranch.epochs.unit.states import refuse_states_on_several_hosts
from anabranch.errors import AnabranchError, RefutedError
from anabranch.graph.graph import Graph
from anabranch.metrics.job_metrics import Metrics
from anabranch.metrics.latency import count_by_ms, recent_summary, summary
from anabranch.operators.clock import has_idle
from anabranch.operators.lifted import Lifted, restore
from anabranch.plan.plan import Plan, Reason
from anabranch.runtime.ambient import capture_settings
from anabranch.runtime.failures import stop
from anabranch.runtime.thread import Options, Places, RunningThread, operators_of
from anabranch.runtime.verify.verifier import find_verdicts

IDLE_S = 0.02
LOOK_S = 0.002  # between two checks whether an epoch is over
# Between the starts of two epochs that were not full because rows have not arrived:
# each has its parts and its record. Under a latency goal it is short.
PACE_S, QUICK_PACE_S = 0.05, 0.005
CANCELLED_S = 15.0  # until the engine has released cancelled tasks

# The positions of the driver's threads, by the code they run.
PLACES: Places = {
    EpochOutputs._call.__code__: lambda frame: frame.f_locals["op"].name,  # noqa: SLF001
    Deliveries.deliver.__code__: lambda frame: frame.f_locals["op"].name,
    Taking._take_from.__code__: lambda frame: frame.f_locals["name"],  # noqa: SLF001
}


@dataclass(frozen=True)
class NextEpoch:
    """The rows of the next epoch, or of one begun; `at_s` is when they were taken."""

    taken: Taken
    number: int  # in the log
    asked: int
    degree: int
    at_s: float


class EpochRun(RunningThread):
    """A program that runs epoch by epoch on a backend."""

    def __init__(
        self, backend: Backend, graph: Graph, plan: Plan, options: Options
    ) -> None:
        super().__init__(f"anabranch-{backend.name}", graph, options)
        self._backend = backend
        self._options = options
        self._settings = capture_settings()  # here: this is the thread of the program
        send_importing_by_value()
        self._regions = {region.name: region.operators[0] for region in plan.regions}
        self._effects = frozenset(op.name for op in plan.operators if op.effects)
        resilient = options.on_error is not stop
        self._layout = lay_out(graph, plan, resilient=resilient)
        self._graph = graph = self._layout.graph  # with the states that are lifted
        self._plan = plan
        self._refuted: dict[str, Reason] = {}
        self._followers: list[EpochActuator | EpochLatencyActuator] = []
        self._checkpoint = self._open_checkpoint(plan)
        try:
            self._outputs = self._sinks()
        except BaseException:
            self._close()
            raise
        self._committer = Committer(
            graph, options.on_error, self._outputs, self._checkpoint
        )
        self._degree = options.degree
        self._cores: int | None = None  # known once the backend is open
        self._cuts: frozenset[str] = frozenset()
        self._sparing = False  # no replicas if there is little work
        self._admission = Admission(options.epoch_items)
        self._epoch_log = EpochLog(options.on_epoch)
        self._measures = OperatorMeasures()
        self._web_address: str | None = None  # of the engine's pages
        self._epoch_rows = 0  # of the one that runs
        self._pace_s = PACE_S
        self._overlaps = True  # epochs may overlap
        self._arrivals = Arrivals()
        self._silence: Silence | None = None
        self._backlog: int | None = None
        self._warm_s = 0.0
        self._scratch: Path | None = None
        self._epochs: Epochs | None = None
        self._rounds: Mapping[
            str, SharedRounds
        ] = {}  # by the operator that holds items
        self._warming = False  # workers are started; no user code runs
        self._wanted: Sequence[Variable] = ()  # whose values workers do not have

    def _open_checkpoint(self, plan: Plan) -> Checkpoint | None:
        if self._options.checkpoint is None:
            return None
        refuse_hidden_state(self._layout, plan)
        program = program_of(self._layout, chains=plan.chains)
        return Checkpoint(self._options.checkpoint, program)

    def _sinks(self) -> EpochOutputs:
        if self._checkpoint is None:
            return EpochOutputs(
                self._graph, self._options.on_error, self._backend.make_frame
            )
        return EpochOutputs(
            self._graph,
            self._options.on_error,
            self._backend.make_frame,
            self._checkpoint.identity,
            new=self._checkpoint.last is None,
            possible=find_last_epochs(self._graph, self._checkpoint),
        )

    def _close(self) -> None:
        if self._checkpoint is not None:
            self._checkpoint.close()

    def _run(self) -> bool:
        scratch = self._scratch = Path(tempfile.mkdtemp(prefix="anabranch-"))
        complete = False
        try:
            record = self._committer.resume()
            complete = record is not None and record.complete
            if complete:  # its input must be what it was, as for a job that goes on
                for name, position in self._committer.positions.items():
                    refuse_changed_files(self._graph[name], position)
            else:
                complete = self._go_on(scratch, record)
            self._round_off(complete=complete)
        except BaseException as error:
            if not self._was_cancelled(error):
                self._outputs.abort()
                described = self._backend.describe_error(error)
                if described is not None:
                    raise described from error
                raise
            self._round_off(complete=False)
            return False
        finally:
            self._let_workers_go()
            self._clear_hosts(scratch)
            self._backend.close()
            shutil.rmtree(scratch, ignore_errors=True)
            try:
                self._outputs.close()
            finally:
                self._close()
        return complete

    def _let_workers_go(self) -> None:
        if self._epochs is not None:
            self._epochs.close()

    def _clear_hosts(self, scratch: Path) -> None:
        """Clear other hosts; the next run restores what it needs."""
        if self._epochs is not None:
            checkpoint = self._checkpoint
            states = None if checkpoint is None else checkpoint.states_name
            self._backend.clear_hosts(str(scratch), states)

    def _round_off(self, *, complete: bool) -> None:
        """Publish the outputs, unless the job was stopped before its end."""
        if self._ended.is_set():  # it was abandoned, and another thread has done this
            return
        if complete or (self._graph.live and self._checkpoint is None):
            self._outputs.complete()
            self._forget_states()
        elif self._checkpoint is None:
            self._outputs.abort()

    def _was_cancelled(self, error: BaseException) -> bool:
        """Tell whether an epoch ended because the job is stopping, not by its own
        fault.
        """
        stopping = self._stopping.is_set() and not self._ended.is_set()
        return stopping and not isinstance(error, AnabranchError)

    def _go_on(self, scratch: Path, record: Record | None) -> bool:
        """Run all remaining epochs; tell whether the end was reached."""
        backend = self._backend
        backend.open(self._layout, scratch)
        if self._stopping.is_set():
            return False
        backend.check_workers()
        checkpoint = self._checkpoint
        self._web_address = backend.web_address
        self._cores = backend.cores
        self._admission.limit = ResultLimit(backend.find_result_limit())
        epochs = self._open_epochs(scratch, record)
        if checkpoint is None:
            refuse_states_on_several_hosts(self._layout, backend.why_not_one_host())
        self._warm_s = self.elapsed_s
        directory = None if checkpoint is None else checkpoint.directory
        pickler, on_error = epochs.runner.pickler, self._committer.note_unreadable
        intakes: dict[str, Intake] = {}
        try:
            for op in self._graph.sources:
                intakes[op.name] = open_intake(
                    op,
                    pickler,
                    on_error,
                    backend,
                    scratch=scratch,
                    checkpoint=directory,
                    here=op.name in self._effects,
                )
            for name, position in self._committer.positions.items():
                intakes[name].seek(position)
            with contextlib.closing(Taking(intakes, backend.join)) as taking:
                return self._all_epochs(epochs, intakes, taking)
        finally:
            for intake in intakes.values():
                intake.close()

    def _open_epochs(self, scratch: Path, record: Record | None) -> Epochs:
        """Return the epochs of the job, with workers whose modules are as here."""
        epochs = self._begin_epochs(scratch, record)
        self._wanted = self._warm_up(epochs)
        if self._wanted:
            epochs.close()
            epochs = self._begin_epochs(scratch, record)
            refuse_differences(self._warm_up(epochs))
            self._note(
                f"send {show_variables(self._wanted)} to the workers",
                "they have another value if they import the module",
                "nothing was read before",
            )
        return epochs

    def _begin_epochs(self, scratch: Path, record: Record | None) -> Epochs:
        backend, checkpoint = self._backend, self._checkpoint
        spec = self._make_spec(scratch)
        self._measures.states = spec.states
        epochs = self._epochs = open_epochs(
            backend,
            spec,
            self._options.degree or backend.cores,
            self._committer,
            buckets=self._options.buckets or BUCKETS,
        )
        epochs.divider.exactly = self._options.degree is not None
        epochs.tell = self._note
        self._rounds = share_rounds(backend, spec, self._plan, self._options.degree)
        epochs.resume(record, 0 if checkpoint is None else checkpoint.first_turn)
        return epochs

    def _warm_up(self, epochs: Epochs) -> tuple[Variable, ...]:
        """Start the workers; a stop meanwhile need not wait for anything."""
        self._warming = True
        try:
            return () if self._stopping.is_set() else epochs.warm_up()
        finally:
            self._warming = False

    def _make_spec(self, scratch: Path) -> Spec:
        """Return the specification of the job for workers, with the present layout."""
        checkpoint = self._checkpoint
        job = uuid.uuid4().hex
        return Spec(
            external=self._hand_over_sinks(scratch),
            job=job,
            layout=self._layout,
            resilient=self._options.on_error is not stop,
            scratch=str(scratch),
            state_directory=str(scratch / f"state-{job}"),
            outputs=self._outputs.directories,
            settings=self._settings,
            item_timeout_s=self._options.item_timeout_s,
            checkpoint=None if checkpoint is None else str(checkpoint.directory),
            identity="" if checkpoint is None else checkpoint.states_name,
            seal=Seal() if checkpoint is None else checkpoint.seal,
            type_numbers=None if checkpoint is None else checkpoint.type_numbers,
            verify=self._options.verify,
            verdicts=find_verdicts(self._graph, self._plan, regions=False),
            wanted=tuple(self._wanted),
        )

    def _hand_over_sinks(self, scratch: Path) -> ExternalSinks | None:
        """Let workers write external sinks, if all of them can see the items' files.

        Without a checkpoint that is so on one machine. Parts need no such files.
        """
        if all(unit.in_driver for unit in self._layout.units):
            return self._outputs.hand_over(None)
        if self._checkpoint is not None:
            return self._outputs.hand_over(str(self._checkpoint.deliveries))
        if not self._backend.is_on_this_machine:
            return self._outputs.hand_over(None)
        directory = scratch / "deliveries"
        directory.mkdir(exist_ok=True)
        return self._outputs.hand_over(str(directory))

    def _replan(self, epochs: Epochs, error: RefutedError) -> Epochs:
        """Return to the last commit, with refuted operators run by one thread.

        If that is not possible, the error stands.
        """
        found = epochs.refuted
        replan, scratch = self._options.replan, self._scratch
        if not found or replan is None or scratch is None:
            raise error
        why = epochs.why_not_again
        if self._checkpoint is not None:
            why = "what it remembers would not be in the checkpoint"
        if why is not None:
            error.add_note(
                f"the job cannot continue with the operator sequential: {why}"
            )
            raise error
        for one in found:
            sharing = (one.operator, *epochs.find_sharing(one))
            self._refuted |= dict.fromkeys(sharing, one.reason)
        plan = replan(self._refuted)
        sources = [op.name for op in self._graph.sources]
        if plan.one_thread or not self._refuted.keys().isdisjoint(sources):
            raise error
        self._plan = plan
        self._layout = lay_out(
            self._graph, plan, resilient=self._options.on_error is not stop
        )
        self._regions = {region.name: region.operators[0] for region in plan.regions}
        self._cuts = frozenset(
            name for name in self._cuts if why_not_cut(self._layout, name) is None
        )
        for follower in self._followers:
            follower.layout = self._layout
        epochs.close()
        made = self._epochs = open_epochs(
            self._backend,
            self._make_spec(scratch),
            epochs.divider.degree,
            self._committer,
        )
        made.take_over(epochs)
        made.warm_up()
        number = epochs.stamp.epoch + 1
        for one in found:
            self._note(
                f"run {one.operator} sequentially, from epoch {number} on",
                str(one),
                f"nothing of epoch {number} was published; it runs again",
            )
        return made

    def _run_epoch(self, epochs: Epochs, epoch: NextEpoch) -> Epochs:
        """Run an epoch, again if necessary; return the runner of the next one."""
        usual = epoch.taken.asked == epoch.asked
        while True:
            try:
                with self._epoch_log.epoch(epochs, epoch.number, usual=usual):
                    epochs.run(epoch.taken.pieces)
            except RefutedError as error:
                epochs = self._replan(epochs, error)
                usual = False
            else:
                return epochs

    def _take_epochs(
        self, waiting: deque[NextEpoch], epochs: Epochs, taking: Taking
    ) -> None:
        """Take the rows of the next epoch, and of more that can begin already.

        The size of such an epoch is no guess, and nobody waits for its rows: those of
        earlier epochs are being processed.
        """
        while not waiting or (
            epochs.in_flight == len(waiting) < epochs.divider.depth
            and self._is_there(taking, epochs)
        ):
            number = self._epoch_log.begin()
            divider = epochs.divider
            divider.degree = self._degree or divider.degree
            divider.cuts = self._cuts
            divider.sparing = self._sparing
            epochs.profiling = self._epoch_log.profiling
            look, asked = epochs.look_items, self._admission.items
            if look is not None:
                asked = min(asked, look)
            taken = self._take(taking, asked, divider.degree)
            if not taken.pieces:
                return
            waiting.append(
                NextEpoch(taken, number, asked, divider.degree, time.perf_counter())
            )
            if self._admission.is_settled and look is None:
                taking.prepare(asked, divider.degree)
                if taking.is_early and self._overlaps:
                    epochs.begin(taken.pieces)

    def _is_there(self, taking: Taking, epochs: Epochs) -> bool:
        """Wait for rows, but no longer than the current epoch takes."""
        while not taking.is_done(LOOK_S):
            if epochs.is_done() or self._stopping.is_set():
                return False
        return taking.has_rows

    def _run_next(
        self, epoch: NextEpoch, epochs: Epochs, intakes: Mapping[str, Intake]
    ) -> Epochs:
        """Run an epoch; return the runner of the following one."""
        taken, asked = epoch.taken, epoch.asked
        began_s = time.monotonic()
        self._committer.positions = dict(taken.positions)
        reach("taken", epochs.stamp.epoch + 1)
        self._backlog = taken.waiting
        self._arrivals.note_intake(intakes, taken.pieces, epoch.degree, epoch.at_s)
        rows = self._epoch_rows = taken.rows
        if self._silence is not None:
            for name, pieces in taken.pieces.items():
                if any(piece.rows for piece in pieces):
                    self._silence.note(name)
            epochs.idle = self._silence.find_idle_ports()
        epochs = self._run_epoch(epochs, epoch)
        self._epoch_rows = 0
        reached = find_reached(epochs.reports)
        for name in taken.pieces:
            intakes[name].advance(reached.get(name, {}))
            read = sum(report.read.get(name, 0) for report in epochs.reports)
            intakes[name].note_items(read)
            for report in epochs.reports:
                if name in report.surveyed:
                    intakes[name].learn(report.surveyed[name])
        self._measures.note(epochs.reports, epochs.channels)
        tasks = tasks_of(self._layout, epochs.reports)
        self._arrivals.note_delivery(tasks, births_in(epochs.reports))
        self._note_results(rows, epochs)
        self._admission.note(rows, self._epoch_log.seconds[-1], tasks.longest_s)
        if rows < asked and self._arrivals.live:
            left_s = began_s + self._pace_s - time.monotonic()
            self._stopping.wait(max(0.0, left_s))
        return epochs

    def _all_epochs(
        self, epochs: Epochs, intakes: dict[str, Intake], taking: Taking
    ) -> bool:
        if has_idle(self._graph):
            live = (name for name, intake in intakes.items() if intake.live)
            self._silence = Silence(self._graph, live)
        self._committer.not_read.clear()  # the first run that met them has reported them
        waiting: deque[NextEpoch] = deque()
        while not self._stopping.is_set() and not epochs.ending.has_begun:
            self._take_epochs(waiting, epochs, taking)
            if not waiting:
                if all(intake.ended for intake in intakes.values()):
                    break
                # For rows that have not arrived yet.
                self._stopping.wait(min(IDLE_S, self._pace_s))
                continue
            epoch = waiting.popleft()
            try:
                epochs = self._run_next(epoch, epochs, intakes)
            except Exception as error:
                if not (taking.is_early and self._takes_fewer(error, epoch, epochs)):
                    raise
                waiting.clear()
                taking.go_back(epoch.taken)
        self._committer.report_unreadable()
        end = EndOfStream(epochs, self._rounds, self._goes_on)
        complete = self._goes_on() and end.finish()
        self._restore_states(end)
        if not complete:
            return False
        self._committer.finish(epochs.stamp)
        return True

    def _take(self, taking: Taking, rows: int, degree: int) -> Taken:
        """Take the rows of the next epoch.

        If the source fails instead, the rows it skipped before are reported; with a
        checkpoint the next run meets them again.
        """
        try:
            return taking.take(rows, degree)
        except AnabranchError:
            if self._checkpoint is None:
                self._committer.report_unreadable()
            raise

    def _note_results(self, rows: int, epochs: Epochs) -> None:
        """Limit epochs if the driver could not take their results."""
        limit = self._admission.limit
        if self._admission.note_results(rows, epochs.result_bytes):
            self._note(
                f"epochs take at most {limit.items} items",
                f"an item brings {epochs.result_bytes / rows:.0f} bytes to the driver, and "
                f"{epochs.cluster.result_limit} is {limit.most_bytes:.0f} bytes",
                "an epoch of more could fail",
            )

    def _takes_fewer(self, error: Exception, epoch: NextEpoch, epochs: Epochs) -> bool:
        """Have epochs take fewer items if the results of one were too large.

        Not if units ran in the driver: what they have done cannot be taken back.
        """
        asked = min(epoch.asked, epoch.taken.rows)
        if not epochs.cluster.is_too_large(error) or asked < 2 or epochs.in_driver_too:  # noqa: PLR2004 - one cannot be divided
            return False
        self._admission.refuse(asked)
        limit = self._admission.limit
        self._note(
            f"epochs take at most {limit.items} items",
            f"the results of {epoch.taken.rows} were larger than {epochs.cluster.result_limit}, "
            f"{limit.most_bytes:.0f} bytes",
            "nothing of that epoch was published; its items are taken again",
        )
        return True

    def _restore_states(self, end: EndOfStream) -> None:
        """Restore lifted states to the user's variables, as of the last commit."""
        if not self._backend.cancelled:
            for op in self._graph:
                if isinstance(op.kind, Lifted):
                    restore(op.kind, end.ask_state(op.name))

    def _goes_on(self) -> bool:
        return not self._stopping.is_set()

    def _ask_to_stop(self) -> None:
        super()._ask_to_stop()
        self._backend.ask()
        if self._warming:
            self._backend.cancel()

    def _busy_operators(self) -> list[str]:
        return self._busy_in_driver() or self._backend.find_busy()

    def _busy_in_driver(self) -> list[str]:
        others = [t for t in threading.enumerate() if t.name == THREAD]
        return operators_of([self._thread, *others], PLACES)

    def _cancel(self) -> bool:
        if not self._backend.cancel():
            return False
        return not self._busy_in_driver() and self._ended.wait(CANCELLED_S)

    def _abandon(self) -> None:
        """Release everything while an operator in the driver has not returned.

        The checkpoint stays locked: should the operator return, nothing is committed,
        but no other run of this process may begin before.
        """
        self._outputs.abandoned = True
        self._backend.abandon()
        self._let_workers_go()
        self._round_off(complete=False)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _forget_states(self) -> None:
        """Remove this host's copy of the states; nothing will continue from it."""
        if self._checkpoint is not None:
            directory = local_directory(self._checkpoint.states_name)
            shutil.rmtree(directory, ignore_errors=True)

    def metrics(self) -> Metrics:
        read = sum(self._committer.read.values())
        elapsed_s = self.elapsed_s
        epoch_s = tuple(self._epoch_log.seconds)
        return Metrics(
            self._backend.name,
            self.status,
            elapsed_s,
            read=dict(self._committer.read),
            delivered=dict(self._outputs.delivered),
            items_per_s=read / max(elapsed_s - self._warm_s, 1e-9),
            latency=summary([self._arrivals.latencies]),
            latency_from_reading=summary([self._arrivals.from_reading]),
            recent_latency=recent_summary([self._arrivals.latencies]),
            recent_latency_from_reading=recent_summary([self._arrivals.from_reading]),
            latency_counts=count_by_ms([self._arrivals.latencies]),
            degrees={
                region: self._measures.channels.get(first, self.degree)
                for region, first in self._regions.items()
            },
            epochs=self._epoch_log.ran,
            epoch_s=epoch_s,
            epoch_items=tuple(self._epoch_log.items),
            start_s=self._warm_s,
            backlog=self._arrivals.count_backlog()
            if self._arrivals.live
            else self._backlog,
            cuts=tuple(sorted(self._cuts)),
            epoch_rows=self._epoch_rows,
            epoch_done=self._backend.count_done() if self._epoch_rows else {},
            in_columns=self._measures.find_shares_in_columns(),
            buckets_opened=self._measures.buckets_opened,
            buckets_restored=self._measures.buckets_restored,
            load=self._measures.measure_loads(self._layout),
            hot_keys={} if self._epochs is None else self._epochs.find_hot_keys(),
            spark_ui=self._web_address,
        )

    def actuator(self) -> EpochActuator:
        """Return the throughput controller's view and controls."""
        self._sparing = True
        made = EpochActuator(self, self._layout, self._epoch_log)
        self._followers.append(made)
        return made

    @property
    def cores(self) -> int:
        """The number of task slots: those of the backend, once it is open."""
        return self._cores or os.cpu_count() or 1

    @property
    def degree(self) -> int:
        """The degree in the next epochs."""
        return self._degree or self.cores

    @property
    def costs(self) -> StageCosts:
        """The cost of stages here, as far as known."""
        return OF_JOBS if self._epochs is None else self._epochs.divider.costs

    def latency_actuator(self) -> EpochLatencyActuator:
        """Return the latency controller's view and controls."""
        self._pace_s, self._overlaps = QUICK_PACE_S, False
        made = EpochLatencyActuator(self, self._layout, self._arrivals)
        self._followers.append(made)
        return made

    @property
    def epoch_items(self) -> int:
        """The number of items an epoch takes of each source; fixed once set."""
        return self._admission.wanted

    @epoch_items.setter
    def epoch_items(self, items: int) -> None:
        self._admission.told = items

    def set_degree(self, degree: int) -> None:
        """Change the degree, from the next epoch on."""
        self._degree = degree

    def set_cuts(self, operators: Collection[str]) -> None:
        """Cut elements before these operators, from the next epoch on.

        A cut lets the two parts of an element run at the same time; see `cuts`.
        """
        for name in operators:
            if (why_not := why_not_cut(self._layout, name)) is not None:
                msg = f"there can be no cut before {name!r}: {why_not}"
                raise ValueError(msg)
        self._cuts = frozenset(operators)
