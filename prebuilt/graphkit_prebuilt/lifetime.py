"""`Lifetime`: how an agent ends."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from graphkit_prebuilt.tools.box import ToolRegistry


class Lifetime:
    """An agent that is not needed any more lets go of what its tools hold, its connections to MCP servers for instance:
    by `cleanup()`, or at the end of a `with` or `async with`. What it was told is not touched, and its other tools can
    be called on. Names: Strands'."""

    tool_registry: ToolRegistry

    def cleanup(self) -> None:
        """Tell its tool providers that it has their tools no more. Raises what one of them raises."""
        self.tool_registry.cleanup()

    shutdown = cleanup

    async def shutdown_async(self) -> None:
        """`cleanup()`, on the running event loop."""
        await asyncio.to_thread(self.cleanup)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.cleanup()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.shutdown_async()
