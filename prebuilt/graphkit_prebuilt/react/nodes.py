"""The nodes of a `create_react_agent`, and the ways between them. They are given the state as a dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict

from graphkit.annotations import annotations_of
from graphkit.channels import EphemeralValue
from graphkit.engine.program import Seen
from graphkit.frame import Frame, current, running
from graphkit.graph.schema import shape_of
from graphkit.runtime import runtime_of
from graphkit.types import Send
from graphkit_checkpoint.serde import register_annotations
from graphkit_prebuilt.content import ToolSpec
from graphkit_prebuilt.loop.steps import Call, Steps, awaited, blocking
from graphkit_prebuilt.react.answering import answered, bound, model_of, structured
from graphkit_prebuilt.react.prompting import prompt_of, prompted
from graphkit_prebuilt.react.reading import calls_of, item, last_answer, style_of
from graphkit_prebuilt.react.tool_node import ToolNode
from graphkit_prebuilt.react.writing import answer, style_for

NEED_MORE_STEPS: Final = "Sorry, need more steps to process this request."
_NO_USAGE: Final = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
_NAME: Final = "create_react_agent()"


class ModelInput(TypedDict, total=False):
    """What a `pre_model_hook` may give the model instead of the messages."""

    llm_input_messages: Annotated[list[Any], EphemeralValue]


class Answering:
    """The node "agent", and what the others have to know of it."""

    def __init__(
        self,
        model: Any,
        tools: ToolNode,
        builtin: list[Any],
        prompt: Any,
        response_format: Any,
        state_schema: Any,
        name: str | None,
    ) -> None:
        self.tools = tools
        self.specs: list[ToolSpec] = [tool.tool_spec for tool in tools.tools_by_name.values()]
        self.direct = {
            name for name, tool in tools.tools_by_name.items() if getattr(tool, "return_direct", False)
        }
        self.name = name
        self.model, self.kind = model_of(model)
        self.unbound = self.model
        if self.kind == "langchain":
            self.model = bound(self.model, self.specs, builtin)
        elif builtin and self.kind == "ours":
            raise TypeError(
                f"{builtin[0]!r:.200} is a tool that a model of LangChain may have built in; this is none"
            )
        self.prompt = prompt_of(prompt)
        self.response_prompt, self.response_schema = (
            response_format if isinstance(response_format, tuple) else (None, response_format)
        )
        register_annotations(self.response_schema if isinstance(self.response_schema, type) else None)
        # Nodes are given the state as a dict, whatever it is for the user's functions.
        hints = {**annotations_of(state_schema), **annotations_of(ModelInput)}
        self.sees: Any = TypedDict("AgentInput", hints, total=False)  # type: ignore[misc]
        self._build = shape_of(state_schema, frozenset()).build
        self._keys = frozenset(annotations_of(state_schema))

    def state(self, view: Mapping[str, Any]) -> Any:
        """The state as the user's functions know it."""
        values = {key: value for key, value in view.items() if key in self._keys}
        return values if self._build is None else self._build(values)

    def invoke(self, view: Any) -> Any:
        return blocking(self._answer(view, running(_NAME)))

    async def ainvoke(self, view: Any) -> Any:
        return await awaited(self._answer(view, running(_NAME)))

    def _answer(self, view: Mapping[str, Any], frame: Frame) -> Steps[dict[str, Any]]:
        given = view.get("llm_input_messages") or view.get("messages")
        if given is None:
            raise ValueError("the state has no messages, so there is nothing to answer")
        messages: Any = [*self.prompt, *given] if isinstance(self.prompt, list) else given
        if not isinstance(self.prompt, list):
            state = self.state({**view, "messages": given})
            messages = yield from prompted(self.prompt, state, frame)
        model, kind = yield from self.chosen(view, frame)
        message = yield from answered(model, kind, messages, self.specs, frame, self.name)
        if self._wants_more(view, message):
            style = style_of(message) if kind == "langchain" else style_for(given)
            content = [{"text": NEED_MORE_STEPS}]
            message = answer(
                style,
                content,
                stop_reason="end_turn",
                usage=_NO_USAGE,
                name=self.name,
                message_id=item(message, "id"),
            )
        return {"messages": [message]}

    def chosen(
        self, view: Mapping[str, Any], frame: Frame, *, unbound: bool = False
    ) -> Steps[tuple[Any, Any]]:
        """The model for this answer, and its kind."""
        if self.kind != "function":
            return (self.unbound if unbound else self.model), self.kind
        found = yield Call(self.model, (self.state(view), runtime_of(frame)))
        model, kind = model_of(found)
        if kind == "function":
            raise TypeError(f"the function for model= has returned {found!r:.200}, which is no model")
        return model, kind

    def _wants_more(self, view: Mapping[str, Any], message: Any) -> bool:
        """Whether the steps that are left, this one among them, do not suffice for what the model wants: one for its
        tools, and one to read their results unless these are the answer."""
        left = view.get("remaining_steps")
        if left is None or left >= 3 or not (calls := calls_of(message)):
            return False
        return left < 2 or not all(call["name"] in self.direct for call in calls)


class Structuring:
    """The node "generate_structured_response"."""

    def __init__(self, agent: Answering) -> None:
        self.agent = agent

    def invoke(self, view: Any) -> Any:
        return blocking(self._steps(view, running(_NAME)))

    async def ainvoke(self, view: Any) -> Any:
        return await awaited(self._steps(view, running(_NAME)))

    def _steps(self, view: Mapping[str, Any], frame: Frame) -> Steps[dict[str, Any]]:
        agent = self.agent
        messages = list(view["messages"])
        if agent.response_prompt is not None:
            messages.insert(0, {"role": "system", "content": agent.response_prompt})
        model, kind = yield from agent.chosen(view, frame, unbound=True)
        return {
            "structured_response": (
                yield from structured(model, kind, messages, agent.response_schema, frame)
            )
        }


class EachCall:
    """The node "tools": one call, if it was sent one, else all that have no result."""

    sees_state = True

    def __init__(self, agent: Answering) -> None:
        self.agent = agent

    def invoke(self, given: Any) -> Any:
        if not isinstance(given, Seen):
            return self.agent.tools.invoke(self._state(given))
        return self.agent.tools.combined([blocking(self._one(given))])

    async def ainvoke(self, given: Any) -> Any:
        if not isinstance(given, Seen):
            return await self.agent.tools.ainvoke(self._state(given))
        return self.agent.tools.combined([await awaited(self._one(given))])

    def _state(self, given: Any) -> Any:
        """What was given, if it is the state; a list of calls stays what it is."""
        return self.agent.state(given) if isinstance(given, Mapping) and "__type" not in given else given

    def _one(self, seen: Seen) -> Steps[Any]:
        tools, state = self.agent.tools, self.agent.state(seen.view)
        if isinstance(seen.arg, int):
            messages = seen.view["messages"]
            message, calls = last_answer(messages)
            if messages[-1] is not message:  # some of them may have been answered
                calls = calls_of(message)
            return tools.serve(calls[seen.arg], state, style_of(message), current.get())
        (one,), given, style = tools.read(seen.arg)
        return tools.serve(one, state if isinstance(given, list) else given, style, current.get())


class Route:
    """Where the graph goes next."""

    def __init__(self, agent: Answering, entry: str, end: str, sends: bool) -> None:
        self.agent = agent
        self.entry = entry
        self.end = end
        self.sends = sends

    def after_model(self, state: Any) -> Any:
        messages = item(state, "messages") or []
        message, calls = last_answer(messages)
        if calls:
            if not self.sends:
                return "tools"
            if messages[-1] is message:  # nobody has answered any of them
                return [Send("tools", number) for number in range(len(calls))]
            numbers = [number for number, call in enumerate(calls_of(message)) if call in calls]
            return [Send("tools", number) for number in numbers]
        # A hook after the model may have answered the calls itself.
        return (
            self.entry
            if message is not None and messages[-1] is not message and calls_of(message)
            else self.end
        )

    def after_tools(self, state: Any) -> str:
        """To the end after a tool that returns directly, whatever else was called beside it: every call's task asks
        this, and sees no result but its own."""
        message, _ = last_answer(item(state, "messages") or [])
        called = {call["name"] for call in calls_of(message)} if message is not None else set()
        return self.end if called & self.agent.direct else self.entry
