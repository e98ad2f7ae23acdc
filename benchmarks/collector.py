"""A collector that takes everything sent by OTLP over HTTP and keeps nothing, in a process of its own: nobody's time is spent by it.

python -m benchmarks.collector
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing to say."""


@contextlib.contextmanager
def collecting() -> Iterator[str]:
    """Where one listens, while the block lasts."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.collector"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    """Say where, and listen."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Sink)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
