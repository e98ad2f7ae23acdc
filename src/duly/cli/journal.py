"""The log of a running process on standard error: lines for people, or JSON for machines. Never a secret."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from datetime import UTC, datetime

from duly.config import Settings

# Keys made by Duly, and the password in a store's address.
_SECRETS = re.compile(r"duly_[0-9a-f]{16,}|(?<=://)([^:/@\s]+):[^@/\s]+(?=@)")
_MARKS = {logging.WARNING: "! ", logging.ERROR: "✗ ", logging.CRITICAL: "✗ "}
# What these say at INFO is said better by Duly itself.
_TALKATIVE = ("asyncio", "uvicorn")


def set_up(settings: Settings) -> None:
    """Log to standard error, as the settings ask."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.log_format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    root.setLevel(max(level, logging.INFO))
    logging.getLogger("duly").setLevel(level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


class TextLines(logging.Formatter):
    """`12:00:01 worker  message`, with a mark before what is worth a look."""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        text = f"{at} {_part(record.name):<10} {_MARKS.get(record.levelno, '')}{record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return without_secrets(text)


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return without_secrets(json.dumps(line, ensure_ascii=False))


def without_secrets(text: str) -> str:
    """The text with keys and passwords made unreadable."""
    return _SECRETS.sub(lambda found: f"{found.group(1)}:…" if found.group(1) else "duly_…", text)


def _part(logger: str) -> str:
    """The part of Duly that speaks: `worker` of `duly.roles.worker`."""
    return logger.rsplit(".", 1)[-1]
