"""`python -m duly.services.kafka` fetches what a broker needs, once; with `--run` it also runs one until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys

from duly.services import ServiceFailed, ServiceMissing
from duly.services.kafka import Kafka


def main() -> int:
    """Exit code 0: it is there."""
    parser = argparse.ArgumentParser(prog="python -m duly.services.kafka", description=__doc__)
    parser.add_argument("--run", action="store_true", help="run a private broker until Ctrl-C, and print its address")
    arguments = parser.parse_args()
    try:
        broker = Kafka()
        broker.archive_classes()
        if arguments.run:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            with broker, contextlib.suppress(KeyboardInterrupt):
                sys.stdout.write(f"{broker.url}\n")
                sys.stdout.flush()
                signal.pause()
        broker.close()
    except (ServiceMissing, ServiceFailed) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
