"""`create_react_agent`: a model that calls tools until it has nothing more to call, as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from graphkit.annotations import annotations_of
from graphkit.compiled import CompiledGraph
from graphkit.constants import END, START
from graphkit.graph.state import StateGraph
from graphkit_prebuilt.react.chat import AgentState, AgentStateWithStructuredResponse
from graphkit_prebuilt.react.nodes import Answering, EachCall, Route, Structuring
from graphkit_prebuilt.react.tool_node import ToolNode


def create_react_agent(
    model: Any,
    tools: Sequence[Any] | ToolNode,
    *,
    prompt: Any = None,
    response_format: Any = None,
    pre_model_hook: Any = None,
    post_model_hook: Any = None,
    state_schema: Any = None,
    context_schema: Any = None,
    checkpointer: Any = None,
    store: Any = None,
    interrupt_before: Sequence[str] | Literal["*"] | None = None,
    interrupt_after: Sequence[str] | Literal["*"] | None = None,
    debug: bool = False,
    version: Literal["v1", "v2"] = "v2",
    name: str | None = None,
) -> CompiledGraph:
    """A graph in which a model answers a conversation and calls tools until it has nothing more to call.

        START -> [pre_model_hook ->] agent [-> post_model_hook] -> tools -> ... -> [generate_structured_response ->] END

    `model` is a model of ours or of Strands, `"provider:model"`, a chat model of LangChain (bound to tools or not) or
    a runnable of one, or a function of the state and the `Runtime` that chooses one of these for each answer. `tools`
    is what `ToolNode` takes, or one; dicts in it are tools that a LangChain model has built in. Each call of a tool is
    a task of its own: a task of the graph with `version="v2"`, one that the node "tools" calls with "v1". After tools
    whose `return_direct` is set the graph ends.

    The model is given `prompt` (a text or a system message) before the messages, or what a function or runnable
    makes of the state. `pre_model_hook` and `post_model_hook` are nodes around the model; the first may give it other
    messages as `llm_input_messages`. With a `response_format` (a schema, or a prompt and a schema) the model is asked
    once more at the end, for `structured_response`. `state_schema` has `messages` and `remaining_steps`; when these do
    not suffice for calls of tools, the answer says so.

    Messages may be dicts in the style of chat APIs or of content blocks, or objects of LangChain. New ones are in the
    style of the last one said, those of a LangChain model are its own. A call that was never answered is answered with
    an error for the model, not in the state. The rest is for `StateGraph.compile`. Raises `ValueError` for a
    `state_schema` without these keys. Behaviour: LangGraph's `create_react_agent`.
    """
    if version not in ("v1", "v2"):
        raise ValueError(f"version= is 'v1' or 'v2', not {version!r}")
    if state_schema is None:
        state_schema = AgentState if response_format is None else AgentStateWithStructuredResponse
    wanted = {"messages", "remaining_steps"} | (
        {"structured_response"} if response_format is not None else set()
    )
    missing = sorted(wanted - annotations_of(state_schema).keys())
    if missing:
        raise ValueError(f"state_schema= {state_schema.__name__} has no {', '.join(missing)}")
    builtin: list[Any] = []
    if not isinstance(tools, ToolNode):
        builtin = [tool for tool in tools if isinstance(tool, dict)]
        tools = ToolNode([tool for tool in tools if not isinstance(tool, dict)])
    agent = Answering(model, tools, builtin, prompt, response_format, state_schema, name)
    builder = StateGraph(state_schema, context_schema)
    entry, last = "agent", "agent"
    if pre_model_hook is not None:
        entry = "pre_model_hook"
        builder.add_node(entry, pre_model_hook)
        builder.add_edge(entry, "agent")
    builder.add_node("agent", agent, input_schema=agent.sees)
    builder.add_edge(START, entry)
    if post_model_hook is not None:
        last = "post_model_hook"
        builder.add_node(last, post_model_hook)
        builder.add_edge("agent", last)
    end = END
    if response_format is not None:
        end = "generate_structured_response"
        builder.add_node(end, Structuring(agent), input_schema=agent.sees)
        builder.add_edge(end, END)
    if tools.tools_by_name:
        builder.add_node("tools", EachCall(agent), input_schema=agent.sees)
        route = Route(agent, entry, end, version == "v2")
        again = [entry] if post_model_hook is not None else []  # which may have answered the calls itself
        builder.add_conditional_edges(last, route.after_model, ["tools", *again, end])
        if agent.direct:
            builder.add_conditional_edges("tools", route.after_tools, [entry, end])
        else:
            builder.add_edge("tools", entry)
    else:
        builder.add_edge(last, end)
    return builder.compile(
        checkpointer,
        store=store,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        debug=debug,
        name=name,
    )
