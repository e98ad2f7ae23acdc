"""Servers of others, started on this machine for tests, for `duly verify` and for trying out a fleet.

One file for each server. All of them are found, not shipped: a server that is not installed raises ServiceMissing,
which says how to install it. Each has `start()`, `stop()`, `kill()`, `url` and `close()`, listens on loopback only, on
a port that it keeps over restarts, and keeps its data in a directory of its own that `close()` removes.
"""

from __future__ import annotations


class ServiceMissing(Exception):
    """The server is not installed on this machine; the message says how to get it."""


class ServiceFailed(Exception):
    """The server did not start, or did not do what it was asked for; the message has the end of its log."""
