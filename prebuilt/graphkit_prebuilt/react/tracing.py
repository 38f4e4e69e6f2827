"""Calls of tools as LangChain's callbacks hear of them. LangChain's own tools tell of themselves."""

from __future__ import annotations

from functools import partial
from typing import Any

from graphkit_prebuilt.loop.steps import Either, Steps
from graphkit_prebuilt.react.arguments import CallContext
from graphkit_prebuilt.react.langchain import GraphLangChainTool
from graphkit_prebuilt.tools.tool import AgentTool


def is_traced(tool: AgentTool, context: CallContext) -> bool:
    """Whether somebody hears of a call of this tool only from us."""
    frame = context.frame
    if frame is None or not frame.attempt.scope.heard:
        return False
    return not isinstance(tool, GraphLangChainTool) and bool(context.config.get("callbacks"))


def traced(steps: Steps[Any], tool: AgentTool, context: CallContext) -> Steps[Any]:
    """The steps of a call, with its start and its end for the callbacks of its run."""
    from graphkit.tracing import TracedTool

    config: Any = context.config
    call = TracedTool(config, tool.tool_name, context.tool_use["input"])
    yield Either(call.__enter__, call.__aenter__)
    try:
        call.output = yield from steps
    except GeneratorExit:
        raise
    except BaseException as error:
        yield _end(call, error)
        raise
    yield _end(call, None)
    return call.output


def _end(call: Any, error: BaseException | None) -> Either:
    return Either(partial(call.__exit__, None, error, None), partial(call.__aexit__, None, error, None))
