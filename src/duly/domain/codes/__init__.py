"""The registry of error codes: what each means and what to do. `duly help CODE` and the reference print it; a test holds them together."""

from __future__ import annotations

from duly.domain.codes.code import Code as Code
from duly.domain.codes.malformed import MALFORMED
from duly.domain.codes.rest import REST
from duly.domain.codes.standing import STANDING

CODES: dict[str, Code] = {code.code: code for code in (*MALFORMED, *STANDING, *REST)}
