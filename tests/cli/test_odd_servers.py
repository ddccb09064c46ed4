"""Servers that are no controller, or that break off: a sentence and an exit code, never a traceback."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence

import pytest
from typer.testing import CliRunner, Result

from services.cli import events
from services.cli.main import app

JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(text: str) -> bytes:
    return b"%x\r\n%s\r\n" % (len(text), text.encode())


class Canned:
    """Answers the first connection with the first of its answers, and so on; then it hangs up."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for answer in self._answers:
            connection, _ = self._listener.accept()
            with connection:
                self.asked.append(connection.recv(65_536).decode())
                connection.sendall(answer)
        self._listener.close()

    def end(self) -> None:
        while self._thread.is_alive():  # who was never asked waits in accept()
            with socket.socket() as caller:
                caller.connect_ex(("127.0.0.1", int(self.url.rpartition(":")[2])))
            self._thread.join(0.1)


@pytest.fixture
def canned() -> Iterator[list[Canned]]:
    made: list[Canned] = []
    yield made
    for one in made:
        one.end()


def run(server: Canned, *words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"PENSTOCK_SERVER": server.url, "PENSTOCK_TOKEN": "t"})


@pytest.mark.parametrize(
    "answer",
    [
        JSON + b"Content-Length: 6\r\n\r\n<html>",
        JSON + b"Content-Length: 1000\r\n\r\n[{",
        JSON + b"Content-Length: 2\r\n\r\n\xff\xfe",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ],
    ids=["a page", "half an answer", "no text", "another protocol", "nothing"],
)
@pytest.mark.parametrize("words", [("job", "list"), ("fleet", "show", "--json"), ("events",)])
def test_what_is_no_controller_is_told_in_a_sentence(
    canned: list[Canned], answer: bytes, words: tuple[str, ...]
) -> None:
    canned.append(Canned([answer]))

    result = run(canned[0], *words)

    assert result.exit_code == 3, result.exception
    assert result.stdout == ""
    assert result.stderr.startswith(f"penstock {' '.join(words[:2]).removesuffix(' --json')}: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--server", "http://[::1"), "is no address"),
        (("--server", "https://127.0.0.1:1", "--ca-file", __file__), "cannot be used"),
        (("--server", "https://127.0.0.1:1", "--ca-file", "/nonexistent"), "cannot be used"),
    ],
)
def test_where_nobody_can_be_asked_is_told_in_a_sentence(options: tuple[str, ...], told: str) -> None:
    result = CliRunner().invoke(app, ["job", "list", *options])

    assert result.exit_code == 3, result.exception
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("show",), ("pause",), ("delete", "--yes")])
def test_an_empty_name_is_wrong_usage(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, ["job", *words, ""])

    assert result.exit_code == 2, result.exception
    assert "the job's name is empty" in result.stderr


def test_events_go_on_where_they_were_lost(canned: list[Canned], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first event, in the middle of a line, after a word without an id, and through a 503."""
    monkeypatch.setattr(events, "_AGAIN_S", (0.0,))
    stalled = 'event: stalled\ndata: {"why": ""}\n\n'
    trouble = 'event: trouble\ndata: {"job": "clicks", "at_s": 1.0, "trouble": "late"}\n\n'
    away = b'HTTP/1.1 503 X\r\nContent-Length: 17\r\n\r\n{"detail":"away"}'
    canned.append(
        Canned(
            [
                STREAM + chunk("retry: 2000\nid: 5-0\n\n"),
                STREAM + chunk("retry: 2000\nid: 5-0\n\n") + b"10\r\nid: 6",
                STREAM + chunk("id: 5-0\n\nid: 7-0\n" + trouble) + chunk(stalled),
                away,
                STREAM + chunk("id: 7-0\n\nid: 8-0\n" + trouble),
            ]
        )
    )

    result = run(canned[0], "events", "--json", "--count", "3")

    assert result.exit_code == 0, result.stderr
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ["7-0", "7-0", "8-0"]
    after = [asked.partition("Last-Event-Id: ")[2].split("\r\n")[0] for asked in canned[0].asked]
    assert after == ["", "5-0", "5-0", "7-0", "7-0"]
