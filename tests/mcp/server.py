"""An MCP server: `server.py` speaks over its standard streams, `server.py http PORT` over HTTP (0: any free port)."""

from __future__ import annotations

import base64
import os
import socket
import sys
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, Image, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import AudioContent, BlobResourceContents, EmbeddedResource, ResourceLink, TextResourceContents
from pydantic import BaseModel

server = MCPServer("desk")


class Approval(BaseModel):
    """What a person says."""

    sure: bool


def _note(word: str) -> None:
    """Write down that something has happened, where the test looks for it."""
    with Path(os.environ["DESK_NOTES"]).open("a") as notes:
        notes.write(word + "\n")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("no such desk")


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """A picture and a word."""
    return ["a dot", Image(data=b"\x89PNG", format="png")]


@server.tool(structured_output=False)
def parcel() -> list[Any]:
    """Everything that a result may hold beside text and pictures."""

    def embedded(**contents: Any) -> EmbeddedResource:
        held = (TextResourceContents if "text" in contents else BlobResourceContents)(
            uri="desk://x", **contents
        )
        return EmbeddedResource(type="resource", resource=held)

    return [
        embedded(text="a letter"),
        embedded(blob=base64.b64encode(b'{"a": 1}').decode(), mime_type="application/json"),
        embedded(blob=base64.b64encode(b"\x89PNG").decode(), mime_type="image/png"),
        embedded(blob=base64.b64encode(b"zip").decode(), mime_type="application/zip"),
        embedded(blob=base64.b64encode(b"?").decode()),
        ResourceLink(type="resource_link", name="rules", uri="desk://rules"),
        AudioContent(type="audio", data="AAAA", mime_type="audio/wav"),
    ]


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}, please."


@server.resource("desk://rules")
def rules() -> str:
    """The rules of the desk."""
    return "Be kind."


@server.resource("desk://drawers/{number}")
def drawer(number: str) -> str:
    """What is in a drawer."""
    return f"drawer {number} is empty"


@server.tool()
def die() -> str:
    """End in the middle of the call, the first time."""
    if "died" in Path(os.environ["DESK_NOTES"]).read_text():
        return "alive"
    _note("died")
    os._exit(3)


@server.tool()
async def delete(path: str, ctx: Context) -> str:
    """Delete a file, if a person is sure."""
    _note("asked")
    answer = await ctx.elicit(f"Delete {path}?", Approval)
    _note(answer.action)
    if answer.action != "accept" or not answer.data.sure:
        return f"kept {path}"
    _note("deleted")
    return f"deleted {path}"


@server.tool()
async def caller(ctx: Context) -> str:
    """Who calls, and with what."""
    await ctx.report_progress(1, 2, "half")
    client = ctx.session.client_params.client_info if ctx.session.client_params else None
    meta = ctx.request_context.meta or {}
    named = f"{client.name} {client.version}" if client else "nobody"
    headers = ctx.headers or {}
    return f"{named}, {headers.get('x-desk')}, {headers.get('authorization')}, {meta.get('who')}"


async def _approval(path: str) -> Elicit[Approval]:
    return Elicit(f"Move {path}?", Approval)


@server.tool()
async def move(path: str, answer: Annotated[ElicitationResult[Approval], Resolve(_approval)]) -> str:
    """Move a file, if a person is sure: asks in a way that needs no way back to the client."""
    _note(f"move {answer.action}")
    return f"moved {path}" if answer.action == "accept" and answer.data.sure else f"left {path}"


def _serve_http(port: int) -> None:
    listening = socket.create_server(("127.0.0.1", port))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        _serve_http(int(sys.argv[2]))
    else:
        server.run()
