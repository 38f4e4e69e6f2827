"""The tools that an agent has, by name."""

from __future__ import annotations

import inspect
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from types import ModuleType
from typing import Any

from graphkit.drivers.loops import run_in_standing_loop
from graphkit.frame import depth_below
from graphkit_prebuilt.content import ToolSpec
from graphkit_prebuilt.hooks.registry import HookRegistry
from graphkit_prebuilt.tools.adapters import as_tool, tools_of_module
from graphkit_prebuilt.tools.function import FunctionTool
from graphkit_prebuilt.tools.tool import AgentTool, check_name


class ToolProvider(ABC):
    """Something that has tools to give, and has to do something before it can: a connection to a server, say."""

    @abstractmethod
    async def load_tools(self, **kwargs: Any) -> Sequence[AgentTool]:
        """The tools. Called once, when the provider is given to an agent."""

    def add_consumer(self, consumer_id: Any, **kwargs: Any) -> None:  # noqa: B027 (few hold anything)
        """Somebody has the tools: an agent's registry, which calls itself by this id."""

    def remove_consumer(self, consumer_id: Any, **kwargs: Any) -> None:  # noqa: B027
        """It has them no more. After the last one, what the provider holds may end."""


class ToolRegistry:
    """Tools by name, in the order in which they were given. Names that differ in `-` and `_` alone are too alike. A
    tool that is a hook provider registers its callbacks with `hooks`, those of the agent that has the tools."""

    def __init__(self, hooks: HookRegistry | None = None) -> None:
        self.hooks = hooks
        self.registry: dict[str, AgentTool] = {}
        self.owners: dict[str, str] = {}
        """The names of plugins, by the names of the tools that they have brought."""
        self._id = ""  # as its providers know it, if it has some
        self._providers: list[Any] = []

    def get_all_tool_specs(self) -> list[ToolSpec]:
        """What a model is told, in the order in which the tools were given."""
        return [tool.tool_spec for tool in self.registry.values()]

    def get_all_tools_config(self) -> dict[str, ToolSpec]:
        """The same by name."""
        return {name: tool.tool_spec for name, tool in self.registry.items()}

    def process_tools(self, tools: Iterable[Any]) -> list[str]:
        """Add everything in a list of tools (`as_tool` says which), modules, providers and further lists, and return
        the names.

        The same tool may be given twice. Raises `ValueError` naming both if two have the same name, `TypeError`
        for what is no tool; then none of the list is added.
        """
        if not isinstance(tools, (list, tuple)):
            raise TypeError(f"tools= is a list of tools, not {tools!r:.200}")
        known, added = len(self._providers), dict(self.registry)
        try:
            found = list(self._flat(tools))
            for tool in found:
                _add(tool, added)
        except BaseException:
            self._let_go(known)
            raise
        new = [tool for name, tool in added.items() if name not in self.registry]
        self.registry.update(added)
        for tool in new:
            self._hook(tool)
        return [tool.tool_name for tool in found]

    def register_tool(self, tool: Any) -> None:
        """Add one tool. Raises as `process_tools` does."""
        self.process_tools([tool])

    def replace(self, tool: Any) -> None:
        """Put a tool in the place of the one of its name. Raises `ValueError` if there is none."""
        new = as_tool(tool)
        if new.tool_name not in self.registry:
            raise ValueError(
                f"no tool named {new.tool_name!r} can be replaced; there are {list(self.registry)}"
            )
        self.registry[new.tool_name] = new
        self._hook(new)

    def get(self, name: Any) -> AgentTool | None:
        """The tool of this name, as a model gave it; None if there is none."""
        return self.registry.get(name) if isinstance(name, str) else None

    def cleanup(self) -> None:
        """Tell all providers that their tools are not needed here any more. Raises what one of them raises, when all
        have been told."""
        self._let_go(0)

    def _let_go(self, known: int) -> None:
        """Of all providers but the first ones."""
        providers, self._providers = self._providers[known:], self._providers[:known]
        with ExitStack() as telling:
            for provider in reversed(providers):
                telling.callback(provider.remove_consumer, self._id)

    def _hook(self, tool: AgentTool) -> None:
        if self.hooks is not None and hasattr(tool, "register_hooks"):
            self.hooks.add_hook(tool)

    def _flat(self, tools: Iterable[Any]) -> Iterator[AgentTool]:
        for thing in tools:
            if isinstance(thing, (list, tuple)):
                yield from self._flat(thing)
            elif isinstance(thing, ModuleType):
                yield from tools_of_module(thing)
            elif hasattr(thing, "load_tools") and not isinstance(thing, type):
                if thing not in self._providers and hasattr(thing, "add_consumer"):
                    self._id = self._id or uuid.uuid4().hex
                    self._providers.append(thing)
                    thing.add_consumer(self._id)
                yield from self._flat(_loaded(thing))
            else:
                yield as_tool(thing)


def _loaded(provider: Any) -> Iterable[Any]:
    tools: Iterable[Any] | Awaitable[Iterable[Any]] = provider.load_tools()
    return run_in_standing_loop(tools, depth_below()) if inspect.isawaitable(tools) else tools


def _add(tool: AgentTool, tools: dict[str, AgentTool]) -> None:
    name = check_name(tool.tool_name)
    if isinstance(tool, FunctionTool) and tool.needs_owner:
        raise TypeError(
            f"tool {name!r} is a method without its object: give the method of an object, obj.{name}"
        )
    for other_name, other in tools.items():
        if other is tool or (other_name == name and other == tool):
            return
        if other_name.replace("-", "_") == name.replace("-", "_"):
            raise ValueError(f"two tools are named {name!r} and {other_name!r}: {tool!r} and {other!r}")
    tools[name] = tool
