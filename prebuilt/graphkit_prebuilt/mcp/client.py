"""A client of one MCP server, whose tools an agent can have."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from graphkit.drivers.loops import submit_to_loop
from graphkit.errors import MCPClientInitializationError
from graphkit_prebuilt.content import ToolResult
from graphkit_prebuilt.loop.steps import Call, Steps
from graphkit_prebuilt.mcp.connection import LOOP, Connection, wait_for, wait_on_loop
from graphkit_prebuilt.mcp.elicitation import AskingCall, Questions
from graphkit_prebuilt.mcp.filters import ToolFilters, checked_filters, is_wanted
from graphkit_prebuilt.mcp.tool import MCPAgentTool
from graphkit_prebuilt.mcp.values import content_of
from graphkit_prebuilt.tools.box import ToolProvider
from graphkit_prebuilt.tools.values import result_of

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import ElicitationFnT
    from mcp.types import (
        CallToolResult,
        GetPromptResult,
        ListPromptsResult,
        ListResourcesResult,
        ListResourceTemplatesResult,
        ListToolsResult,
        ReadResourceResult,
        Tool,
    )

T = TypeVar("T")

MCPTransport = AbstractAsyncContextManager[Any]
"""What a `transport_callable` returns: entered, it gives the streams to and from a server."""


class PaginatedList(list[MCPAgentTool]):
    """Tools, with the token of the next page: None, since all pages have been read."""

    pagination_token: str | None = None


class MCPClient(ToolProvider):
    """A connection to an MCP server: `Agent(tools=[client])`, or `with client: Agent(tools=client.list_tools_sync())`.

    `transport_callable` opens the transport (`lambda: stdio_client(StdioServerParameters(...))`); `url` is that of a
    server over streamable HTTP, instead. `startup_timeout` is in seconds, `read_timeout_seconds` how long one request
    may take (None: as long as it takes). `prefix` is put before the tools' names, with "_"; `tool_filters` choose among
    the tools.

    What the server asks in the middle of a call (elicitation) is answered by `elicitation_callback`, an
    `async def (context, params) -> ElicitResult`. With `"ask"` it becomes a question of the graph, durable as all of
    them; the call is then broken off, and made again with the answer. `mode` is that of `mcp.Client`: "auto" by
    default, but "legacy" if there is somebody to ask, since servers that send their questions back to the client can
    do so only then. With "ask" and "legacy" together the calls of one client follow each other: such a server does
    not say which of them asks.

    A server that dies, or answers with what is no answer, makes the call an error for the model; the next one connects
    again. What is no call, the lists of tools and prompts and so on, raises `MCPClientInitializationError` without a
    connection, `MCPConnectionError` if the server does not answer as it must, and `MCPError` for what it refuses.

    Raises `ValueError` unless there is exactly one of `transport_callable` and `url`, and for `tool_filters` that are
    none. Names: Strands.
    """

    def __init__(
        self,
        transport_callable: Callable[[], MCPTransport] | None = None,
        *,
        url: str | None = None,
        startup_timeout: float = 30,
        tool_filters: ToolFilters | None = None,
        prefix: str | None = None,
        elicitation_callback: ElicitationFnT | Literal["ask"] | None = None,
        read_timeout_seconds: float | timedelta | None = None,
        mode: str | None = None,
    ) -> None:
        if (transport_callable is None) == (url is None):
            raise ValueError("an MCPClient needs either transport_callable or url=")
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError(f"url= of an MCPClient begins with http:// or https://, not {url!r}")
        self._transport_callable = transport_callable
        self._url = url
        self._startup_timeout = startup_timeout
        self._filters = checked_filters(tool_filters)
        self._prefix = prefix
        self._callback = elicitation_callback
        self._timeout = _seconds(read_timeout_seconds)
        self._mode = mode or ("legacy" if elicitation_callback else "auto")
        self._questions = Questions()
        self._opening = threading.RLock()
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(kind, error, trace)

    def start(self) -> Self:
        """Connect. Raises `MCPClientInitializationError` if it is connected, or if the server cannot be reached in
        time."""
        with self._opening:
            if self._connection is not None:
                raise MCPClientInitializationError("this MCPClient has been started already")
            self._connection = self._opened()
        return self

    def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """End the connection, if there is one. It can be started again."""
        with self._opening:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def load_tools(self, **kwargs: Any) -> Sequence[MCPAgentTool]:
        """The tools of the server; connects, if need be."""
        return await asyncio.to_thread(self._loaded)

    def list_tools_sync(
        self,
        pagination_token: str | None = None,
        prefix: str | None = None,
        tool_filters: ToolFilters | None = None,
    ) -> PaginatedList:
        """All tools of the server (from the page `pagination_token` on), with this prefix and these filters instead of
        the client's, if they are given."""
        before = self._prefix if prefix is None else prefix
        filters = self._filters if tool_filters is None else checked_filters(tool_filters)
        listed = wait_for(submit_to_loop(self._listed(self._connected(), pagination_token), LOOP))
        tools = (MCPAgentTool(tool, self, f"{before}_{tool.name}" if before else None) for tool in listed)
        return PaginatedList(tool for tool in tools if is_wanted(tool, filters))

    def call_tool_sync(
        self,
        tool_use_id: str,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: float | timedelta | None = None,
    ) -> ToolResult:
        """Call a tool without an agent. The server can ask nothing then, unless there is a callback."""
        call = self._call(self._connected(), name, arguments or {}, timeout=_seconds(read_timeout_seconds))
        return result_of(content_of(wait_for(submit_to_loop(call, LOOP))), tool_use_id)

    async def call_tool_async(
        self,
        tool_use_id: str,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: float | timedelta | None = None,
    ) -> ToolResult:
        """`call_tool_sync` on the running event loop."""
        connection = await asyncio.to_thread(self._connected)
        call = self._call(connection, name, arguments or {}, timeout=_seconds(read_timeout_seconds))
        return result_of(content_of(await wait_on_loop(submit_to_loop(call, LOOP))), tool_use_id)

    def list_prompts_sync(self, pagination_token: str | None = None) -> ListPromptsResult:
        """A page of the server's prompts, as `mcp` has it: the first one, or that of a result's `next_cursor`."""
        return self._answer(
            "a request for its prompts", lambda mcp: mcp.list_prompts(cursor=pagination_token)
        )

    def get_prompt_sync(self, prompt_id: str, args: dict[str, Any]) -> GetPromptResult:
        """The messages of a prompt of this name."""
        return self._answer(f"a request for {prompt_id!r}", lambda mcp: mcp.get_prompt(prompt_id, args))

    def list_resources_sync(self, pagination_token: str | None = None) -> ListResourcesResult:
        """A page of what the server has to be read, as `list_prompts_sync`."""
        return self._answer(
            "a request for its resources", lambda mcp: mcp.list_resources(cursor=pagination_token)
        )

    def list_resource_templates_sync(
        self, pagination_token: str | None = None
    ) -> ListResourceTemplatesResult:
        """A page of the patterns of such addresses, as `list_prompts_sync`."""
        return self._answer(
            "a request for its resource templates",
            lambda mcp: mcp.list_resource_templates(cursor=pagination_token),
        )

    def read_resource_sync(self, uri: Any) -> ReadResourceResult:
        """What is at this address at the server, a text or pydantic's `AnyUrl`."""
        return self._answer(f"a request for {uri}", lambda mcp: mcp.read_resource(str(uri)))

    # --- For its tools --------------------------------------------------------------------------------------

    def calling(self, name: str, arguments: dict[str, Any]) -> Steps[AskingCall]:
        """The steps to a call of a tool that has not begun."""
        connection = yield Call(self._connected, blocks=True)
        return AskingCall(lambda call: self._call(connection, name, arguments, call))

    async def _call(
        self,
        connection: Connection,
        name: str,
        arguments: dict[str, Any],
        call: AskingCall | None = None,
        timeout: float | None = None,
    ) -> CallToolResult:
        seconds = timeout or self._timeout

        def request(client: Client) -> Coroutine[Any, Any, CallToolResult]:
            return client.call_tool(name, arguments, read_timeout_seconds=seconds)

        what = f"a call of {name!r}"
        if self._callback != "ask" or self._mode != "legacy":
            return await connection.ask(what, request)
        async with connection.one_at_a_time:
            self._questions.call = call
            try:
                return await connection.ask(what, request)
            finally:
                self._questions.call = None

    def _answer(self, what: str, request: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        return wait_for(submit_to_loop(self._connected().ask(what, request), LOOP))

    async def _listed(self, connection: Connection, cursor: str | None) -> list[Tool]:
        found: list[Tool] = []
        while True:
            page = await connection.ask("a request for its tools", partial(_page, cursor))
            found += page.tools
            cursor = page.next_cursor
            if not cursor:
                return found

    def _loaded(self) -> list[MCPAgentTool]:
        with self._opening:
            if self._connection is None:
                self.start()
        return self.list_tools_sync()

    def _connected(self) -> Connection:
        """The connection; a new one, if the server has ended the last one."""
        with self._opening:
            if self._connection is None:
                raise MCPClientInitializationError(
                    "this MCPClient has no connection: use it in a `with`, call start(), or give it to an agent itself"
                )
            if self._connection.lost:
                self._connection.close()
                self._connection = self._opened()
            return self._connection

    def _opened(self) -> Connection:
        connection = Connection(
            self._made, f"MCP server {self._url or 'over its transport'}", self._startup_timeout
        )
        connection.open()
        return connection

    def _made(self) -> Client:
        try:
            from mcp import Client
        except ImportError as error:
            raise ImportError(
                "MCPClient needs the package mcp: pip install 'graphkit-engine[mcp]'"
            ) from error
        callback: Any = self._questions if self._callback == "ask" else self._callback
        server: Any = self._url if self._transport_callable is None else self._transport_callable()
        return Client(
            server,
            mode=self._mode,
            elicitation_callback=callback,
            read_timeout_seconds=self._timeout,
        )


async def _page(cursor: str | None, client: Client) -> ListToolsResult:
    return await client.list_tools(cursor=cursor)


def _seconds(timeout: float | timedelta | None) -> float | None:
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
