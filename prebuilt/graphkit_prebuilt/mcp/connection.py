"""One session with an MCP server: a coroutine that holds it open, on a loop on which nothing else waits.

`mcp` ends a session in the task that began it, so one coroutine does both. The loop is the standing one of a depth that
no graph has: no node can keep it waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import finalize

from graphkit.drivers.loops import LoopFuture, submit_to_loop
from graphkit.errors import MCPClientInitializationError, MCPConnectionError
from graphkit_prebuilt.loop.steps import Either

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")

LOOP: Final = -1
"""The depth of the standing loop for connections."""
_FORGOTTEN: Final = ("Session not found", "Session terminated")
"""What `mcp` says of a server over HTTP that was started anew."""


def on_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> Either:
    """The step that has a coroutine run on the loop of connections."""
    return Either(
        lambda: wait_for(submit_to_loop(work(), LOOP)), lambda: wait_on_loop(submit_to_loop(work(), LOOP))
    )


def wait_for(future: LoopFuture[T]) -> T:
    """The result, waited for in this thread."""
    try:
        return future.result()
    except BaseException:
        future.stop()
        raise


async def wait_on_loop(future: LoopFuture[T]) -> T:
    """The same on the running event loop."""
    try:
        return await asyncio.shield(asyncio.wrap_future(future))
    except BaseException:
        future.stop()
        raise


class Connection:
    """A session with a server, from `open()` to `close()`, or until the server ends it (`lost`)."""

    def __init__(self, make: Callable[[], Client], name: str, startup_timeout: float) -> None:
        self.name = name
        self.lost = False
        self.one_at_a_time = asyncio.Lock()
        self._make = make
        self._startup_timeout = startup_timeout
        self._ready: Future[Client] = Future()
        self._end = asyncio.Event()
        self._served: LoopFuture[None] | None = None
        self._ending: finalize[..., Any] | None = None

    @property
    def client(self) -> Client:
        return self._ready.result()

    def open(self) -> None:
        """Start the session. Raises `MCPClientInitializationError` if the server cannot be reached in time."""
        self._served = submit_to_loop(self._serve(), LOOP)
        try:
            self._ready.result()
        except MCPClientInitializationError:
            raise
        except BaseException:
            self._served.stop()
            raise

    def end_with(self, owner: object) -> None:
        """End the session when this object is garbage, if it has not been closed before."""
        self._ending = finalize(owner, self.leave)
        self._ending.atexit = False

    def close(self) -> None:
        """End the session, and wait until it has ended."""
        if self._ending is not None:
            self._ending.detach()
        self.leave()
        if self._served is not None:
            self._served.exception()

    def leave(self) -> None:
        """Let the session end. Waits for nothing and nobody, and may be called by the garbage collector."""
        if self._served is not None and not self._served.loop.is_closed():
            self._served.loop.call_soon_threadsafe(self._end.set)

    async def ask(self, what: str, request: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """What the server answers to a request; `what` is the request in words.

        Raises `MCPConnectionError` if the server ends the session before it has answered, or answers with what is no
        answer; other errors are the server's own.
        """
        from mcp.shared.exceptions import MCPError
        from mcp.types import CONNECTION_CLOSED
        from pydantic import ValidationError

        try:
            return await request(self.client)
        except ValidationError as error:
            raise MCPConnectionError(
                f"{self.name} answered {what} with what is no answer: {error}"
            ) from error
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                self.lost = True
                raise MCPConnectionError(
                    f"{self.name} ended the connection before it answered {what}; whether it has done it is not "
                    f"known. The next request connects again"
                ) from error
            if str(error) in _FORGOTTEN:
                self.lost = True
                raise MCPConnectionError(
                    f"{self.name} does not know this session any more, and has not served {what}. The next request "
                    f"connects again"
                ) from error
            if "no back-channel" in str(error):
                raise MCPConnectionError(
                    f"{self.name} wants to ask something during {what}, and over a connection of this version it "
                    f"cannot: use MCPClient(..., mode='legacy')"
                ) from error
            raise

    async def _serve(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._startup_timeout):
                    client = await stack.enter_async_context(self._make())
                self._ready.set_result(client)
                await self._end.wait()
        except BaseException as error:
            self.lost = True
            if not self._ready.done():
                self._ready.set_exception(self._failure(error))
            elif not isinstance(error, Exception):
                raise

    def _failure(self, error: BaseException) -> MCPClientInitializationError:
        while isinstance(error, BaseExceptionGroup):  # from `mcp`'s task groups
            error = error.exceptions[0]
        reason = (
            f"it did not answer within {self._startup_timeout:g} s"
            if isinstance(error, TimeoutError)
            else str(error) or type(error).__name__
        )
        found = MCPClientInitializationError(f"no connection to {self.name}: {reason}")
        found.__cause__ = error
        return found
