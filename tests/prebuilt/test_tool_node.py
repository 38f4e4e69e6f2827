"""`ToolNode` in a graph of one's own: calls as tasks, what tools are given and may return, and errors."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

import pytest

from graphkit import tool
from graphkit.errors import GraphkitError, InvalidUpdateError
from graphkit.graph import END, START, MessagesState, StateGraph
from graphkit.models import ScriptedModel, ToolCall
from graphkit.prebuilt import (
    InjectedState,
    InjectedStore,
    ToolNode,
    ToolRuntime,
    create_react_agent,
    tools_condition,
)
from graphkit.prebuilt.tool_node import ToolInvocationError
from graphkit.store.base import BaseStore
from graphkit.store.memory import InMemoryStore
from graphkit.types import Command, RunnableConfig, Send, interrupt
from tests.conftest import Graph, Runner, Saver


class State(MessagesState):
    user: NotRequired[str]


def calls(*made: tuple[str, Any]) -> dict[str, Any]:
    """What a model answers that calls these tools; the calls are named c0, c1, …"""
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"name": name, "args": args, "id": f"c{n}"} for n, (name, args) in enumerate(made)],
    }


def graph_of(node: Any, answer: Any, saver: Saver = None, **options: Any) -> Graph:
    """A graph whose model answers once, and whose tools run in `node`."""

    def agent(state: State) -> Any:
        done = state["messages"][-1].get("role") != "user"
        return {"messages": ["done" if done else answer]}

    builder = StateGraph(State)
    builder.add_node("agent", agent)
    builder.add_node("tools", node)
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", tools_condition)
    builder.add_edge("tools", "agent")
    return builder.compile(saver, **options)


GO = {"messages": [{"role": "user", "content": "go"}]}


def contents(values: Any) -> list[str]:
    return [message["content"] for message in values["messages"] if message["role"] == "tool"]


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def later(word: str) -> str:
    """Say it later."""
    return f"{word}, later"


# --- Calls --------------------------------------------------------------------------------------------------


def test_calls_in_request_order_with_tools_of_both_colours(
    saver: Saver, runner: Runner, config: RunnableConfig
) -> None:
    answer = calls(("later", {"word": "x"}), ("add", {"a": 1, "b": 2}), ("add", {"a": 1, "b": 2}))
    graph = graph_of(ToolNode([add, later]), answer, saver)
    values = runner.invoke(graph, GO, config)
    assert contents(values) == ["x, later", "3", "3"]
    assert [message.get("tool_call_id") for message in values["messages"][2:5]] == ["c0", "c1", "c2"]


def test_calls_are_tasks_with_questions_of_their_own(
    saver: Saver, runner: Runner, config: RunnableConfig
) -> None:
    ran: list[str] = []

    def ask(text: str) -> str:
        """Ask."""
        return f"{text}: {interrupt(text)}"

    def count() -> str:
        """Count."""
        ran.append("count")
        return "counted"

    answer = calls(("ask", {"text": "a"}), ("count", {}), ("ask", {"text": "b"}))
    graph = graph_of(ToolNode([ask, count]), answer, saver)
    asked = {question.value: question.id for question in runner.invoke(graph, GO, config)["__interrupt__"]}
    assert list(asked) == ["a", "b"]
    (left,) = runner.invoke(graph, Command(resume={asked["b"]: 2}), config)["__interrupt__"]
    assert left.id == asked["a"]
    assert contents(runner.invoke(graph, Command(resume={left.id: 1}), config)) == ["a: 1", "counted", "b: 2"]
    assert ran == ["count"]


def test_only_calls_without_a_result_run() -> None:
    ran: list[int] = []

    def note(n: int) -> str:
        """Note."""
        ran.append(n)
        return str(n)

    messages = [
        calls(("note", {"n": 0}), ("note", {"n": 1})),
        {"role": "tool", "content": "given", "tool_call_id": "c0"},
    ]
    assert [message.content for message in ToolNode([note]).invoke({"messages": messages})["messages"]] == [
        "1"
    ]
    assert ran == [1]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_without_a_graph(colour: str) -> None:
    node, messages = ToolNode([add, later]), [calls(("add", {"a": 1, "b": 2}), ("later", {"word": "x"}))]
    runner = Runner(colour)
    assert [m.content for m in runner.invoke(node, {"messages": messages})["messages"]] == ["3", "x, later"]
    assert [m.content for m in runner.invoke(node, messages)] == ["3", "x, later"]  # a list for a list
    bare = [{"name": "add", "args": {"a": 1, "b": 2}, "id": "c", "type": "tool_call"}]
    assert [m.content for m in runner.invoke(node, bare)] == ["3"]
    openai = [{"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}]
    assert [m.content for m in runner.invoke(node, openai)] == ["3"]


def test_sent_calls(runner: Runner) -> None:
    def fan(state: State) -> list[Send]:
        made = state["messages"][-1]["tool_calls"]
        with_context = {"__type": "tool_call_with_context", "tool_call": made[1], "state": state}
        return [Send("tools", made[:1]), Send("tools", with_context)]

    def whose(user: Annotated[str, InjectedState("user")]) -> str:
        """Whose."""
        return user

    builder = StateGraph(State)
    builder.add_node("agent", lambda state: {"messages": [calls(("add", {"a": 1, "b": 1}), ("whose", {}))]})
    builder.add_node("tools", _updating(ToolNode([add, whose])))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", fan, ["tools"])
    values = runner.invoke(builder.compile(), {**GO, "user": "Ada"})
    assert contents(values) == ["2", "Ada"]


def _updating(node: ToolNode) -> Any:
    """The node, whose answer to a list is an update too."""

    def run(given: Any) -> Any:
        found = node.invoke(given)
        return {"messages": found} if isinstance(found, list) else found

    return run


# --- What a tool is given -----------------------------------------------------------------------------------


def test_state_store_and_runtime(runner: Runner) -> None:
    seen: dict[str, Any] = {}

    def look(
        word: str,
        state: Annotated[dict[str, Any], InjectedState],
        user: Annotated[str, InjectedState("user")],
        store: Annotated[BaseStore, InjectedStore()],
        runtime: ToolRuntime,
        config: RunnableConfig,
    ) -> str:
        """Look."""
        seen.update(state=state, runtime=runtime, config=config)
        item = store.get(("words",), word)
        assert item is not None
        return f"{item.value['is']} for {user}"

    store = InMemoryStore()
    store.put(("words",), "x", {"is": "y"})
    node = ToolNode([look])
    (tool_,) = node.tools_by_name.values()
    assert list(tool_.tool_spec["inputSchema"]["json"]["properties"]) == ["word"]
    graph = graph_of(node, calls(("look", {"word": "x"})), store=store)
    values = runner.invoke(
        graph, {**GO, "user": "Ada"}, {"configurable": {"tenant": "t"}}, context={"deep": True}
    )
    assert contents(values) == ["y for Ada"]
    assert len(seen["state"]["messages"]) == 2
    runtime = seen["runtime"]
    assert (runtime.tool_call_id, runtime.context, runtime.store) == ("c0", {"deep": True}, store)
    assert runtime.state == seen["state"] and runtime.execution_info.task_id
    assert seen["config"]["configurable"]["tenant"] == "t"
    assert [known.tool_name for known in runtime.tools] == ["look"]


def test_calls_side_by_side_are_shown_as_what_the_node_returns(runner: Runner) -> None:
    graph = graph_of(ToolNode([add, later]), calls(("later", {"word": "x"}), ("add", {"a": 1, "b": 2})))
    chunks = runner.stream(graph, GO, stream_mode=["updates", "tasks", "messages"])
    updates = [chunk for mode, chunk in chunks if mode == "updates"]
    assert [list(chunk) for chunk in updates] == [["agent"], ["tools"], ["agent"]]
    assert contents(updates[1]["tools"]) == ["x, later", "3"]
    assert [chunk["name"] for mode, chunk in chunks if mode == "tasks"][2:4] == ["tools", "tools"]
    said = [(about["langgraph_node"], message["content"]) for mode, (message, about) in _messages(chunks)]
    assert said == [("agent", ""), ("tools", "x, later"), ("tools", "3")]


def _messages(chunks: list[Any]) -> list[Any]:
    return [chunk for chunk in chunks if chunk[0] == "messages"]


def test_a_tool_may_write_to_the_stream(runner: Runner) -> None:
    def loud(runtime: ToolRuntime) -> str:
        """Write."""
        runtime.stream_writer("half way")
        return "there"

    graph = graph_of(ToolNode([loud]), calls(("loud", {})))
    assert runner.stream(graph, GO, stream_mode="custom") == ["half way"]


def test_what_is_not_there_to_be_injected() -> None:
    def whose(user: Annotated[str, InjectedState("user")]) -> str:
        """Whose."""
        return user

    def stored(store: Annotated[BaseStore, InjectedStore]) -> str:
        """Stored."""
        return str(store)

    for function, reason in ((whose, "wants 'user' of the state"), (stored, "give it a store=")):
        with pytest.raises(RuntimeError, match=reason):
            ToolNode([function]).invoke({"messages": [calls((function.__name__, {}))]})


def test_what_is_not_there_is_the_default_of_its_parameter() -> None:
    def look(
        user: Annotated[str | None, InjectedState("user")] = "nobody",
        store: Annotated[BaseStore | None, InjectedStore] = None,
    ) -> str:
        """Look."""
        return f"{user} {store}"

    node = ToolNode([look])
    given = {"messages": [calls(("look", {"user": "the model's"}))]}
    assert contents(node.invoke(given)) == ["nobody None"]
    assert contents(node.invoke({**given, "user": None})) == ["None None"]


def test_a_tool_of_ours_gets_its_context(runner: Runner) -> None:
    from graphkit import ToolContext

    @tool(context=True)
    def who(tool_context: ToolContext) -> str:
        """Who."""
        return str(tool_context.interrupt("who", reason="who is it?"))

    graph = graph_of(ToolNode([who]), calls(("who", {})))
    (question,) = runner.invoke(graph, GO)["__interrupt__"]
    assert (question.name, question.value) == ("who", "who is it?")


# --- What a tool returns ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        (3, "3"),
        (None, "null"),
        ({"a": "ä"}, '{"a": "ä"}'),
        ([1, "b"], '[1, "b"]'),
        ({"status": "success", "content": "an answer of some service"}, None),
    ],
)
def test_values_are_text(value: Any, shown: str | None) -> None:
    def give() -> Any:
        """Give."""
        return value

    (message,) = ToolNode([give]).invoke([calls(("give", {}))])
    assert message.status == "success"
    assert message.content == (shown or '{"status": "success", "content": "an answer of some service"}')


def test_commands_are_passed_on(saver: Saver, runner: Runner, config: RunnableConfig) -> None:
    def rename(name: str, runtime: ToolRuntime) -> Command[Any]:
        """Rename."""
        message = {"role": "tool", "content": "renamed", "tool_call_id": runtime.tool_call_id}
        return Command(update={"user": name, "messages": [message]})

    answer = calls(("rename", {"name": "Ada"}), ("add", {"a": 1, "b": 2}))
    values = runner.invoke(graph_of(ToolNode([rename, add]), answer, saver), GO, config)
    assert values["user"] == "Ada"
    assert contents(values) == ["renamed", "3"]
    swapped = calls(("add", {"a": 1, "b": 2}), ("rename", {"name": "Bob"}), ("add", {"a": 2, "b": 2}))
    values = runner.invoke(graph_of(ToolNode([rename, add]), swapped), GO)
    assert contents(values) == ["3", "renamed", "4"]


def test_a_command_may_leave_the_graph(runner: Runner) -> None:
    def hand_over() -> Command[Any]:
        """Hand over."""
        return Command(goto="other", graph=Command.PARENT, update={"user": "handed over"})

    inner = graph_of(ToolNode([hand_over]), calls(("hand_over", {})))
    builder = StateGraph(State)
    builder.add_node("inner", inner, destinations=["other"])
    builder.add_node("other", lambda state: {"messages": ["other"]})
    builder.add_edge(START, "inner")
    values = runner.invoke(builder.compile(), GO)
    assert (values["user"], values["messages"][-1]["content"]) == ("handed over", "other")


def test_a_command_without_a_result() -> None:
    def forget() -> Command[Any]:
        """Forget."""
        return Command(update={"user": "Ada"})

    with pytest.raises(InvalidUpdateError, match=r"'forget' returned a Command.*'c0'"):
        ToolNode([forget]).invoke([calls(("forget", {}))])


@pytest.mark.parametrize("inside", [False, True], ids=["beside", "inside"])
def test_of_several_commands_one_has_the_result(runner: Runner, inside: bool) -> None:
    def note(runtime: ToolRuntime) -> list[Any]:
        """Note."""
        said: Any = {"role": "tool", "content": "noted", "tool_call_id": runtime.tool_call_id}
        said = Command(update={"messages": [said]}) if inside else said
        return [Command(update={"user": "Ada"}), said]

    values = runner.invoke(graph_of(ToolNode([note]), calls(("note", {}))), GO)
    assert (values["user"], contents(values)) == ("Ada", ["noted"])


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (
            calls(("see", {})),
            [{"type": "text", "text": "a cat"}, {"type": "image_url", "image_url": {"url": "u"}}],
        ),
        (
            {"role": "assistant", "content": [{"toolUse": {"name": "see", "toolUseId": "c0", "input": {}}}]},
            [{"text": "a cat"}, {"text": '{"type": "image_url", "image_url": {"url": "u"}}'}],
        ),
    ],
    ids=["chat", "blocks"],
)
def test_parts_of_a_message_stay_parts(asked: Any, shown: Any) -> None:
    def see() -> list[Any]:
        """See."""
        return [{"type": "text", "text": "a cat"}, {"type": "image_url", "image_url": {"url": "u"}}]

    (message,) = ToolNode([see]).invoke([asked])
    found = message["content"]
    assert (found[0]["toolResult"]["content"] if "toolResult" in found[0] else found) == shown


def test_parts_that_our_models_cannot_be_sent_are_text_for_them() -> None:
    def see() -> list[Any]:
        """See."""
        return [{"type": "search_result", "title": "a cat"}]

    model = ScriptedModel([ToolCall("see", {}), "seen"])
    create_react_agent(model, [see]).invoke({"messages": ["go"]})
    (block,) = model.requests[1].messages[-1]["content"]
    assert block["toolResult"]["content"] == [{"text": '{"type": "search_result", "title": "a cat"}'}]


def test_a_tool_may_make_its_message_itself() -> None:
    def own(runtime: ToolRuntime) -> dict[str, Any]:
        """Own."""
        return {"role": "tool", "content": "mine", "tool_call_id": runtime.tool_call_id, "note": 1}

    assert ToolNode([own]).invoke([calls(("own", {}))]) == [
        {"role": "tool", "content": "mine", "tool_call_id": "c0", "note": 1}
    ]


# --- Errors -------------------------------------------------------------------------------------------------


def fail(kind: str) -> str:
    """Fail."""
    raise {"value": ValueError, "key": KeyError, "os": OSError}[kind]("it failed")


def told(node: ToolNode, kind: str) -> str:
    (message,) = node.invoke([calls(("fail", {"kind": kind}))])
    assert message.status == "error"
    content: str = message.content
    return content


def of_values(error: ValueError) -> str:
    return f"a value: {error}"


def of_two(error: ValueError | OSError) -> str:
    return type(error).__name__


@pytest.mark.parametrize(
    ("handles", "handled"),
    [
        (True, {"value": "Error: it failed", "os": "Error: it failed"}),
        ("try again", {"value": "try again", "os": "try again"}),
        (lambda error: repr(error), {"value": "ValueError('it failed')", "key": "KeyError('it failed')"}),
        (of_values, {"value": "a value: it failed"}),
        (of_two, {"value": "ValueError", "os": "OSError"}),
        (OSError, {"os": "Error: it failed"}),
        ((ValueError, OSError), {"value": "Error: it failed", "os": "Error: it failed"}),
        (False, {}),
    ],
)
def test_handle_tool_errors(handles: Any, handled: dict[str, str]) -> None:
    node = ToolNode([fail], handle_tool_errors=handles)
    for kind, error in (("value", ValueError), ("key", KeyError), ("os", OSError)):
        if kind in handled:
            assert told(node, kind) == handled[kind]
        elif handles in (True, "try again") or getattr(handles, "__name__", "") == "<lambda>":
            assert told(node, kind)
        else:
            with pytest.raises(error, match="it failed"):
                told(node, kind)


def test_arguments_that_do_not_fit_are_told_unless_nothing_is() -> None:
    answer = calls(("add", {"a": "one", "b": 2}))
    (message,) = ToolNode([add]).invoke([answer])
    assert message.status == "error" and "a: Input should be a valid integer" in message.content
    with pytest.raises(ToolInvocationError, match="add") as raised:
        ToolNode([add], handle_tool_errors=False).invoke([answer])
    assert isinstance(raised.value, GraphkitError) and raised.value.tool_name == "add"


def test_a_question_is_no_error(runner: Runner) -> None:
    def ask() -> str:
        """Ask."""
        return str(interrupt("?"))

    graph = graph_of(ToolNode([ask], handle_tool_errors=True), calls(("ask", {})))
    assert runner.invoke(graph, GO)["__interrupt__"][0].value == "?"


@pytest.mark.parametrize("handles", [5, (ValueError, 5)])
def test_what_cannot_handle_errors(handles: Any) -> None:
    with pytest.raises(ValueError, match="handle_tool_errors"):
        ToolNode([add], handle_tool_errors=handles)


def test_input_without_calls() -> None:
    useless: list[Any] = [
        {"messages": []},
        {"other": 1},
        [],
        {"messages": [{"role": "user", "content": "x"}]},
    ]
    for given in useless:
        with pytest.raises(ValueError, match="no message of the assistant"):
            ToolNode([add]).invoke(given)


def test_another_key_for_the_messages() -> None:
    node = ToolNode([add], messages_key="said")
    found = node.invoke({"said": [calls(("add", {"a": 1, "b": 2}))]})
    assert [message.content for message in found["said"]] == ["3"]


# --- tools_condition ----------------------------------------------------------------------------------------


def test_tools_condition() -> None:
    answer, plain = calls(("add", {})), {"role": "assistant", "content": "done"}
    blocks = {"role": "assistant", "content": [{"toolUse": {"name": "a", "toolUseId": "1", "input": {}}}]}
    for message, expected in ((answer, "tools"), (plain, END), (blocks, "tools")):
        assert tools_condition({"messages": [message]}) == expected
        assert tools_condition([message]) == expected
        assert tools_condition({"said": [message]}, messages_key="said") == expected
    with pytest.raises(ValueError, match="no messages"):
        tools_condition({"messages": []})
