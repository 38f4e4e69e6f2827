"""What `tools=` of a graph takes, each as a tool: plain functions, tools of ours, of Strands and of LangChain."""

from __future__ import annotations

import inspect
from typing import Any

from graphkit.errors import ToolInvocationError
from graphkit_prebuilt.react.arguments import in_graph, key_of
from graphkit_prebuilt.react.langchain import GraphLangChainTool
from graphkit_prebuilt.tools.adapters import LangChainTool, as_tool
from graphkit_prebuilt.tools.box import ToolRegistry
from graphkit_prebuilt.tools.docstrings import described, docstring_of
from graphkit_prebuilt.tools.function import FunctionTool
from graphkit_prebuilt.tools.schema import input_schema_of
from graphkit_prebuilt.tools.tool import AgentTool, check_name


class GraphFunction(FunctionTool[..., Any]):
    """A function as a tool of a graph, which fills the parameters that ask for something of it."""

    is_plain = True
    """Whether what it returns is no more than a value: `{"status", "content"}` is not a result already made."""

    def arguments(self, context: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = context.tool_use["input"]
        try:
            return self.schema.arguments(given, in_graph(context))
        except ValueError as error:
            raise ToolInvocationError(self.tool_name, error, given) from error


def graph_tool(thing: Any) -> AgentTool:
    """The tool of a graph that this is or stands for. Raises `TypeError` if it is none, `ValueError` for a function of
    which a model cannot be told."""
    if isinstance(thing, (GraphFunction, GraphLangChainTool)):
        return thing
    if inspect.isroutine(thing) and not hasattr(thing, "tool_spec"):
        return _plain(thing)
    tool = as_tool(thing)
    if type(tool) is FunctionTool:
        return _decorated(tool)
    return GraphLangChainTool(tool.original) if isinstance(tool, LangChainTool) else tool


def graph_tools(tools: Any) -> dict[str, AgentTool]:
    """These tools by name. Raises as `graph_tool` does, and `ValueError` if two have the same name."""
    box = ToolRegistry()
    box.process_tools([graph_tool(thing) for thing in tools])
    return box.registry


def _plain(function: Any) -> GraphFunction:
    name = check_name(function.__name__)
    about = described(docstring_of(function)).text
    schema = input_schema_of(function, key_of)
    return GraphFunction(
        function,
        name=name,
        description=about or name,
        schema=schema,
        input_schema=schema.json_schema,
        timeout=None,
    )


def _decorated(tool: FunctionTool[..., Any]) -> GraphFunction:
    """A function with `@tool`: what it injects has keys that every context of a call knows."""
    spec = tool.tool_spec
    made = GraphFunction(
        tool.function,
        name=spec["name"],
        description=spec["description"],
        schema=tool.schema,
        input_schema=spec["inputSchema"]["json"],
        timeout=tool.timeout,
    )
    made.is_plain = False
    return made
