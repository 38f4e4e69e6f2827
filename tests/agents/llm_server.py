"""A local HTTP server that speaks OpenAI's chat completions and Anthropic's messages, streaming, from a script.

The clients that talk to it are the real ones. Connections are kept alive, as providers keep them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

import pytest

PIECE = 7
"""How many characters come in one event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the server answers to one request.

    It thinks (Anthropic only), says a text, calls tools `(name, input, id)`; an input that is text is sent as it is.
    With `in_turns` the pieces of several inputs come by turns.
    `stop` is the provider's own word. With a `status` it is an error with this `body`. `cut` breaks it off before its
    end: "torn" is a connection that is lost, "short" a body that ends too early.
    """

    text: str | None = None
    thinking: str | None = None
    tools: Iterable[tuple[str, Any, str]] = ()
    in_turns: bool = False
    stop: str | None = None
    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: Literal["torn", "short"] | None = None


class LLMServer(ThreadingHTTPServer):
    """Gives `replies` in their order, and holds what it was sent in `seen`, as (path, body). Use it in a `with`.

    A reply may be a function of the body that was sent. `connections` are all there have been; `ended` is released by
    the end of each.
    """

    daemon_threads = False

    def __init__(self, *replies: Reply | Callable[[Any], Reply]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies = list(replies)
        self.seen: list[tuple[str, Any]] = []
        self.connections: list[socket.socket] = []
        self.ended = threading.Semaphore(0)
        self._serving = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._serving.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self._serving.join()
        for connection in self.connections:
            with contextlib.suppress(OSError):  # the client was faster
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.ended.release()


Serve = Callable[..., LLMServer]
"""Starts a server with these replies."""


@contextlib.contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Servers that are where the clients look for their providers, until the end of the block."""
    with contextlib.ExitStack() as running:

        def serve(*replies: Reply | Callable[[Any], Reply]) -> LLMServer:
            server = running.enter_context(LLMServer(*replies))
            monkeypatch.setenv("OPENAI_API_KEY", "key")
            monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
            monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
            monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
            return server

        yield serve


class _Handler(BaseHTTPRequestHandler):
    server: LLMServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, body))
        if not self.server.replies:
            return self._fail(Reply(status=500, body={"error": {"message": "the script is over"}}))
        reply = self.server.replies.pop(0)
        if not isinstance(reply, Reply):
            reply = reply(body)
        return self._fail(reply) if reply.status != 200 else self._tell(reply, body)

    def _fail(self, reply: Reply) -> None:
        body = json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in {"content-type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _tell(self, reply: Reply, body: Any) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        events = list(
            _openai(reply, body) if self.path.endswith("/chat/completions") else _anthropic(reply, body)
        )
        for event in events[: len(events) // 2] if reply.cut else events:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event.encode()), event.encode()))
            self.wfile.flush()
        if reply.cut == "torn":
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


def _pieces(given: Any) -> list[str]:
    text = given if isinstance(given, str) else json.dumps(given)
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)] or [""]


def _ordered(blocks: list[list[str]], in_turns: bool) -> Iterator[str]:
    """The events of blocks: one block after the other, or an event of each by turns."""
    if not in_turns:
        return itertools.chain(*blocks)
    return (event for turn in itertools.zip_longest(*blocks) for event in turn if event is not None)


def _openai(reply: Reply, body: Any) -> Iterator[str]:
    about = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}

    def event(delta: Any, finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {json.dumps({**about, 'choices': [choice]})}\n\n"

    yield event({"role": "assistant", "content": ""})
    if reply.text is not None:
        yield from (event({"content": piece}) for piece in _pieces(reply.text))
    tools = list(reply.tools)
    calls: list[list[str]] = []
    for index, (name, given, call_id) in enumerate(tools):
        start: Any = {"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        deltas = [start, *({"function": {"arguments": piece}} for piece in _pieces(given))]
        calls.append([event({"tool_calls": [{"index": index, **delta}]}) for delta in deltas])
    yield from _ordered(calls, reply.in_turns)
    yield event({}, reply.stop or ("tool_calls" if tools else "stop"))
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    yield f"data: {json.dumps({**about, 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


def _anthropic(reply: Reply, body: Any) -> Iterator[str]:
    def event(kind: str, **data: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"

    yield event(
        "message_start",
        message={
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 11, "output_tokens": 1},
        },
    )
    tools = list(reply.tools)
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if reply.thinking is not None:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(reply.thinking)]
        deltas.append({"type": "signature_delta", "signature": "sig"})
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if reply.text is not None:
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(reply.text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for name, given, call_id in tools:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(given)]
        blocks.append(({"type": "tool_use", "id": call_id, "name": name, "input": {}}, deltas))
    told: list[list[str]] = []
    for index, (start, deltas) in enumerate(blocks):
        told.append([event("content_block_start", index=index, content_block=start)])
        told[-1] += [event("content_block_delta", index=index, delta=delta) for delta in deltas]
        told[-1].append(event("content_block_stop", index=index))
    yield from _ordered(told, reply.in_turns)
    stop = reply.stop or ("tool_use" if tools else "end_turn")
    yield event(
        "message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 7}
    )
    yield event("message_stop")
