"""The real PostgreSQL of tests and benchmarks: the one that `duly verify` starts.

`python -m tests.services.postgres` prints a DSN and runs until Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys

from duly.services import ServiceFailed, ServiceMissing
from duly.services.postgres import Postgres

__all__ = ["Postgres", "ServiceFailed", "ServiceMissing"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.services.postgres", description="A private PostgreSQL until Ctrl-C.")
    parser.add_argument("--database", default="duly", help="database to create (default: %(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a server setting; may be repeated")
    arguments = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Postgres(settings) as server:
        print(server.create_database(arguments.database), flush=True)
        print(f"log: {server.log_path}", file=sys.stderr)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
