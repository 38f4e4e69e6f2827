"""What others made and what `tools=` takes all the same: known by what it has, never imported."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Set
from functools import cached_property, partial
from types import MethodType, ModuleType
from typing import Any, Final

from graphkit_prebuilt.content import JSONSchema, ToolSpec
from graphkit_prebuilt.loop.steps import Call, Either, Steps
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.function import FunctionTool
from graphkit_prebuilt.tools.schema import untitled
from graphkit_prebuilt.tools.tool import AgentTool, Progress, StepTool, last_of

_NO_INPUT: Final[JSONSchema] = {"type": "object", "properties": {}}


class AdaptedTool(StepTool):
    """A tool whose spec is made from what somebody else's object says of itself."""

    def __init__(self, original: Any, name: str, description: str, schema: JSONSchema) -> None:
        self.original = original
        inner = schema.get("json", schema)
        self._spec: ToolSpec = {
            "name": name,
            "description": description or name,
            "inputSchema": {"json": inner or dict(_NO_INPUT)},
        }

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AdaptedTool) and self.original is other.original and self._spec == other._spec
        )

    def __hash__(self) -> int:
        return hash((id(self.original), self.tool_name))


class PythonAgentTool(AdaptedTool):
    """A function `(tool_use, **invocation_state) -> result` and its spec: Strands' form of a tool in a module."""

    def __init__(self, tool_name: str, tool_spec: ToolSpec, tool_func: Callable[..., Any]) -> None:
        super().__init__(tool_func, tool_name, tool_spec.get("description", ""), tool_spec["inputSchema"])

    @property
    def tool_type(self) -> str:
        return "python"

    def take(self, context: ToolContext, progress: Progress) -> Steps[Any]:
        state = {"agent": context.agent, **context.invocation_state}
        return (yield Call(self.original, (context.tool_use,), state, blocks=True))


class StrandsTool(AdaptedTool):
    """An object with Strands' `tool_name`, `tool_spec` and `stream`.

    A function with Strands' `@tool(context=True)` is given our `ToolContext`, so that it asks as a tool of ours does.
    An agent of Strands that asks is refused with a `RuntimeError`.
    """

    def __init__(self, original: Any, name: str, description: str, schema: JSONSchema) -> None:
        super().__init__(original, name, description, schema)
        parameters = inspect.signature(original.stream).parameters.values()
        self._takes_context = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        self._is_agent = getattr(original, "tool_type", None) == "agent"

    def take(self, context: ToolContext, progress: Progress) -> Steps[Any]:
        # Strands' own tools look for the agent here, and its agents for what only an agent of Strands has.
        state = {"agent": None if self._is_agent else context.agent, **context.invocation_state}
        more = {"_tool_context": context} if self._takes_context else {}  # as Strands' executors give theirs
        stream = self.original.stream(context.tool_use, state, **more)
        return self._result_in((yield from last_of(stream, lambda item: progress(_progress_in(item)))))

    def _result_in(self, item: Any) -> Any:
        if isinstance(item, dict) and "tool_interrupt_event" in item:
            names = ", ".join(repr(one.name) for one in item["tool_interrupt_event"]["interrupts"])
            raise RuntimeError(
                f"tool {self.tool_name!r} of Strands asks {names}, and what it would go on from is in its own memory, "
                f"where no saver keeps it: make it a tool or an agent of graphkit (from graphkit import Agent, tool)"
            )
        return item["tool_result"] if isinstance(item, dict) and "tool_result" in item else item


class LangChainTool(AdaptedTool):
    """An object with LangChain's `name`, `description`, `args_schema`, `invoke` and `ainvoke`.

    LangChain's own are given a whole call, whose id they may want, and return a message that says whether it failed.
    """

    def take(self, context: ToolContext, progress: Progress) -> Steps[Any]:
        given = context.tool_use["input"]
        if not isinstance(given, dict):
            raise ValueError(f"the input is no JSON object but {type(given).__name__}: {given!r:.200}")
        original = self.original
        if hasattr(original, "tool_call_schema"):
            args = {name: value for name, value in given.items() if name not in self._hidden}
            given = {
                "name": self.tool_name,
                "args": args,
                "id": context.tool_use["toolUseId"],
                "type": "tool_call",
            }
        # One made of an async function alone has nothing to run without a loop.
        if getattr(original, "coroutine", None) is not None and getattr(original, "func", None) is None:
            return (yield Call(original.ainvoke, (given,)))
        if not _awaits(original):
            return (yield Call(original.invoke, (given,), blocks=True))
        return (yield Either(partial(original.invoke, given), partial(original.ainvoke, given)))

    @cached_property
    def _hidden(self) -> Set[str]:
        """The parameters that no model is told of, and so none may fill."""
        if _takes_one_text(self.original):
            return frozenset()
        known = getattr(self.original.get_input_schema(), "model_fields", {})
        told = getattr(self.original.tool_call_schema, "model_fields", known)
        return known.keys() - told.keys()


def _awaits(original: Any) -> bool:
    """Whether a tool of LangChain has an async form of its own: else LangChain runs the other one in a thread."""
    if hasattr(original, "coroutine"):
        return original.coroutine is not None
    found = next((kind for kind in type(original).__mro__ if "_arun" in vars(kind)), None)
    return found is not None and found.__name__ != "BaseTool"


def _progress_in(item: Any) -> Any:
    """What a tool of Strands' yielded, without the event around it."""
    if isinstance(item, dict) and "tool_stream_event" in item:
        return item["tool_stream_event"].get("data")
    return item


# --- Recognising them -------------------------------------------------------------------------------------


def _ours(thing: Any) -> AgentTool | None:
    return thing if isinstance(thing, AgentTool) else None


def _class_method(thing: Any) -> AgentTool | None:
    """`@classmethod` above `@tool`, which does not bind the tool (Python 3.13)."""
    if isinstance(thing, MethodType) and isinstance(thing.__func__, FunctionTool):
        return thing.__func__.__get__(thing.__self__, type(thing.__self__))
    return None


def _strands(thing: Any) -> AgentTool | None:
    if isinstance(thing, type) or not all(
        hasattr(thing, name) for name in ("tool_name", "tool_spec", "stream")
    ):
        return None
    spec = thing.tool_spec
    return StrandsTool(thing, thing.tool_name, spec.get("description", ""), spec.get("inputSchema", {}))


def _langchain(thing: Any) -> AgentTool | None:
    if isinstance(thing, type) or not all(
        hasattr(thing, name) for name in ("name", "description", "args_schema", "invoke", "ainvoke")
    ):
        return None
    return LangChainTool(thing, thing.name, thing.description, _langchain_schema(thing))


def _takes_one_text(thing: Any) -> bool:
    """Whether it is LangChain's `Tool`, whose function takes one text; its schema of calls is that of its insides."""
    return thing.args_schema is None and list(getattr(thing, "args", ())) == ["tool_input"]


def _langchain_schema(thing: Any) -> JSONSchema:
    """What a model may give: without what LangChain injects (`tool_call_schema`), where the tool says so."""
    if _takes_one_text(thing):
        return {"type": "object", "properties": dict(thing.args), "required": ["tool_input"]}
    schema = getattr(thing, "tool_call_schema", None) or thing.args_schema
    if schema is None:
        return {"type": "object", "properties": dict(getattr(thing, "args", {}))}
    if isinstance(schema, dict):
        return schema
    make = getattr(schema, "model_json_schema", None) or schema.schema  # that of pydantic 1
    found: JSONSchema = untitled(make())
    return found


def _agent(thing: Any) -> AgentTool | None:
    """An agent, of ours or of Strands', with what it is a tool by default."""
    make = None if isinstance(thing, type) else getattr(thing, "as_tool", None)
    return as_tool(make()) if callable(make) else None


RECOGNISERS: Final[tuple[Callable[[Any], AgentTool | None], ...]] = (
    _ours,
    _class_method,
    _strands,
    _langchain,
    _agent,
)


def as_tool(thing: Any) -> AgentTool:
    """The tool that this is or stands for. Raises `TypeError` if it is none."""
    for recognise in RECOGNISERS:
        found = recognise(thing)
        if found is not None:
            return found
    if inspect.isroutine(thing):
        raise TypeError(f"{thing!r:.200} is a function but no tool: decorate it with @tool")
    raise TypeError(
        f"{thing!r:.200} is no tool. Tools are functions with @tool, AgentTool objects, agents, tools of "
        f"Strands and LangChain, modules of tools, ToolProviders, and lists of these"
    )


def tools_of_module(module: ModuleType) -> list[AgentTool]:
    """Those decorated in it, and that of its `TOOL_SPEC`, if it has one. Raises `TypeError` if there are none."""
    found: list[AgentTool] = [
        value
        for value in vars(module).values()
        if isinstance(value, FunctionTool) and value.__module__ == module.__name__
    ]
    spec = getattr(module, "TOOL_SPEC", None)
    if spec is not None:
        function = getattr(module, spec["name"], None)
        if not callable(function):
            raise TypeError(f"module {module.__name__} has a TOOL_SPEC but no function {spec['name']!r}")
        found.append(PythonAgentTool(spec["name"], spec, function))
    if not found:
        raise TypeError(f"module {module.__name__} has no tools: no function with @tool and no TOOL_SPEC")
    return found
