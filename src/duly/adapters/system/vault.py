"""The worker's own secrets: variables that the operator lists, and files in a directory."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from duly.domain.redaction import Veil
from duly.domain.secrets import Reference
from duly.ports.endings import Failure

LARGEST_FILE = 64 << 10
# The host is short of something: the same file may be read later.
SHORTAGES = frozenset({errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT})


class Vault:
    """Reads what may be read, and tells the veil, so that no log of this process shows it."""

    def __init__(self, variables: Mapping[str, str], directory: str | None, veil: Veil) -> None:
        self._variables = variables
        self._directory = directory
        self._veil = veil

    async def read(self, reference: Reference) -> str:
        if reference.kind == "env":
            value = self._variables.get(reference.name)
            if value is None:
                _refuse(reference, "it is not set in this worker's environment, or DULY_SECRETS_ENV does not list it")
        else:
            if self._directory is None:
                _refuse(reference, "this worker has no directory of secrets: the operator names one in DULY_SECRETS_DIR")
            # A file may lie on a disk that is far away. Read every time, so that a new value counts at once.
            value = await asyncio.to_thread(_file_text, reference, self._directory)
        self.hide([value])
        return value

    def hide(self, values: Iterable[str]) -> None:
        self._veil.learn(values)


def _file_text(reference: Reference, directory: str) -> str:
    """The file's text without a newline at its end. What it links to must lie in the directory as well."""
    root = Path(os.path.realpath(directory))
    path = Path(os.path.realpath(root / reference.name))
    if not path.is_relative_to(root):
        _refuse(reference, "it leads out of DULY_SECRETS_DIR")
    try:
        # Not following: the path has been resolved. Not blocking: a pipe in its place must not hold the worker.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            is_file = stat.S_ISREG(os.fstat(handle).st_mode)
            raw = os.read(handle, LARGEST_FILE + 1) if is_file else b""
        finally:
            os.close(handle)
    except OSError as error:
        _refuse(reference, error.strerror or type(error).__name__, retry=error.errno in SHORTAGES)
    if not is_file:
        _refuse(reference, "it is not a regular file")
    if len(raw) > LARGEST_FILE:
        _refuse(reference, f"it is larger than {LARGEST_FILE:,} bytes")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        _refuse(reference, "it is not UTF-8 text")
    if "\0" in text:
        _refuse(reference, "it has a NUL character")
    return text.removesuffix("\n").removesuffix("\r")


def _refuse(reference: Reference, why: str, *, retry: bool = False) -> NoReturn:
    raise Failure(f"The secret {reference} cannot be read: {why}.", type="SecretNotResolved", retry=retry) from None
