"""Fuzzes a running server from its own OpenAPI document, with every check that there is: `make fuzz`, and shortly in the tests.

python -m tests.http.fuzz [--store sqlite|postgresql://…] [--seconds 600] [--seed N]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tests.cli.processes import DULY, environment

KEY = "duly_admin_key_for_the_fuzzer"
# A stream has no end, so a fuzzer would wait for it; tests/http/test_events.py reads it.
ENDLESS = ("/v1/events",)
# Data that fits the document may still be refused for what no schema can say: a schedule that never fires, an id that is nobody's,
# a cursor of another list. What is refused by the shape of a body alone (400, 413, 415) is never right. What does not fit may be
# refused for its size before it is looked at.
CONFIG = """
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "410", "412", "413", "415", "422", "429"]

# A job that was deleted is cancelled: it stays, and can be read.
[checks.use_after_free]
enabled = false

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "401", "403", "404", "409", "410", "412", "422", "429"]
"""


class Server:
    """A server process of its own, with its log in a file."""

    def __init__(self, directory: Path, store: str) -> None:
        self._log = directory / "server.log"
        settings = {"DULY_STORE": store, "DULY_ADMIN_KEY": KEY, "DULY_PORT": "0", "DULY_RATE_LIMIT": "0"}
        self._environment = environment(directory / "home", PYTHONUNBUFFERED="1", **settings)

    def __enter__(self) -> Server:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*DULY, "server"], env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        while "Ctrl-C stops it" not in self.log:
            assert self._process.poll() is None, self.log
            time.sleep(0.05)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    @property
    def url(self) -> str:
        return next(line.split()[1] for line in self.log.splitlines() if line.startswith("  api "))

    @property
    def faults(self) -> str:
        """What the log has of our own bugs, from the first of them on."""
        return self.log[self.log.index("unexpected ") :][:4000] if "DULY-E599" in self.log else ""


def fuzz(
    url: str, directory: Path, *, phases: str, seconds: int, examples: int, seed: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it against a server; a failure is an answer of 5xx, an undocumented one, or one that is not what the document says."""
    (directory / "schemathesis.toml").write_text(CONFIG, encoding="utf-8")
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{url}/v1/openapi.json",
        *("--header", f"Authorization: Bearer {KEY}"),
        *("--checks", "all"),
        *("--phases", phases),
        *("--max-time", str(seconds)),
        *("--max-examples", str(examples)),
        # A long poll takes as long as it is asked to.
        *("--request-timeout", "90"),
        *("--max-response-time", "90"),
        "--continue-on-failure",
        "--no-color",
        *(f"--exclude-path={path}" for path in ENDLESS),
        # It would lock itself out.
        *("--exclude-path-regex", "^/v1/keys/"),
        *(() if seed is None else ("--seed", str(seed))),
    ]
    environment = {**os.environ, "COLUMNS": "160", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(command, cwd=directory, env=environment, text=True, capture_output=True, timeout=seconds * 4 + 120, check=False)


def main() -> int:
    """The long form."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", default="sqlite", help="sqlite (a new file), or the URL of an empty PostgreSQL database")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--seed", type=int)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        store = f"sqlite:///{place / 'duly.db'}" if arguments.store == "sqlite" else arguments.store
        with Server(place, store) as server:
            done = fuzz(
                server.url,
                place,
                phases="examples,coverage,fuzzing,stateful",
                seconds=arguments.seconds,
                examples=arguments.examples,
                seed=arguments.seed,
            )
        print(done.stdout, done.stderr)
        print(server.faults or "The server's log has no fault.")
        return done.returncode or bool(server.faults)


if __name__ == "__main__":
    sys.exit(main())
