"""Serves the record of a run on this machine, and writes that of a running job.

The server reads the record and nothing else. While a job runs, a thread samples it and
writes its record.

Every user of a machine can reach its loopback address. So the address has a token that
cannot be guessed, and a request without it is refused. The page runs no script but that
of its own file, whatever a record contains.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import socketserver
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import SplitResult, parse_qs, urlsplit

from anabranch.errors import DashboardError
from anabranch.logs import log, logger_of
from anabranch.metrics.job_metrics import EpochTrace
from anabranch.metrics.run_record import (
    MOST_EPOCHS,
    Follower,
    JobSnapshot,
    Story,
    append,
    epoch_line,
    lines_of,
)

HOST = "127.0.0.1"
STATIC = files("anabranch.dashboard") / "static"
POLL_S = 0.1
ANSWER_S = 2.0  # a request is answered by then, even without news
# a page that asked within this time is still open, and will ask again soon
WATCHED_S = 1.0
_NUMBER = re.compile(r"[0-9]{1,18}")
NOWHERE_ELSE = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class Server(socketserver.ThreadingTCPServer):
    """A dashboard at `address`; nothing is answered before `begin`.

    A page polls for news and is answered as soon as there are some, so that it has seen
    the end of a run before the server stops with it.
    """

    allow_reuse_address = True  # a port just released is free
    daemon_threads = False  # `close` waits for the answers in progress

    def __init__(self, port: int = 0) -> None:
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError, TypeError) as error:
            msg = (
                f"the dashboard needs a free port; {HOST}:{port} is not available "
                f"({error}); name another one, or none to have one chosen"
            )
            raise DashboardError(msg) from error
        self._token = secrets.token_urlsafe(16)
        self.address = f"http://{HOST}:{self.server_address[1]}/{self._token}/"
        self._follower: Follower | None = None
        self._other: Path | None = None
        self._stop: Callable[[], object] | None = None
        self._reading = threading.Lock()
        self._asked_s = float("-inf")
        self._told_end = threading.Event()

    def begin(
        self,
        record: Path,
        other: Path | None = None,
        stop: Callable[[], object] | None = None,
    ) -> None:
        """Serve a record from a thread, with another one to compare it with.

        The page has a button that calls `stop`, if it is given.
        """
        self._follower = Follower(record)
        self._other = other
        self._stop = stop
        threading.Thread(
            target=self.serve_forever, args=(POLL_S,), name="dashboard", daemon=True
        ).start()

    def close(self) -> None:
        """Stop, after an open page has received the end of the run."""
        if self._follower is not None:
            if time.monotonic() - self._asked_s < WATCHED_S:
                self._told_end.wait(WATCHED_S)
            self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of pages that were closed and of records that were removed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def page_of(self, path: str) -> str | None:
        """Return the page requested by a path that begins with the token, or None."""
        token, slash, page = path.removeprefix("/").partition("/")
        known = secrets.compare_digest(token.encode(), self._token.encode())
        return page if known and slash else None

    def program(self) -> bytes:
        """Return the description of the program at the start of the run."""
        with self._reading:
            program = dict(self._story().program)
        return _json({**program, "can_stop": self._stop is not None})

    def other(self) -> bytes:
        """Return the run to compare with, its program included; null without one."""
        if self._other is None:
            return _json(None)
        story = Follower(self._other).story()
        return _json({"program": dict(story.program), **story.to_dict()})

    def stop(self) -> bool:
        """Stop the job; tell whether it can be stopped from here."""
        if self._stop is None:
            return False
        threading.Thread(target=self._stop, name="stop", daemon=True).start()
        return True

    def news(self, after: int) -> bytes:
        """Return the state of the run once the record has more than `after` lines."""
        until_s = time.monotonic() + ANSWER_S
        while True:
            with self._reading:
                self._asked_s = time.monotonic()
                story = self._story()
                ended = story.status != "running"
                if story.lines > after or ended or self._asked_s > until_s:
                    if ended:
                        self._told_end.set()
                    return _json(story.to_dict())
            time.sleep(POLL_S)

    def _story(self) -> Story:
        if self._follower is None:
            msg = "there is nothing to serve before begin()"
            raise RuntimeError(msg)
        return self._follower.story()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    timeout = 1.0  # for a browser that connects and sends nothing
    ours: ClassVar = frozenset({HOST, "localhost"})

    def do_POST(self) -> None:
        page = self._find_page()
        if page is None:
            return
        if page[0] == "stop" and self.server.stop():
            self._answer(b"{}", "application/json")
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_GET(self) -> None:
        found = self._find_page()
        if found is None:
            return
        page, asked = found
        match page:
            case "":
                shown = (STATIC / "index.html").read_bytes()
                self._answer(shown, "text/html; charset=utf-8")
            case "page.js":
                script = (STATIC / "page.js").read_bytes()
                self._answer(script, "text/javascript; charset=utf-8")
            case "program":
                self._answer(self.server.program(), "application/json")
            case "other":
                self._answer(self.server.other(), "application/json")
            case "news":
                after = parse_qs(asked.query).get("after", ["-1"])[0]
                known = int(after) if _NUMBER.fullmatch(after) else -1
                self._answer(self.server.news(known), "application/json")
            case _:
                self.send_error(HTTPStatus.NOT_FOUND)

    def _find_page(self) -> tuple[str, SplitResult] | None:
        """Return the requested page, or refuse the request."""
        try:
            host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
            asked = urlsplit(self.path)
        except ValueError as error:  # such as an unclosed bracket
            self.send_error(HTTPStatus.BAD_REQUEST, explain=str(error))
            return None
        if host not in self.ours:
            self.send_error(
                HTTPStatus.FORBIDDEN, "the dashboard is for this machine only"
            )
            return None
        page = self.server.page_of(asked.path)
        if page is None:
            self.send_error(HTTPStatus.FORBIDDEN, "the address lacks its token")
            return None
        return page, asked

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", NOWHERE_ELSE)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Do nothing: the terminal belongs to the program."""


def _json(data: object) -> bytes:
    return json.dumps(data).encode()


_LOGGER = logger_of("dashboard")
PERIOD_S = 1.0


class Live:
    """The dashboard of a job: `address` is where to see it, `record` its file.

    It ends within a second after the job; `close` waits for that.
    """

    def __init__(self, port: int = 0) -> None:
        self._server = Server(port)
        self.address = self._server.address
        opened, name = tempfile.mkstemp(prefix="anabranch-run-", suffix=".jsonl")
        os.close(opened)
        self.record = Path(name)
        self._epochs: deque[EpochTrace] = deque(maxlen=MOST_EPOCHS)
        self._over = threading.Event()
        self._closed = threading.Event()

    def begin(
        self,
        program: Mapping[str, Any],
        look: Callable[[], JobSnapshot],
        stop: Callable[[], object] | None = None,
    ) -> None:
        """Show a job from now on; with `stop` the page can stop it."""
        append(self.record, [{"program": program}])
        self._server.begin(self.record, stop=stop)
        threading.Thread(
            target=self._follow, args=(look,), name="recorder", daemon=True
        ).start()

    def trace(self, epoch: EpochTrace) -> None:
        """Record a finished epoch, with the next sample."""
        self._epochs.append(epoch)

    def close(self) -> None:
        """Write the end of a finished job, and stop serving."""
        self._over.set()
        self._closed.wait()

    def give_up(self) -> None:
        """Stop serving a job that could not start."""
        self._server.close()
        self.record.unlink()

    def _follow(self, look: Callable[[], JobSnapshot]) -> None:
        """Record samples until the job ends. If that fails, the job continues."""
        before: JobSnapshot | None = None
        try:
            while before is None or before.status == "running":
                now = look()
                epochs = [self._epochs.popleft() for _ in range(len(self._epochs))]
                append(self.record, [*map(epoch_line, epochs), *lines_of(now, before)])
                before = now
                if now.status == "running":
                    self._over.wait(PERIOD_S)
        except Exception as error:  # noqa: BLE001 - the job goes on
            log(_LOGGER, logging.ERROR, "the dashboard ends early", error=repr(error))
        finally:
            self._server.close()
            self._closed.set()
