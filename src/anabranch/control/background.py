"""Runs a controller beside its program."""

from __future__ import annotations

import logging
import threading

from anabranch.control.latency.controller import LatencyController
from anabranch.control.throughput.tune import Controller
from anabranch.logs import log, logger_of
from anabranch.metrics.job_metrics import Adaptation

_LOGGER = logger_of("control")


def adapt_in_background(
    controller: Controller | LatencyController,
) -> threading.Thread:
    """Start a thread that adapts a program until it ends.

    A program does not fail because it cannot be tuned: should the controller fail, its
    history says so and the program stays as it is.
    """

    def run() -> None:
        try:
            controller.run()
        except Exception as error:  # noqa: BLE001 - told in the history
            why = f"the controller failed: {error!r}"
            controller.history.note(Adaptation(controller.now_s, "settled", why, ""))
            log(_LOGGER, logging.ERROR, "the controller failed", error=repr(error))

    thread = threading.Thread(target=run, name="controller", daemon=True)
    thread.start()
    return thread
