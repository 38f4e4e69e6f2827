"""What an MCP server has beside tools: prompts, and resources to be read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from graphkit.drivers.loops import submit_to_loop
from graphkit_prebuilt.mcp.connection import LOOP, Connection, wait_for

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import (
        GetPromptResult,
        ListPromptsResult,
        ListResourcesResult,
        ListResourceTemplatesResult,
        ReadResourceResult,
    )

T = TypeVar("T")


class Offers:
    """The part of a client that asks a server for them. Raises what an `MCPClient` raises for what is no call."""

    @abstractmethod
    def _connected(self) -> Connection: ...

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

    def _answer(self, what: str, request: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        return wait_for(submit_to_loop(self._connected().ask(what, request), LOOP))
