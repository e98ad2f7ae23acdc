"""A problem as a page: without a session it says how to log in. It loads nothing, because nothing is given out without a session."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib import resources

from duly.dashboard.rendering import TEMPLATES
from duly.wire.problems import Problem

# The one style that stands in its page; the policy names it by its hash.
STYLE = resources.files("duly.dashboard").joinpath("templates/components/bare.css").read_text("utf-8")
_HASH = b64encode(sha256(STYLE.encode()).digest())
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'sha256-%b'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'" % _HASH,
    ),
    (b"x-frame-options", b"DENY"),
    (b"x-robots-tag", b"noindex"),
]
UNKNOWN = 401


def refusal(problem: Problem, prefix: str) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The page of a problem, and its headers."""
    template = "pages/login.html" if problem.status == UNKNOWN else "pages/problem.html"
    return TEMPLATES.get_template(template).render(problem=problem, root=prefix, style=STYLE).encode(), HEADERS
