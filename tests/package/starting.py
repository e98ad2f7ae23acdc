"""What a start costs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping


def processor_seconds(*words: str, times: int = 5, environment: Mapping[str, str] | None = None) -> float:
    """The processor's time of the cheapest of some fresh interpreters that run these words, each without a failure.

    As for a user, what is compiled at the first start is kept, whatever this machine is set to.
    """
    kept = {name: value for name, value in (environment or os.environ).items() if name != "PYTHONDONTWRITEBYTECODE"}
    spent = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], capture_output=True, check=True, env=kept)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)
