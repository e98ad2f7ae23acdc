"""What jobs, handlers and pools may be called."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}\Z")
POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
