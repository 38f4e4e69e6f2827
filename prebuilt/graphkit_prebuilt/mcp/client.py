"""A client of one MCP server, whose tools an agent can have."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from graphkit.drivers.loops import submit_to_loop
from graphkit.errors import MCPClientInitializationError
from graphkit_prebuilt.content import ToolResult
from graphkit_prebuilt.loop.steps import Call, Steps
from graphkit_prebuilt.mcp.address import Address
from graphkit_prebuilt.mcp.connection import LOOP, Connection, wait_for, wait_on_loop
from graphkit_prebuilt.mcp.elicitation import AskingCall, Questions
from graphkit_prebuilt.mcp.filters import ToolFilters, checked_filters, is_wanted
from graphkit_prebuilt.mcp.offers import Offers
from graphkit_prebuilt.mcp.tool import MCPAgentTool
from graphkit_prebuilt.mcp.values import content_of
from graphkit_prebuilt.tools.box import ToolProvider
from graphkit_prebuilt.tools.values import result_of

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import ElicitationFnT
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import (
        CallToolResult,
        ListToolsResult,
        Tool,
    )

_log = logging.getLogger(__name__)

MCPTransport = AbstractAsyncContextManager[Any]
"""What a `transport_callable` returns: entered, it gives the streams to and from a server."""


class PaginatedList(list[MCPAgentTool]):
    """Tools, with the token of the next page: None, since all pages have been read."""

    pagination_token: str | None = None


class MCPClient(Offers, ToolProvider):
    """A connection to an MCP server: `Agent(tools=[client])`, or `with client: Agent(tools=client.list_tools_sync())`.

    `transport_callable` opens the transport (`lambda: stdio_client(StdioServerParameters(...))`); `url` is that of a
    server over streamable HTTP, instead. `startup_timeout` is in seconds, `read_timeout_seconds` how long one request
    may take (None: as long as it takes). `prefix` is put before the tools' names, with "_"; `tool_filters` choose among
    the tools. With `continue_on_error` a server that cannot be reached gives an agent no tools, which is logged.

    The server is told: with `url`, `headers` and the sign-in of `auth_provider` (an `httpx2.Auth`, as `mcp`'s own
    providers of OAuth are) by each request; `application_name` and `application_version` when it is connected; `meta`
    by each call. `progress_callback` is an `async def (progress, total, message)`, called with what it reports of
    calls while they last.

    What the server asks in the middle of a call (elicitation) is answered by `elicitation_callback`, an
    `async def (context, params) -> ElicitResult`. With `"ask"` it becomes a question of the graph, durable as all of
    them; the call is then broken off, and made again with the answer. `mode` is that of `mcp.Client`: "auto" by
    default, but "legacy" if there is somebody to ask, since servers that send their questions back to the client can
    do so only then. With "ask" and "legacy" together the calls of one client follow each other: such a server does
    not say which of them asks.

    A server that dies, or answers with what is no answer, makes the call an error for the model; the next one connects
    again. What is no call, the lists of tools and prompts and so on, raises `MCPClientInitializationError` without a
    connection, `MCPConnectionError` if the server does not answer as it must, and `MCPError` for what it refuses.

    Raises `ValueError` unless there is exactly one of `transport_callable` and `url`, for what only a `url` can be
    told, and for `tool_filters` that are none. Names: Strands.
    """

    def __init__(
        self,
        transport_callable: Callable[[], MCPTransport] | None = None,
        *,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        auth_provider: Any = None,
        startup_timeout: float = 30,
        tool_filters: ToolFilters | None = None,
        prefix: str | None = None,
        application_name: str | None = None,
        application_version: str | None = None,
        continue_on_error: bool = False,
        elicitation_callback: ElicitationFnT | Literal["ask"] | None = None,
        progress_callback: ProgressFnT | None = None,
        meta: Mapping[str, Any] | None = None,
        read_timeout_seconds: float | timedelta | None = None,
        mode: str | None = None,
    ) -> None:
        self._address = Address(
            transport=transport_callable,
            url=url,
            headers=headers,
            auth=auth_provider,
            name=application_name,
            version=application_version,
        )
        self._continue_on_error = continue_on_error
        self._progress = progress_callback
        self._meta = meta
        self._startup_timeout = startup_timeout
        self._filters = checked_filters(tool_filters)
        self._prefix = prefix
        self._callback = elicitation_callback
        self._timeout = _seconds(read_timeout_seconds)
        self._mode = mode or ("legacy" if elicitation_callback else "auto")
        self._questions = Questions()
        self._opening = threading.RLock()
        self._connection: Connection | None = None
        self._consumers: set[Any] = set()
        self._is_theirs = False  # whether the connection was opened for them

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
            connection, self._is_theirs, self._connection = self._connection, False, None
        if connection is not None:
            connection.close()

    async def load_tools(self, **kwargs: Any) -> Sequence[MCPAgentTool]:
        """The tools of the server; connects, if need be."""
        return await asyncio.to_thread(self._loaded)

    def add_consumer(self, consumer_id: Any, **kwargs: Any) -> None:
        """An agent has the tools."""
        with self._opening:
            self._consumers.add(consumer_id)

    def remove_consumer(self, consumer_id: Any, **kwargs: Any) -> None:
        """It has them no more; the last one ends the connection, if it was opened for them."""
        with self._opening:
            self._consumers.discard(consumer_id)
            if self._is_theirs and not self._consumers:
                self.stop()

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
        meta: Mapping[str, Any] | None = None,
        progress_callback: ProgressFnT | None = None,
    ) -> ToolResult:
        """Call a tool without an agent. The server can ask nothing then, unless there is a callback. What is given for
        this call counts instead of the client's own."""
        told = self._told(read_timeout_seconds, meta, progress_callback)
        call = self._call(self._connected(), name, arguments or {}, told)
        return result_of(content_of(wait_for(submit_to_loop(call, LOOP))), tool_use_id)

    async def call_tool_async(
        self,
        tool_use_id: str,
        name: str,
        arguments: dict[str, Any] | None = None,
        read_timeout_seconds: float | timedelta | None = None,
        meta: Mapping[str, Any] | None = None,
        progress_callback: ProgressFnT | None = None,
    ) -> ToolResult:
        """`call_tool_sync` on the running event loop."""
        connection = await asyncio.to_thread(self._connected)
        told = self._told(read_timeout_seconds, meta, progress_callback)
        call = self._call(connection, name, arguments or {}, told)
        return result_of(content_of(await wait_on_loop(submit_to_loop(call, LOOP))), tool_use_id)

    # --- For its tools --------------------------------------------------------------------------------------

    def calling(self, name: str, arguments: dict[str, Any]) -> Steps[AskingCall]:
        """The steps to a call of a tool that has not begun."""
        connection = yield Call(self._connected, blocks=True)
        return AskingCall(lambda call: self._call(connection, name, arguments, self._told(), call))

    def _told(
        self, timeout: Any = None, meta: Mapping[str, Any] | None = None, progress: ProgressFnT | None = None
    ) -> dict[str, Any]:
        """What goes with a call, by the keywords of `mcp`."""
        sent = self._meta if meta is None else meta
        return {
            "read_timeout_seconds": _seconds(timeout) or self._timeout,
            "progress_callback": progress or self._progress,
            "meta": None if sent is None else dict(sent),
        }

    async def _call(
        self,
        connection: Connection,
        name: str,
        arguments: dict[str, Any],
        told: Mapping[str, Any],
        call: AskingCall | None = None,
    ) -> CallToolResult:
        def request(client: Client) -> Coroutine[Any, Any, CallToolResult]:
            return client.call_tool(name, arguments, **told)

        what = f"a call of {name!r}"
        if self._callback != "ask" or self._mode != "legacy":
            return await connection.ask(what, request)
        async with connection.one_at_a_time:
            self._questions.call = call
            try:
                return await connection.ask(what, request)
            finally:
                self._questions.call = None

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
                try:
                    self.start()
                    self._is_theirs = True
                except MCPClientInitializationError as error:
                    if not self._continue_on_error:
                        raise
                    _log.warning("its tools are left out: %s", error)
                    return []
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
        """A connection. It does not know the client, so that one that nobody has stopped can become garbage, and then
        ends it."""
        callback: Any = self._questions if self._callback == "ask" else self._callback
        make = partial(
            self._address.client,
            mode=self._mode,
            elicitation_callback=callback,
            read_timeout_seconds=self._timeout,
        )
        connection = Connection(make, str(self._address), self._startup_timeout)
        connection.open()
        connection.end_with(self)
        return connection


async def _page(cursor: str | None, client: Client) -> ListToolsResult:
    return await client.list_tools(cursor=cursor)


def _seconds(timeout: float | timedelta | None) -> float | None:
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
