"""The rights of the Redis user as the handbook has them: tests give exactly these."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "redis.md"


def rights() -> list[str]:
    """The words of its `ACL SETUSER duly` line, without the password."""
    found = re.search(r"ACL SETUSER duly ([^`]*?)\n```", PAGE.read_text(encoding="utf-8"))
    assert found is not None
    words = found[1].replace("\\\n", " ").split()
    return [word for word in words if not word.startswith(">")]
