"""Run a program: `python -m benchmarks.peers.programs NAME COMMAND …`.

The program is a module, not `__main__`: what it stores by name is found again by its workers.
"""

from __future__ import annotations

import importlib
import sys

from benchmarks.peers.programs.frame import carry_out

name, command, *words = sys.argv[1:]
carry_out(importlib.import_module(f"benchmarks.peers.programs.{name}").PROGRAM, command, words)
