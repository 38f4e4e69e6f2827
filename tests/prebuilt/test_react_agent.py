"""`create_react_agent`: its loop, what it takes, and what it says about what it does not take."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel

from graphkit import tool
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import InvalidResponseError, StructuredOutputException
from graphkit.graph.message import REMOVE_ALL_MESSAGES, RemoveMessage, add_messages
from graphkit.managed import RemainingSteps
from graphkit.models.scripted import ScriptedModel, ToolCall, Turn
from graphkit.prebuilt import InjectedStore, ToolNode, create_react_agent
from graphkit.prebuilt.chat_agent_executor import AgentState
from graphkit.runtime import Runtime
from graphkit.store.base import BaseStore
from graphkit.store.memory import InMemoryStore
from graphkit.types import Command, RunnableConfig, interrupt
from tests.conftest import Runner
from tests.prebuilt.conftest import Agent, agent_of, results, said


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The one.
        b: The other.
    """
    return a + b


def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


def another_add() -> Any:
    def add() -> None:
        """Something else."""

    return add


SUM = ToolCall("add", {"a": 1, "b": 2})


# --- The loop -----------------------------------------------------------------------------------------------


def test_the_model_calls_tools_until_it_has_nothing_more_to_call(
    agent: Agent, runner: Runner, config: RunnableConfig
) -> None:
    graph = agent([["let me see", SUM, ToolCall("greet", {"name": "Ada"})], SUM, "done"], [add, greet])
    values = runner.invoke(graph, said("go"), config)
    assert [(message.type, message.content) for message in values["messages"]] == [
        ("human", "go"),
        ("ai", "let me see"),
        ("tool", "3"),
        ("tool", "hello Ada"),
        ("ai", ""),
        ("tool", "3"),
        ("ai", "done"),
    ]
    again = runner.get_state(graph, config).values["messages"]
    assert again == values["messages"]
    assert [type(message) for message in again] == [type(message) for message in values["messages"]]


def test_each_call_is_a_task_of_its_own(agent: Agent, runner: Runner, config: RunnableConfig) -> None:
    graph = agent([[SUM, ToolCall("greet", {"name": "Ada"})], "done"], [add, greet])
    chunks = runner.stream(graph, said("go"), config, stream_mode="updates")
    assert [list(chunk) for chunk in chunks] == [["agent"], ["tools"], ["tools"], ["agent"]]
    assert sorted(results(chunk["tools"])[0] for chunk in chunks[1:3]) == ["3", "hello Ada"]


def test_a_conversation_goes_on(agent: Agent, runner: Runner, config: RunnableConfig) -> None:
    graph = agent(["one", "two"])
    runner.invoke(graph, said("first"), config)
    values = runner.invoke(graph, said("second"), config)
    assert [message.content for message in values["messages"]] == ["first", "one", "second", "two"]


def test_a_turn_leaves_as_many_bytes_however_long_the_conversation_is(tmp_path: Path) -> None:
    def stored(turns: int) -> int:
        with closing(SqliteSaver(tmp_path / f"{turns}.sqlite", synchronous="NORMAL")) as saver:
            graph = agent_of([*[SUM] * turns, "done"], [add], checkpointer=saver)
            graph.invoke(said("go"), {"configurable": {"thread_id": "1"}, "recursion_limit": 1000})
            with saver.engine.connect() as connection:
                sizes = [
                    f"SELECT sum(length(body)) FROM {table}"
                    for table in ("graphkit_checkpoint", "graphkit_value", "graphkit_write")
                ]
                return sum(connection.exec_driver_sql(size).scalar() or 0 for size in sizes)

    one, early, late = stored(1), stored(31), stored(61)
    assert late - early <= 1.05 * (early - one)


def test_it_is_told_of_the_tools_and_the_prompt() -> None:
    model = ScriptedModel(["hi"])
    create_react_agent(model, [add], prompt="Be kind.").invoke(said("go"))
    (request,) = model.requests
    assert request.system_prompt == "Be kind."
    assert request.tool_specs is not None
    (spec,) = request.tool_specs
    assert (spec["name"], spec["description"]) == ("add", "Add two numbers.")
    assert spec["inputSchema"]["json"]["properties"]["a"] == {"type": "integer", "description": "The one."}


def test_without_tools_it_is_one_node() -> None:
    graph = agent_of(["hi"])
    assert sorted(graph.get_graph().nodes) == ["__end__", "__start__", "agent"]
    assert graph.invoke(said("go"))["messages"][-1].content == "hi"


def test_its_drawing() -> None:
    edges = {(edge.source, edge.target) for edge in agent_of([], [add]).get_graph().edges}
    assert edges == {
        ("__start__", "agent"),
        ("agent", "tools"),
        ("agent", "__end__"),
        ("tools", "agent"),
    }
    hooked = agent_of([], [add], pre_model_hook=greet, post_model_hook=greet, response_format=Answer)
    assert {(edge.source, edge.target) for edge in hooked.get_graph().edges} == {
        ("__start__", "pre_model_hook"),
        ("pre_model_hook", "agent"),
        ("agent", "post_model_hook"),
        ("post_model_hook", "tools"),
        ("post_model_hook", "pre_model_hook"),
        ("post_model_hook", "generate_structured_response"),
        ("tools", "pre_model_hook"),
        ("generate_structured_response", "__end__"),
    }


def test_it_takes_tools_of_ours_and_a_tool_node() -> None:
    @tool
    def shout(text: str) -> dict[str, Any]:
        """Shout."""
        return {"status": "error", "content": [{"text": text.upper()}]}

    for tools in ([shout], ToolNode([shout])):
        values = agent_of([ToolCall("shout", {"text": "a"}), "done"], tools).invoke(said("go"))
        (result,) = [message for message in values["messages"] if message.type == "tool"]
        assert (result.content, result.status, result.name) == ("A", "error", "shout")


# --- Questions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_tools_ask_and_those_that_have_finished_do_not_run_again(
    agent: Agent, runner: Runner, config: RunnableConfig, version: str
) -> None:
    ran: list[str] = []

    def ask(text: str) -> str:
        """Ask."""
        return f"{text}: {interrupt(text)}"

    def count() -> str:
        """Count."""
        ran.append("count")
        return "counted"

    calls = [ToolCall("ask", {"text": "a"}), ToolCall("count"), ToolCall("ask", {"text": "b"})]
    graph = agent([calls, "done"], [ask, count], version=version)
    first = {
        question.value: question for question in runner.invoke(graph, said("go"), config)["__interrupt__"]
    }
    assert sorted(first) == ["a", "b"]
    (left,) = runner.invoke(graph, Command(resume={first["b"].id: 2}), config)["__interrupt__"]
    assert left.id == first["a"].id
    values = runner.invoke(graph, Command(resume={left.id: 1}), config)
    assert results(values) == ["a: 1", "counted", "b: 2"]
    assert ran == ["count"]


# --- Prompts ------------------------------------------------------------------------------------------------


def test_a_prompt_may_be_a_message_or_a_function(runner: Runner) -> None:
    def of_state(state: Any, config: RunnableConfig) -> list[Any]:
        return [
            {"role": "system", "content": f"thread {config['configurable']['thread_id']}"},
            *state["messages"],
        ]

    async def later(state: Any) -> list[Any]:
        return [{"role": "system", "content": "later"}, *state["messages"]]

    for prompt, expected in (
        ({"role": "system", "content": "as a message"}, "as a message"),
        (of_state, "thread t"),
        (later, "later"),
    ):
        model = ScriptedModel(["hi"])
        graph = create_react_agent(model, [], prompt=prompt)
        runner.invoke(graph, said("go"), {"configurable": {"thread_id": "t"}})
        assert model.requests[0].system_prompt == expected
        assert [message["role"] for message in model.requests[0].messages] == ["user"]


def test_the_prompt_is_not_in_the_state() -> None:
    assert len(agent_of(["hi"], prompt="Be kind.").invoke(said("go"))["messages"]) == 2


# --- Models -------------------------------------------------------------------------------------------------


class Context(BaseModel):
    word: str


def test_a_function_chooses_the_model(runner: Runner) -> None:
    def choose(state: Any, runtime: Runtime[Context]) -> ScriptedModel:
        return ScriptedModel([f"{runtime.context.word} {len(state['messages'])}"])

    async def choose_later(state: Any, runtime: Runtime[Context]) -> ScriptedModel:
        return choose(state, runtime)

    for function in (choose, choose_later):
        graph = create_react_agent(function, [add], context_schema=Context)
        values = runner.invoke(graph, said("go"), context={"word": "chosen"})
        assert values["messages"][-1].content == "chosen 1"


def test_a_function_that_chooses_no_model() -> None:
    with pytest.raises(TypeError, match="is no model"):
        create_react_agent(lambda state, runtime: 7, []).invoke(said("go"))
    with pytest.raises(TypeError, match="has returned"):
        create_react_agent(lambda state, runtime: lambda: None, []).invoke(said("go"))


@pytest.mark.parametrize("model", [5, ScriptedModel])
def test_what_is_no_model(model: Any) -> None:
    with pytest.raises(TypeError, match="is no model"):
        create_react_agent(model, [])


def test_the_answer_has_the_name_of_the_agent() -> None:
    assert agent_of(["hi"], name="bob").invoke(said("go"))["messages"][-1].name == "bob"


def test_text_is_streamed_and_a_message_is_shown_once(runner: Runner) -> None:
    graph = agent_of([Turn(text="abcd", chunks=2, calls=[SUM]), "done"], [add])
    shown = [
        (message.content, about["langgraph_node"])
        for message, about in runner.stream(graph, said("go"), stream_mode="messages")
    ]
    assert shown == [("ab", "agent"), ("cd", "agent"), ("3", "tools"), ("done", "agent")]


def test_why_a_model_stopped_early_is_told() -> None:
    values = agent_of([Turn(text="and so", stop_reason="max_tokens")]).invoke(said("go"))
    assert values["messages"][-1].response_metadata == {"stop_reason": "max_tokens"}


# --- Styles of messages -------------------------------------------------------------------------------------


def test_content_blocks_are_answered_in_content_blocks(agent: Agent, config: RunnableConfig) -> None:
    graph = agent([["hm", SUM], "done"], [add])
    values = graph.invoke({"messages": [{"role": "user", "content": [{"text": "go"}]}]}, config)
    blocks = [message["content"] for message in values["messages"]]
    (call,) = [block["toolUse"] for block in blocks[1] if "toolUse" in block]
    assert blocks == [
        [{"text": "go"}],
        [{"text": "hm"}, {"toolUse": call}],
        [{"toolResult": {"toolUseId": call["toolUseId"], "status": "success", "content": [{"text": "3"}]}}],
        [{"text": "done"}],
    ]
    assert [message["role"] for message in values["messages"]] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize(
    "given", ["go", ("user", "go"), {"role": "user", "content": "go"}, {"type": "human", "content": "go"}]
)
def test_the_forms_of_a_message(given: Any) -> None:
    model = ScriptedModel(["hi"])
    values = create_react_agent(model, []).invoke({"messages": given if isinstance(given, str) else [given]})
    assert model.requests[0].messages == [{"role": "user", "content": [{"text": "go"}]}]
    assert values["messages"][0].content == "go"


def test_a_message_reads_like_one_of_langchain() -> None:
    values = agent_of([["hm", ToolCall("add", {"a": 1, "b": 2}, "c1")], "done"], [add]).invoke(said("go"))
    answer, result = values["messages"][1:3]
    assert answer.tool_calls == [{"name": "add", "args": {"a": 1, "b": 2}, "id": "c1", "type": "tool_call"}]
    assert answer.usage_metadata == {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    assert (result.tool_call_id, result.status, result.text) == ("c1", "success", "3")
    assert "add (c1)" in answer.pretty_repr()
    assert isinstance(answer, dict)


# --- Hooks --------------------------------------------------------------------------------------------------


def test_pre_model_hook_gives_the_model_other_messages(
    agent: Agent, runner: Runner, config: RunnableConfig
) -> None:
    def trim(state: Any) -> dict[str, Any]:
        return {"llm_input_messages": state["messages"][-1:]}

    model = ScriptedModel(["one", "two"])
    graph = create_react_agent(model, [add], pre_model_hook=trim, checkpointer=agent(["x"]).checkpointer)
    runner.invoke(graph, said("first"), config)
    values = runner.invoke(graph, said("second"), config)
    assert [len(request.messages) for request in model.requests] == [1, 1]
    assert [message.content for message in values["messages"]] == ["first", "one", "second", "two"]
    assert "llm_input_messages" not in values


def test_pre_model_hook_may_write_the_messages_anew() -> None:
    def forget(state: Any) -> dict[str, Any]:
        return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *state["messages"][-1:]]}

    values = agent_of(["hi"], pre_model_hook=forget).invoke(said("first", "second"))
    assert [message.content for message in values["messages"]] == ["second", "hi"]


def test_post_model_hook_sees_the_answer_and_may_answer_calls(runner: Runner) -> None:
    def forbid(state: Any) -> dict[str, Any]:
        calls = state["messages"][-1].tool_calls
        return {
            "messages": [
                {"role": "tool", "content": "forbidden", "tool_call_id": call["id"], "status": "error"}
                for call in calls
                if call["name"] == "greet"
            ]
        }

    calls = [ToolCall("greet", {"name": "A"}), SUM]
    graph = agent_of(
        [calls, [ToolCall("greet", {"name": "B"})], "done"], [add, greet], post_model_hook=forbid
    )
    values = runner.invoke(graph, said("go"))
    assert results(values) == ["forbidden", "3", "forbidden"]
    assert values["messages"][-1].content == "done"


# --- The end ------------------------------------------------------------------------------------------------


class Answer(BaseModel):
    """The answer."""

    number: int


class AnswerDict(TypedDict):
    number: int


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (Answer, Answer(number=3)),
        (AnswerDict, {"number": 3}),
        ({"title": "answer", "type": "object", "properties": {"number": {"type": "integer"}}}, {"number": 3}),
        (("Answer shortly.", Answer), Answer(number=3)),
    ],
)
def test_structured_response(
    agent: Agent, runner: Runner, config: RunnableConfig, schema: Any, expected: Any
) -> None:
    def forced(request: Any) -> ToolCall:
        return ToolCall(request.tool_choice["tool"]["name"], {"number": 3})

    model = ScriptedModel([SUM, "it is 3", forced])
    graph = create_react_agent(model, [add], response_format=schema, checkpointer=agent(["x"]).checkpointer)
    values = runner.invoke(graph, said("go"), config)
    assert values["structured_response"] == expected
    assert values["messages"][-1].content == "it is 3"
    assert model.requests[-1].system_prompt == ("Answer shortly." if isinstance(schema, tuple) else None)


def test_a_structured_response_that_does_not_fit() -> None:
    with pytest.raises(InvalidResponseError, match="number"):
        agent_of(["x", ToolCall("Answer", {"number": "many"})], response_format=Answer).invoke(said("go"))
    with pytest.raises(StructuredOutputException, match="did not answer with a Answer"):
        agent_of(["x", "no"], response_format=Answer).invoke(said("go"))


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_too_few_steps_for_calls_of_tools(limit: int) -> None:
    graph = agent_of([SUM] * 9, [add])
    values = graph.invoke(said("go"), {"recursion_limit": limit})
    assert values["messages"][-1].content == "Sorry, need more steps to process this request."
    assert values["messages"][-1].tool_calls == []


# --- States -------------------------------------------------------------------------------------------------


class WithUser(AgentState):
    user: NotRequired[str]


@dataclass
class DataState:
    messages: Annotated[list[Any], add_messages]
    remaining_steps: RemainingSteps = 25
    user: str = "nobody"


class ModelState(BaseModel):
    messages: Annotated[list[Any], add_messages]
    remaining_steps: RemainingSteps = 25
    user: str = field(default="nobody")


@pytest.mark.parametrize("schema", [WithUser, DataState, ModelState])
def test_a_state_of_ones_own(agent: Agent, runner: Runner, config: RunnableConfig, schema: Any) -> None:
    seen: list[Any] = []

    def prompt(state: Any) -> list[Any]:
        seen.append(state)
        user = state["user"] if isinstance(state, dict) else state.user
        messages = state["messages"] if isinstance(state, dict) else state.messages
        return [{"role": "system", "content": user}, *messages]

    model = ScriptedModel([SUM, "done"])
    graph = create_react_agent(
        model, [add], prompt=prompt, state_schema=schema, checkpointer=agent(["x"]).checkpointer
    )
    values = runner.invoke(graph, {**said("go"), "user": "Ada"}, config)
    assert [request.system_prompt for request in model.requests] == ["Ada", "Ada"]
    assert values["user"] == "Ada"
    assert schema is WithUser or all(isinstance(state, schema) for state in seen)


def test_a_state_without_the_keys_that_are_needed() -> None:
    class Other(TypedDict):
        messages: list[Any]

    with pytest.raises(ValueError, match="Other has no remaining_steps"):
        create_react_agent(ScriptedModel([]), [], state_schema=Other)
    with pytest.raises(ValueError, match="has no structured_response"):
        create_react_agent(ScriptedModel([]), [], state_schema=WithUser, response_format=Answer)


def test_its_store_is_that_of_its_prompt_and_its_tools(runner: Runner) -> None:
    def told(state: Any, store: BaseStore) -> Any:
        found = store.get(("people",), "ada")
        return [{"role": "system", "content": found.value["name"] if found else "nobody"}, *state["messages"]]

    def remember(name: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
        """Remember somebody."""
        store.put(("people",), "ada", {"name": name})
        return "remembered"

    model = ScriptedModel([ToolCall("remember", {"name": "Ada"}), "done"])
    graph = create_react_agent(model, [remember], prompt=told, store=InMemoryStore())
    assert results(runner.invoke(graph, said("go"))) == ["remembered"]
    assert [request.system_prompt for request in model.requests] == ["nobody", "Ada"]


# --- Breakpoints --------------------------------------------------------------------------------------------


def test_a_breakpoint_before_the_tools_and_an_edit_of_the_call(
    agent: Agent, runner: Runner, config: RunnableConfig
) -> None:
    graph = agent([ToolCall("add", {"a": 1, "b": 2}, "c1"), "done"], [add], interrupt_before=["tools"])
    runner.invoke(graph, said("go"), config)
    state = runner.get_state(graph, config)
    assert state.next == ("tools",)
    edited = {**state.values["messages"][-1]}
    edited["tool_calls"] = [{**edited["tool_calls"][0], "args": {"a": 40, "b": 2}}]
    runner.update_state(graph, config, {"messages": [edited]})
    assert runner.get_state(graph, config).next == ("tools",)
    assert results(runner.invoke(graph, None, config)) == ["42"]


def test_a_breakpoint_after_the_model(agent: Agent, runner: Runner, config: RunnableConfig) -> None:
    graph = agent([SUM, "done"], [add], interrupt_after=["agent"])
    assert results(runner.invoke(graph, said("go"), config)) == []
    values = runner.invoke(graph, None, config)
    assert (results(values), values["messages"][-1].content) == (["3"], "done")


# --- What goes wrong ----------------------------------------------------------------------------------------


def test_what_a_tool_raises_is_raised_and_the_call_can_be_made_again(
    agent: Agent, runner: Runner, config: RunnableConfig
) -> None:
    broken = [True]

    def fragile() -> str:
        """Break."""
        if broken:
            broken.clear()
            raise ConnectionError("gone")
        return "works"

    graph = agent([[ToolCall("fragile"), SUM], "done"], [fragile, add])
    with pytest.raises(ConnectionError, match="gone"):
        runner.invoke(graph, said("go"), config)
    assert results(runner.invoke(graph, None, config)) == ["works", "3"]


def test_a_call_that_was_never_answered_is_answered_for_the_model(
    agent: Agent, runner: Runner, config: RunnableConfig
) -> None:
    def broken() -> str:
        """Break."""
        raise ConnectionError("gone")

    model = ScriptedModel([[ToolCall("broken", {}, "c1")], "never mind"])
    graph = create_react_agent(model, [broken], checkpointer=agent(["x"]).checkpointer)
    with pytest.raises(ConnectionError):
        runner.invoke(graph, said("go"), config)
    values = runner.invoke(graph, said("and now?"), config)
    assert [message.type for message in values["messages"]] == ["human", "ai", "human", "ai"]
    last = model.requests[-1].messages[-1]
    assert last["content"][0]["toolResult"] == {
        "toolUseId": "c1",
        "status": "error",
        "content": [{"text": "The call was not completed."}],
    }
    assert last["content"][1] == {"text": "and now?"}


def test_bad_calls_are_results_for_the_model(agent: Agent, runner: Runner, config: RunnableConfig) -> None:
    calls = [
        ToolCall("nothing", {"a": 1}),
        ToolCall("add", {"a": "one", "b": 2}),
        ToolCall("add", '{"a": 1, "b'),
        ToolCall("add", "[1, 2]"),
        SUM,
    ]
    graph = agent([calls, "done"], [add])
    values = runner.invoke(graph, said("go"), config)
    unknown, wrong, cut, no_object, good = (
        message for message in values["messages"] if message.type == "tool"
    )
    assert "no tool named 'nothing'" in unknown.content and "add" in unknown.content
    assert "a: Input should be a valid integer" in wrong.content
    assert "no JSON object" in cut.content and "no JSON object" in no_object.content
    assert [message.status for message in (unknown, wrong, cut, no_object, good)] == ["error"] * 4 + [
        "success"
    ]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"version": "v3"}, ValueError, "version"),
        ({"prompt": 5}, TypeError, "prompt"),
        ({"prompt": {"content": "x"}}, ValueError, "no message"),
        ({"tools": [add, another_add()]}, ValueError, "two tools are named 'add'"),
        ({"tools": [7]}, TypeError, "is no tool"),
        ({"tools": [{"type": "web_search"}]}, TypeError, "built in"),
        ({"interrupt_before": ["tool"]}, ValueError, "tool"),
        ({"config_schema": Context}, TypeError, "config_schema"),
    ],
)
def test_bad_arguments(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        create_react_agent(ScriptedModel([]), **{"tools": [add], **options})


def test_a_message_of_an_unknown_role() -> None:
    with pytest.raises(ValueError, match="no message of a conversation"):
        agent_of(["hi"]).invoke({"messages": [{"role": "robot", "content": "beep"}]})


def test_the_same_graph_inside_another(agent: Agent, runner: Runner, config: RunnableConfig) -> None:
    from graphkit.graph import START, MessagesState, StateGraph

    def ask() -> str:
        """Ask."""
        return str(interrupt("sure?"))

    inner = agent_of([ToolCall("ask"), "done"], [ask], name="inner")
    builder = StateGraph(MessagesState)
    builder.add_node("inner", inner)
    builder.add_edge(START, "inner")
    graph = builder.compile(agent(["x"]).checkpointer)
    assert runner.invoke(graph, said("go"), config)["__interrupt__"][0].value == "sure?"
    values = runner.invoke(graph, Command(resume="yes"), config)
    assert [message["content"] for message in values["messages"]] == ["go", "", "yes", "done"]
