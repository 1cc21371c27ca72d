"""Logging of the library: one logger per room, each record an event with fields.

`anabranch.control` is the logger of the room `control`, and so on. A record's message
is for people. Its attributes `event` and `fields` have the same as data, which
`JsonFormatter` writes as one line of JSON. Nothing is shown unless the program
configures `logging`.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

ROOT = "anabranch"
logging.getLogger(ROOT).addHandler(logging.NullHandler())


def logger_of(room: str) -> logging.Logger:
    """Return the logger of a room.

    >>> logger_of("control").name
    'anabranch.control'
    """
    return logging.getLogger(f"{ROOT}.{room}")


def log(logger: logging.Logger, level: int, event: str, **fields: Any) -> None:
    """Log an event with its fields.

    >>> log(logger_of("control"), logging.DEBUG, "settled", replicas=2)
    """
    if logger.isEnabledFor(level):
        told = ", ".join(f"{name}={_short(value)}" for name, value in fields.items())
        text = f"{event}: {told}" if told else event
        data = {"event": event, "fields": fields}
        logger.log(level, "%s", text, extra=data, stacklevel=2)


def announce(logger: logging.Logger, text: str, **fields: Any) -> None:
    """Log what the user must see; write it to stderr if no handler would show it.

    This is the only place where the library writes to the terminal.
    """
    if is_shown(logger, logging.INFO):
        log(logger, logging.INFO, text, **fields)
    else:
        sys.stderr.write(f"{text}\n")


def is_shown(logger: logging.Logger | None, level: int) -> bool:
    """Tell whether some handler shows records of a level."""
    if logger is None or not logger.isEnabledFor(level):
        return False
    while logger is not None:
        for handler in logger.handlers:
            if not isinstance(handler, logging.NullHandler) and level >= handler.level:
                return True
        logger = logger.parent if logger.propagate else None
    return False


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON, with its fields.

    >>> made = {"msg": "settled", "event": "settled", "fields": {"replicas": 2}, "created": 0}
    >>> made |= {"name": "anabranch.control", "levelname": "INFO", "levelno": 20}
    >>> JsonFormatter().format(logging.makeLogRecord(made))
    '{"time": 0, "level": "INFO", "logger": "anabranch.control", "event": "settled", "replicas": 2}'
    """

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        line: dict[str, Any] = {
            "time": record.created,
            "level": record.levelname,
            "logger": record.name,
            "event": getattr(record, "event", record.getMessage()),
        }
        line |= {name: value for name, value in fields.items() if name not in line}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
