"""`@tool`: a tool from a function, its signature, its annotations and its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, overload

from graphkit.annotations import choices
from graphkit_prebuilt.content import JSONSchema
from graphkit_prebuilt.tools.context import ToolContext
from graphkit_prebuilt.tools.docstrings import described, docstring_of
from graphkit_prebuilt.tools.function import FunctionTool
from graphkit_prebuilt.tools.schema import input_schema_of
from graphkit_prebuilt.tools.timeouts import check_timeout
from graphkit_prebuilt.tools.tool import check_name

P = ParamSpec("P")
R = TypeVar("R")

CONTEXT_PARAMETER: Final = "tool_context"


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    function: None = None,
    /,
    *,
    description: str | None = None,
    inputSchema: JSONSchema | None = None,
    input_schema: JSONSchema | None = None,
    name: str | None = None,
    context: bool | str = False,
    timeout: float | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    description: str | None = None,
    inputSchema: JSONSchema | None = None,
    input_schema: JSONSchema | None = None,
    name: str | None = None,
    context: bool | str = False,
    timeout: float | None = None,
) -> Any:
    """Make a tool of a function: `@tool`, or `@tool(name=…, …)`. The result can be called like the function.

    The name is the function's, the description its docstring (without what that says about parameters), the input
    schema comes from the signature (`input_schema_of`). `input_schema` (Strands' spelling: `inputSchema`), a JSON
    schema, plain or as `{"json": …}`, is shown to the model instead; what it gives must fit the signature all the
    same. A parameter annotated `ToolContext` gets the context of the call, and so does `tool_context` with
    `context=True`, or the one that `context` names; a parameter `agent` gets the agent. `timeout` is in seconds:
    after it the model gets an error result, and an async function is cancelled (a blocking one runs on, and nobody
    waits for it).

    Raises `ValueError` for a name that no model can call (`InvalidToolUseNameException`), a `context` parameter that
    does not exist, a parameter without a JSON schema and a `timeout` that is none; `TypeError` for what is no function.
    """
    if inputSchema is not None and input_schema is not None:
        raise ValueError("inputSchema and input_schema are two spellings of one thing: give one of them")
    shown = input_schema if inputSchema is None else inputSchema
    parameter = CONTEXT_PARAMETER if context is True else context or None

    def made(wrapped: Any) -> FunctionTool[..., Any]:
        inner = wrapped.__func__ if isinstance(wrapped, (staticmethod, classmethod)) else wrapped
        if not callable(inner) or isinstance(inner, (type, FunctionTool)):
            raise TypeError(f"@tool makes a tool of a function, not of {wrapped!r:.200}")
        called = check_name(getattr(inner, "__name__", None) if name is None else name)
        if parameter is not None and parameter not in inspect.signature(inner).parameters:
            raise ValueError(
                f"tool {called!r} has no parameter {parameter!r}, which context={context!r} asks for"
            )
        schema = input_schema_of(inner, _injecting(parameter))
        result: FunctionTool[..., Any] = FunctionTool(
            inner,
            name=called,
            description=description or described(docstring_of(inner)).text or called,
            schema=schema,
            input_schema=schema.json_schema if shown is None else _unwrapped(shown),
            timeout=check_timeout(timeout),
        )
        result.descriptor = wrapped
        return result

    return made if function is None else made(function)


def _unwrapped(schema: JSONSchema) -> JSONSchema:
    inner: JSONSchema = schema["json"] if set(schema) == {"json"} else schema
    return inner


def _injecting(context_parameter: str | None) -> Callable[[str, Any], str | None]:
    def key(name: str, annotation: Any) -> str | None:
        kinds = choices(annotation)
        if name == context_parameter or ToolContext in kinds or _names(annotation, "ToolContext"):
            return "context"
        # A parameter of this name that is said to be text, say, is one that the model fills.
        if name == "agent" and any(
            kind in (inspect.Parameter.empty, Any) or "Agent" in getattr(kind, "__name__", str(kind))
            for kind in kinds
        ):
            return "agent"
        return None

    return key


def _names(annotation: Any, word: str) -> bool:
    """Whether an annotation that could not be resolved is about `word`."""
    return isinstance(annotation, str) and word in annotation
