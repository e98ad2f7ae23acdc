"""A proxy that breaks one rule of the worker protocol on purpose: a checker that does not notice checks nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Tamper = Callable[[str, int, Any], tuple[int, Any]]
Meddle = Callable[[str, Any], Any]


@contextlib.contextmanager
def tampered(target: str, *, meddle: Meddle | None = None, tamper: Tamper | None = None) -> Iterator[str]:
    """The address of a proxy before `target`. `meddle(path, body)` changes requests, `tamper(path, status, body)` answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if meddle is not None and body:
                with contextlib.suppress(ValueError):
                    body = json.dumps(meddle(self.path, json.loads(body))).encode()
            connection = http.client.HTTPConnection(target.removeprefix("http://"), timeout=60)
            with contextlib.closing(connection):
                headers = {name: value for name, value in self.headers.items() if name.lower() in ("authorization", "content-type")}
                connection.request(self.command, self.path, body or None, headers)
                answer = connection.getresponse()
                content = answer.read()
            status, kind = answer.status, answer.headers.get("Content-Type", "application/json")
            if tamper is not None:
                status, changed = tamper(self.path, status, json.loads(content) if content else None)
                content = b"" if changed is None else json.dumps(changed).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _pass_on  # noqa: N815 (what the base class looks for)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
