"""What the doctor finds on this machine: versions, time zones, permissions, room."""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from duly import config
from duly.cli import db, output
from duly.cli.doctor.findings import FAIL, PASS, WARN, Finding
from duly.cli.places import near
from duly.domain.instants import to_datetime
from duly.domain.zones import tzdata_version

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 38)
LEAST_DISK = 500 << 20
LEAST_FILES = 1024
SYSTEM_TZDATA = Path("/usr/share/zoneinfo/tzdata.zi")


def versions(settings: config.Settings) -> Iterator[Finding]:
    """Python and SQLite."""
    python = sys.version_info[:3]
    text = f"Python {'.'.join(map(str, python))}"
    yield Finding(
        "python", PASS if python >= OLDEST_PYTHON else FAIL, text, None if python >= OLDEST_PYTHON else "Install Python 3.11 or newer."
    )
    fine = sqlite3.sqlite_version_info >= OLDEST_SQLITE
    yield Finding(
        "sqlite", PASS if fine else FAIL, f"SQLite {sqlite3.sqlite_version}", None if fine else "Use a Python with SQLite 3.38 or newer."
    )


def zones(settings: config.Settings) -> Iterator[Finding]:
    """The rules of the clocks, and how old they are."""
    ours = tzdata_version()
    yield from age_of_zones(ours, to_datetime(output.now()).year)
    try:
        system = SYSTEM_TZDATA.read_text("ascii").partition("\n")[0].rsplit(maxsplit=1)[-1]
    except (OSError, ValueError, IndexError):
        yield Finding("tzdata", PASS, f"time zones are those of tzdata {ours}; this system names no version of its own")
        return
    if system > ours:
        yield Finding(
            "tzdata", WARN, f"Duly computes with tzdata {ours}, this system has {system}", "pip install --upgrade tzdata, then restart."
        )
    else:
        older = "" if system == ours else f" (this system's {system} is not used)"
        yield Finding("tzdata", PASS, f"time zones are those of tzdata {ours}{older}")


def age_of_zones(release: str, year: int, whose: str = "") -> Iterator[Finding]:
    """A release is named by its year and a letter. Some government changes its clocks every year."""
    if release[:4].isdigit() and int(release[:4]) < year - 1:
        text = f"the time zones {whose}are those of {release[:4]}: changes of the clocks that were decided since are not known"
        yield Finding("tzdata age", WARN, text, "pip install --upgrade tzdata, then restart.")


def variables(settings: config.Settings) -> Iterator[Finding]:
    """What somebody has set and nobody reads."""
    for name, meant in config.misspelled():
        yield Finding("variables", WARN, f"{name} is set, and is not a setting", f"Did you mean {meant}? `duly config show` has them all.")


def files(settings: config.Settings) -> Iterator[Finding]:
    """Who can read what is kept."""
    files = [("key file", settings.key_file)]
    path = db.sqlite_file(settings.store)
    if path is not None:
        files.append(("store file", path))
    for name, file in files:
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
        except OSError:
            continue
        if mode & 0o077:
            yield Finding(
                "permissions",
                FAIL,
                f"others can reach the {name} {near(file)} (mode {mode:04o})",
                f"chmod 600 {near(file)}",
                partial(file.chmod, 0o600),
            )
        else:
            yield Finding("permissions", PASS, f"only you can read the {name} {near(file)}")


def limits(settings: config.Settings) -> Iterator[Finding]:
    """Room on the disk, and open files."""
    path = db.sqlite_file(settings.store)
    directory = Path(os.path.abspath(path)).parent if path is not None else settings.home
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    room = os.statvfs(directory)
    free = room.f_bavail * room.f_frsize
    yield Finding(
        "disk",
        PASS if free >= LEAST_DISK else FAIL,
        f"{free / (1 << 30):,.1f} GiB free where the state is kept",
        None if free >= LEAST_DISK else "Make room, or shorten DULY_RETENTION: a full disk stops every submit.",
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= LEAST_FILES:
        yield Finding("file limit", PASS, f"{'any number of' if soft == resource.RLIM_INFINITY else f'{soft:,}'} open files allowed")
    else:
        allowed = LEAST_FILES if hard == resource.RLIM_INFINITY else min(LEAST_FILES, hard)
        fix = f"ulimit -n {allowed} before the start; LimitNOFILE= in systemd."
        yield Finding("file limit", WARN, f"only {soft:,} open files allowed", fix)
