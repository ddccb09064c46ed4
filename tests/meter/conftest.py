"""A Prometheus that answers as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

Answer = Callable[[dict[str, str]], tuple[int, Any]]


@pytest.fixture
def prometheus() -> Iterator[Callable[[Answer], str]]:
    """Starts a server that answers query_range as told; gives its address."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = urlsplit(self.path)
                assert asked.path == "/api/v1/query_range"
                code, told = answer({name: values[0] for name, values in parse_qs(asked.query).items()})
                body = told if isinstance(told, bytes) else json.dumps(told).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Be quiet."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def matrix(*series: list[tuple[float, str]]) -> tuple[int, Any]:
    result = [{"metric": {}, "values": values} for values in series]
    return 200, {"status": "success", "data": {"resultType": "matrix", "result": result}}
