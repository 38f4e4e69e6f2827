"""`Address`: where an MCP server is, and how its client introduces itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Either a `transport` that is opened, or the `url` of a server over streamable HTTP; then each request has
    `headers` and is signed by `auth`, an `httpx2.Auth`. The server is told `name` and `version` of the application.

    Raises `ValueError` for none, for both, and for what only a `url` can have.
    """

    transport: Callable[[], Any] | None = None
    url: str | None = None
    headers: Mapping[str, str] | None = None
    auth: Any = None
    name: str | None = None
    version: str | None = None

    def __post_init__(self) -> None:
        if (self.transport is None) == (self.url is None):
            raise ValueError("an MCPClient needs either transport_callable or url=")
        if self.url is None and (self.headers is not None or self.auth is not None):
            raise ValueError("headers= and auth_provider= of an MCPClient are for a server with url=")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url= of an MCPClient begins with http:// or https://, not {self.url!r}")

    def __str__(self) -> str:
        return f"MCP server {self.url or 'over its transport'}"

    def client(self, **options: Any) -> Client:
        """`mcp`'s client of the server, not yet connected; `options` are its own. Raises `ImportError` without the
        extra."""
        try:
            from mcp import Client
            from mcp.types import Implementation
        except ImportError as error:
            raise ImportError(
                "MCPClient needs the package mcp: pip install 'graphkit-engine[mcp]'"
            ) from error
        server: Any = self.url
        if self.transport is not None:
            server = self.transport()
        elif self.headers is not None or self.auth is not None:
            server = self._signed()
        if self.name is not None or self.version is not None:
            options["client_info"] = Implementation(
                name=self.name or "graphkit", version=self.version or "unknown"
            )
        return Client(server, **options)

    @asynccontextmanager
    async def _signed(self) -> AsyncIterator[Any]:
        """The streams to and from the server. The HTTP client ends with them: `mcp` closes only its own."""
        from mcp.client.streamable_http import (  # type: ignore[attr-defined]
            create_mcp_http_client,
            streamable_http_client,
        )

        async with (
            create_mcp_http_client(headers=dict(self.headers or {}), auth=self.auth) as client,
            streamable_http_client(str(self.url), http_client=client) as streams,
        ):
            yield streams
