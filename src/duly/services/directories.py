"""Temporary directories that have an owner: what a killed one left behind is swept by the next."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO

OWNER = "owner"
# A directory this young may be between its making and its locking.
YOUNG = 60.0


def claim(prefix: str) -> tuple[Path, IO[bytes]]:
    """A new directory, and the lock that says "somebody owns this": the kernel lets go of it when the owner dies."""
    _sweep(prefix)
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    lock = (directory / OWNER).open("wb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return directory, lock


def remove(directory: Path) -> None:
    """Remove it, with a disk that was mounted in it."""
    for inside in directory.glob("*"):
        if inside.is_mount():
            subprocess.run(["umount", "--lazy", str(inside)], capture_output=True, check=False)
    shutil.rmtree(directory, ignore_errors=True)


def _sweep(prefix: str) -> None:
    for directory in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError), (directory / OWNER).open("rb") as lock:
            if time.time() - os.fstat(lock.fileno()).st_mtime < YOUNG:
                continue
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(directory)
