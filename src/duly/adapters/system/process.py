"""What the operating system says of this process."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

from duly.domain.metrics import Family, Sample
from duly.domain.metrics.catalogue import CPU, FILES, MEMORY, STARTED

_STARTED = time.time()
_STATM = Path("/proc/self/statm")
_FILES = Path("/proc/self/fd")


def process_families() -> list[Family]:
    """Processor time, memory, open files and age. What this system does not say is left out."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = [Family(CPU, [Sample((), used.ru_utime + used.ru_stime)]), Family(STARTED, [Sample((), _STARTED)])]
    try:
        found.append(Family(MEMORY, [Sample((), int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))]))
        found.append(Family(FILES, [Sample((), len(os.listdir(_FILES)))]))
    except OSError:
        pass
    return found
