"""All of Duly's own benchmarks, one after the other: about ten minutes, or much longer with --full."""

from __future__ import annotations

from benchmarks.questions import QUESTIONS
from benchmarks.run import run

if __name__ == "__main__":
    run(QUESTIONS, "python -m benchmarks", __doc__)
