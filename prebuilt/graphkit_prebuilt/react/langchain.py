"""Runnables and tools of LangChain in a graph. LangChain is known by its shapes; what is imported of it is loaded
already."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from graphkit.annotations import hints_of_function
from graphkit.errors import ToolInvocationError
from graphkit.types import Command
from graphkit_prebuilt.content import JSONSchema
from graphkit_prebuilt.loop.steps import Call, Steps
from graphkit_prebuilt.react.arguments import HIDDEN, CallContext, in_graph, key_of
from graphkit_prebuilt.tools.adapters import AdaptedTool, LangChainTool, as_tool
from graphkit_prebuilt.tools.schema import NotThere
from graphkit_prebuilt.tools.tool import Progress, last_of


class Invoked:
    """What calling a runnable of LangChain comes to, as a stream of one item: with a loop by `ainvoke`."""

    def __init__(self, runnable: Any, *args: Any) -> None:
        self.runnable = runnable
        self.args = args

    def __iter__(self) -> Iterator[Any]:
        yield self.runnable.invoke(*self.args)

    async def __aiter__(self) -> AsyncIterator[Any]:
        yield await self.runnable.ainvoke(*self.args)


def invoked(runnable: Any, *args: Any) -> Steps[Any]:
    """What calling a runnable of LangChain comes to, in the colour of the run."""
    return (yield from last_of(Invoked(runnable, *args), _unseen))


def _unseen(value: Any) -> Steps[None]:
    yield from ()


class GraphLangChainTool(AdaptedTool):
    """A tool of LangChain as a tool of a graph: it is given a whole call, and so returns a message or a `Command`."""

    def __init__(self, original: Any) -> None:
        adapted = as_tool(original)
        assert isinstance(adapted, LangChainTool)
        self.keys = _keys_of(original)
        self.runs = _carrying(original)
        spec = adapted.tool_spec
        schema = _without(spec["inputSchema"]["json"], self.keys)
        super().__init__(original, spec["name"], spec["description"], schema)
        self.return_direct = bool(getattr(original, "return_direct", False))

    def take(self, context: Any, progress: Progress) -> Steps[Any]:
        context = in_graph(context)
        use, original = context.tool_use, self.runs
        given = {name: value for name, value in use["input"].items() if name not in self.keys}
        call = {
            "name": self.tool_name,
            "args": {**given, **self._filled(context)},
            "id": use["toolUseId"],
            "type": "tool_call",
        }
        config = {**context.config}
        try:
            if getattr(original, "coroutine", None) is not None and getattr(original, "func", None) is None:
                value = yield Call(original.ainvoke, (call, config))  # it has nothing to run without a loop
            else:
                value = yield from invoked(original, call, config)
        except ValueError as error:
            if type(error).__name__ == "ValidationError":  # pydantic's: arguments that do not fit
                raise ToolInvocationError(self.tool_name, error, use["input"]) from error
            raise
        return _unpacked(value)

    def _filled(self, context: CallContext) -> dict[str, Any]:
        """What the graph fills. A parameter that has a default keeps it where there is nothing."""
        filled: dict[str, Any] = {}
        for name, key in self.keys.items():
            try:
                filled[name] = context.get(key)
            except NotThere:
                if key != HIDDEN and not _has_default(self.original, name):
                    raise
        return filled


# --- What a tool returns ------------------------------------------------------------------------------------


def _carrying(original: Any) -> Any:
    """The tool, whose `Command`s come through LangChain, which makes text of everything that is not its own."""
    if not hasattr(original, "model_copy"):
        return original
    run, arun = original._run, original._arun

    @functools.wraps(run)
    def carrying(*args: Any, **kwargs: Any) -> Any:
        return _packed(run(*args, **kwargs))

    @functools.wraps(arun)
    async def acarrying(*args: Any, **kwargs: Any) -> Any:
        return _packed(await arun(*args, **kwargs))

    twin = original.model_copy()
    vars(twin).update(_run=carrying, _arun=acarrying)
    return twin


@functools.cache
def _carrier() -> Any:
    from langchain_core.messages.tool import ToolOutputMixin

    class Carrier(ToolOutputMixin):
        def __init__(self, output: Any) -> None:
            self.output = output

    return Carrier


def _packed(value: Any) -> Any:
    if isinstance(value, list):
        return [_packed(part) for part in value]
    return _carrier()(value) if isinstance(value, Command) else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(part) for part in value]
    return value.output if type(value) is _carrier() else value


# --- What a model is told -----------------------------------------------------------------------------------


def _keys_of(original: Any) -> dict[str, str]:
    """What the graph fills of a LangChain tool's parameters. LangChain itself fills the id of the call and the
    config."""
    function = getattr(original, "func", None) or getattr(original, "coroutine", None)
    if function is None:
        function = getattr(original, "_run", None)
    hints = {} if function is None else hints_of_function(function)
    schema = getattr(original, "args_schema", None)
    for name, known in getattr(schema, "model_fields", {}).items():
        for mark in known.metadata:
            if hasattr(mark, "injects"):
                hints[name] = Annotated[known.annotation, mark]
    keys = {name: key_of(name, hint) for name, hint in hints.items() if name != "return"}
    return {
        name: key
        for name, key in keys.items()
        if key is not None and key not in ("config", "context", "tool_call_id")
    }


def _has_default(original: Any, name: str) -> bool:
    """Whether LangChain can call the tool without this parameter."""
    schema = original.get_input_schema() if hasattr(original, "get_input_schema") else None
    known = getattr(schema, "model_fields", {}).get(name)
    return known is not None and not known.is_required()


def _without(schema: JSONSchema, names: Any) -> JSONSchema:
    """The schema without these properties."""
    properties = schema.get("properties", {})
    if not any(name in properties for name in names):
        return schema
    found = {
        **schema,
        "properties": {name: part for name, part in properties.items() if name not in names},
        "required": [name for name in schema.get("required", ()) if name not in names],
    }
    if not any("$ref" in str(part) for part in found["properties"].values()):
        found.pop("$defs", None)
    return found
