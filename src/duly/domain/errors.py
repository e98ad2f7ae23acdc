"""What can go wrong, as three kinds a caller can tell apart.

    DulyError
    ├── Invalid       the caller sent something malformed: fix it, sending it again will not help
    ├── NotFound      the caller named something that is not there (or not theirs)
    ├── Conflict      the caller lost to the present state: read it again, then decide
    │   └── LeaseLost     the attempt is no longer this worker's to end
    ├── Forbidden     the caller is known, and may not
    ├── TooLarge      the caller sent more than a limit allows
    ├── TooMany       the caller has used up what it may use: the same call may work later
    └── Unavailable   the world is away (store, network): the same call may work later

Every error carries a stable `code`, registered in `CODES`; `duly help CODE` and the
reference explain it. Losing a race is never an error: it is a return value.
"""

from __future__ import annotations


class DulyError(Exception):
    """Base of every error that a caller may meet; `code` is stable, the text is for people."""

    def __init__(self, code: str, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.hint = hint

    def __str__(self) -> str:
        where = f"{self.field}: " if self.field else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{where}{self.message}{hint}"


class Invalid(DulyError):
    """The request is malformed; nothing was written."""


class NotFound(DulyError):
    """Nothing with that name or id is visible to the caller."""


class Conflict(DulyError):
    """The present state does not allow it; nothing was written."""


class LeaseLost(Conflict):
    """The attempt was given to another worker, or has ended before: what it writes is refused, or rolled back."""

    def __init__(self, message: str) -> None:
        super().__init__("DULY-E241", message, hint="Stop: another worker may have the execution.")

    @classmethod
    def of(cls, execution: str) -> LeaseLost:
        """The usual words for an execution by its id."""
        return cls(f"{execution} is no longer this attempt's: its lease is lost, or it has ended before.")


class Forbidden(DulyError):
    """The caller is known and lacks the right."""


class TooLarge(DulyError):
    """A documented limit is exceeded; nothing was written."""


class TooMany(DulyError):
    """A quota is used up; nothing was written. `retry_after` says in how many seconds it may be worth another try."""

    def __init__(self, code: str, message: str, *, field: str | None = None, hint: str | None = None, retry_after: float = 1.0) -> None:
        super().__init__(code, message, field=field, hint=hint)
        self.retry_after = retry_after


class Unavailable(DulyError):
    """The store (or another part of the world) is away. Nothing was acknowledged; try again."""

    def __init__(self, code: str, message: str, *, field: str | None = None, hint: str | None = None, retry_after: float = 1.0) -> None:
        super().__init__(code, message, field=field, hint=hint)
        self.retry_after = retry_after
