"""The log of a running process on standard error: lines for people, or JSON for machines. Never a secret."""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime

from duly.config import Settings
from duly.domain.plain import indented, visible
from duly.domain.redaction import Veil, without_credentials
from duly.ports.current import about_attempt, current_attempt, request_id

_MARKS = {logging.WARNING: "! ", logging.ERROR: "✗ ", logging.CRITICAL: "✗ "}
# What these say at INFO is said better by Duly itself.
_TALKATIVE = ("asyncio", "uvicorn")


def set_up(settings: Settings) -> None:
    """Log to standard error, as the settings ask."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(settings.veil) if settings.log_format == "json" else TextLines(settings.veil))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    root.setLevel(max(level, logging.INFO))
    logging.getLogger("duly").setLevel(level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


class Veiled(logging.Formatter):
    """A line in which nothing stands that the veil knows, or that looks like a credential."""

    def __init__(self, veil: Veil) -> None:
        super().__init__()
        self._veil = veil

    def without_secrets(self, text: str) -> str:
        """The text with keys, passwords and other secrets made unreadable."""
        return without_credentials(self._veil.over(text))


class TextLines(Veiled):
    """`12:00:01 worker  message`, with a mark before what is worth a look."""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        # Whatever others have put into a message, it begins no line of its own.
        text = f"{at} {_part(record.name):<10} {_MARKS.get(record.levelno, '')}{visible(record.getMessage())}"
        if record.exc_info:
            text += "\n    " + indented(self.formatException(record.exc_info))
        return self.without_secrets(text)


class JsonLines(Veiled):
    """One JSON object per line, with the request, the execution and the attempt that it is about, where there are any."""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.without_secrets(record.getMessage()),
        }
        line |= _about(record)
        if record.exc_info:
            line["exception"] = self.without_secrets(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


def _about(record: logging.LogRecord) -> dict[str, object]:
    """What it is about: as the record says itself; else the request that is answered, and the attempt whose handler says it."""
    attempt = None if record.name.partition(".")[0] == "duly" else current_attempt()
    found = {} if attempt is None or attempt.over else about_attempt(attempt)
    found |= {name: record.__dict__[name] for name in ("execution_id", "attempt", "job") if name in record.__dict__}
    about = {"executionId": found.get("execution_id"), "attempt": found.get("attempt"), "job": found.get("job")}
    wire = about | {"requestId": request_id.get()}
    return {name: value for name, value in wire.items() if value is not None}


def _part(logger: str) -> str:
    """The part of Duly that speaks: `worker` of `duly.roles.worker`."""
    return logger.rsplit(".", 1)[-1]
