"""Chat models, tools and messages of LangChain, as they are."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Annotated, Any
from uuid import uuid4

import pytest

pytest.importorskip("langchain_core")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
)
from langchain_core.tools import tool as langchain_tool
from pydantic import BaseModel, Field

from graphkit.agent import Agent
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.graph import START, MessagesState, StateGraph
from graphkit.models.langchain import LangChainModel
from graphkit.models.scripted import ScriptedModel, ToolCall
from graphkit.prebuilt import (
    InjectedState,
    ToolNode,
    ToolRuntime,
    add_human_in_the_loop,
    create_react_agent,
    tools_condition,
)
from graphkit.types import Command, RunnableConfig, interrupt
from tests.conftest import Reopen, Runner, Saver
from tests.prebuilt.conftest import agent_of


class Scripted(GenericFakeChatModel):
    """A chat model that says these messages, and remembers what it was given."""

    bound: list[Any] = Field(default_factory=list)
    asked: list[Any] = Field(default_factory=list)

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self.bound.extend(tools)
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.asked.append(messages)
        return super()._generate(messages, *args, **kwargs)


def scripted(*answers: Any) -> Scripted:
    said: Iterator[Any] = iter(answers)
    return Scripted(messages=said)


def calling(*made: tuple[str, Any]) -> AIMessage:
    return AIMessage(
        "", tool_calls=[{"name": name, "args": args, "id": f"c{n}"} for n, (name, args) in enumerate(made)]
    )


@langchain_tool
def look(
    city: str,
    state: Annotated[dict[str, Any], InjectedState],
    tool_call_id: Annotated[str, InjectedToolCallId],
    runtime: ToolRuntime,
) -> str:
    """Look at a city."""
    assert runtime.tool_call_id == tool_call_id
    return f"{city} after {len(state['messages'])} for {tool_call_id}"


@langchain_tool
async def alook(city: str) -> str:
    """Look at a city, without a thread."""
    return f"async {city}"


@langchain_tool
def ask(question: str) -> str:
    """Ask somebody."""
    return str(interrupt(question))


def contents(values: Any) -> list[tuple[str, Any]]:
    return [(type(message).__name__, message.content) for message in values["messages"]]


def test_models_tools_and_messages(
    saver: Saver, reopen: Reopen, runner: Runner, config: RunnableConfig
) -> None:
    model = scripted(
        calling(("look", {"city": "Paris"}), ("alook", {"city": "Rome"}), ("ask", {"question": "?"})),
        AIMessage("done"),
    )
    graph = create_react_agent(model, [look, alook, ask], prompt="Be kind.", checkpointer=saver)
    (question,) = runner.invoke(graph, {"messages": [HumanMessage("go")]}, config)["__interrupt__"]
    assert question.value == "?"
    graph = create_react_agent(model, [look, alook, ask], prompt="Be kind.", checkpointer=reopen(saver))
    values = runner.invoke(graph, Command(resume="yes"), config)
    assert contents(values) == [
        ("HumanMessage", "go"),
        ("AIMessage", ""),
        ("ToolMessage", "Paris after 2 for c0"),
        ("ToolMessage", "async Rome"),
        ("ToolMessage", "yes"),
        ("AIMessage", "done"),
    ]
    assert values["messages"] == runner.get_state(graph, config).values["messages"]
    assert [message.content for message in model.asked[0]] == ["Be kind.", "go"]
    look_spec = model.bound[0]["function"]
    assert (look_spec["name"], list(look_spec["parameters"]["properties"])) == ("look", ["city"])


def test_text_is_streamed(runner: Runner) -> None:
    graph = create_react_agent(scripted(AIMessage("one two")), [])
    shown = [chunk for chunk, _ in runner.stream(graph, {"messages": ["go"]}, stream_mode="messages")]
    assert [chunk.content for chunk in shown] == ["one", " ", "two"]
    assert all(isinstance(chunk, AIMessageChunk) for chunk in shown)
    (message,) = runner.invoke(
        create_react_agent(scripted(AIMessage("one two")), [], name="bob"), {"messages": ["go"]}
    )["messages"][1:]
    assert (type(message), message.content, message.name) == (AIMessage, "one two", "bob")


# --- Models that nodes call themselves ---------------------------------------------------------------------


def calls(*models: Any, passes: bool = False) -> Any:
    """A node that calls models and returns what the last one says."""

    class Node:
        def invoke(self, state: MessagesState, config: RunnableConfig) -> Any:
            said = [model.invoke("hi", *([config] if passes else [])) for model in models]
            return {"messages": said[-1:]}

        async def ainvoke(self, state: MessagesState, config: RunnableConfig) -> Any:
            said = [await model.ainvoke("hi", *([config] if passes else [])) for model in models]
            return {"messages": said[-1:]}

    return StateGraph(MessagesState).add_node("node", Node()).add_edge(START, "node")


def tokens(runner: Runner, graph: Any, config: Any = None, **options: Any) -> list[tuple[str, str]]:
    chunks = runner.stream(graph, {"messages": []}, config, stream_mode="messages", **options)
    return [(said.content, metadata["langgraph_node"]) for said, metadata in chunks]


@pytest.mark.parametrize("passes", [False, True])
def test_tokens_of_a_model_that_a_node_calls_are_shown(runner: Runner, passes: bool) -> None:
    def silent() -> Any:
        return scripted(AIMessage("not shown")).with_config(tags=["nostream"])

    def loud() -> Any:
        return scripted(AIMessage("one two", id="m")).with_config(tags=["joke"])

    graph = calls(silent(), loud(), passes=passes).compile()
    chunks = runner.stream(graph, {"messages": []}, {"tags": ["run"]}, stream_mode="messages")
    assert [said.content for said, _ in chunks] == ["one", " ", "two"]
    assert all(set(metadata["tags"]) == {"run", "joke"} for _, metadata in chunks)
    assert all(metadata["checkpoint_ns"] == metadata["langgraph_checkpoint_ns"] for _, metadata in chunks)
    assert (
        runner.invoke(calls(loud(), passes=passes).compile(), {"messages": []})["messages"][0].content
        == "one two"
    )


def test_a_model_that_does_not_stream_is_shown_when_it_ends(runner: Runner) -> None:
    whole = [
        scripted(AIMessage(word)).model_copy(update={"disable_streaming": True}) for word in ("a b", "c d")
    ]
    assert tokens(runner, calls(*whole).compile()) == [("a b", "node"), ("c d", "node")]


def test_models_in_a_graph_inside_are_shown_with_subgraphs_alone(runner: Runner) -> None:
    def graph() -> Any:
        inner = calls(scripted(AIMessage("in side")), passes=True).compile()
        return StateGraph(MessagesState).add_node("outer", inner).add_edge(START, "outer").compile()

    assert [said for said, _ in tokens(runner, graph())] == ["in side"]  # what the node has returned
    chunks = runner.stream(graph(), {"messages": []}, stream_mode="messages", subgraphs=True)
    assert [(namespace[0].split(":")[0], said.content) for namespace, (said, _) in chunks] == [
        ("outer", word) for word in ("in", " ", "side")
    ]


@pytest.mark.parametrize("passes", [False, True])
def test_callbacks_of_a_run_hear_the_models_that_nodes_call(runner: Runner, passes: bool) -> None:
    heard: list[Any] = []

    class Handler(BaseCallbackHandler):
        def on_chat_model_start(
            self, *given: Any, tags: Any = None, metadata: Any = None, **more: Any
        ) -> None:
            heard.append((tags, metadata["langgraph_node"], metadata["mine"]))

    config: Any = {"callbacks": [Handler()], "tags": ["run"], "metadata": {"mine": 1}, "run_id": uuid4()}
    graph = calls(scripted(*map(AIMessage, "abc")), passes=passes).compile()
    runner.invoke(graph, {"messages": []}, config)
    assert tokens(runner, graph, config) == [("b", "node")]
    assert heard == [(["run"], "node", 1)] * 2
    scripted(AIMessage("d")).invoke("outside of a run")
    assert len(heard) == 2


@pytest.mark.parametrize("settings", [{}, {"config": {"tags": ["mine"]}}], ids=["", "config"])
def test_an_agent_shows_what_its_model_says_once(runner: Runner, settings: Any) -> None:
    agent = Agent(LangChainModel(scripted(AIMessage("one two")), **settings), callback_handler=None)
    graph = StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent").compile()
    chunks = runner.stream(graph, {"messages": ["go"]}, stream_mode="messages", subgraphs=True)
    assert "".join(said["content"][0]["text"] for _, (said, _) in chunks) == "one two"


def test_a_streamed_message_is_kept_whole(config: RunnableConfig) -> None:
    graph = create_react_agent(scripted(AIMessage("one two")), [], checkpointer=InMemorySaver())
    list(graph.stream({"messages": ["go"]}, config, stream_mode="messages"))
    last = graph.get_state(config).values["messages"][-1]
    assert (type(last), last.content) == (AIMessage, "one two")


def test_dicts_of_every_style_are_sent() -> None:
    model = scripted(AIMessage("done"))
    call = {"toolUse": {"toolUseId": "c0", "name": "look", "input": {"city": "Paris"}}}
    result = {"toolResult": {"toolUseId": "c0", "status": "success", "content": [{"text": "nice"}]}}
    messages = [
        {"role": "user", "content": [{"text": "go"}]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
        {"role": "user", "content": "and?"},
        calling(("look", {"city": "Rome"})),
    ]
    create_react_agent(model, []).invoke({"messages": messages})
    (asked,) = model.asked
    assert [type(message).__name__ for message in asked] == [
        "HumanMessage",
        "AIMessage",
        "ToolMessage",
        "HumanMessage",
        "AIMessage",
        "ToolMessage",
    ]
    assert asked[1].tool_calls[0]["args"] == {"city": "Paris"}
    assert asked[-1].content == "The call was not completed."


def test_our_models_answer_objects_with_objects(runner: Runner, config: RunnableConfig) -> None:
    model = ScriptedModel([["hm", ToolCall("look", {"city": "Paris"}, "c0")], "done"])
    graph = create_react_agent(model, [look], prompt=SystemMessage("Be kind."), checkpointer=InMemorySaver())
    values = runner.invoke(graph, {"messages": [HumanMessage("go")]}, config)
    assert contents(values) == [
        ("HumanMessage", "go"),
        ("AIMessage", "hm"),
        ("ToolMessage", "Paris after 2 for c0"),
        ("AIMessage", "done"),
    ]
    assert values["messages"][1].usage_metadata["total_tokens"] == 15
    assert model.requests[0].system_prompt == "Be kind."
    shown = [
        chunk
        for chunk, _ in runner.stream(
            create_react_agent(ScriptedModel(["hi"]), []),
            {"messages": [HumanMessage("go")]},
            stream_mode="messages",
        )
    ]
    assert [(type(chunk), chunk.content) for chunk in shown] == [(AIMessageChunk, "hi")]


def test_malformed_arguments_in_objects() -> None:
    values = agent_of([ToolCall("look", '{"city": "Pa', "c0"), "done"], [look]).invoke(
        {"messages": [HumanMessage("go")]}
    )
    assert values["messages"][1].invalid_tool_calls[0]["args"] == '{"city": "Pa'
    wrong = agent_of([ToolCall("look", {"town": "Paris"}, "c0"), "done"], [look])
    (result,) = [m for m in wrong.invoke({"messages": [HumanMessage("go")]})["messages"] if m.type == "tool"]
    assert result.status == "error" and "city: Field required" in result.content


def test_a_model_that_knows_its_tools_is_not_told_again() -> None:
    model = scripted(AIMessage("done"))
    bound = model.bind(tools=["mine"])
    graph = create_react_agent(bound, [look])
    assert model.bound == []
    assert graph.invoke({"messages": ["go"]})["messages"][-1].content == "done"


def test_a_runnable_and_a_function_that_chooses_one(runner: Runner) -> None:
    upper: Any = RunnableLambda(lambda messages: AIMessage(messages[-1].content.upper()))
    template = ChatPromptTemplate.from_messages([("system", "Be kind."), ("placeholder", "{messages}")])
    for model in (upper, lambda state, runtime: upper):
        graph = create_react_agent(model, [], prompt=template)
        values = runner.invoke(graph, {"messages": [HumanMessage("go")]})
        assert values["messages"][-1].content == "GO"


def test_built_in_tools_and_return_direct(runner: Runner) -> None:
    @langchain_tool(return_direct=True)
    def final(word: str) -> str:
        """The last word."""
        return word

    model = scripted(calling(("final", {"word": "enough"})))
    graph = create_react_agent(model, [final, {"type": "web_search"}])
    values = runner.invoke(graph, {"messages": [HumanMessage("go")]})
    assert contents(values)[-1] == ("ToolMessage", "enough")
    assert model.bound[-1] == {"type": "web_search"}


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("beside", [("final", {"word": "b"}), ("alook", {"city": "Rome"})])
def test_return_direct_beside_another_call(runner: Runner, version: Any, beside: Any) -> None:
    @langchain_tool(return_direct=True)
    def final(word: str) -> str:
        """The last word."""
        return word

    model = scripted(calling(("final", {"word": "a"}), beside))
    graph = create_react_agent(model, [final, alook], version=version)
    values = runner.invoke(graph, {"messages": [HumanMessage("go")]})
    assert [kind for kind, _ in contents(values)[2:]] == ["ToolMessage", "ToolMessage"]
    assert len(model.asked) == 1


def test_structured_response_of_a_chat_model(runner: Runner) -> None:
    class Answer(BaseModel):
        number: int

    class Structured(Scripted):
        def with_structured_output(self, schema: Any, **kwargs: Any) -> Any:
            return RunnableLambda(lambda messages: schema(number=len(messages)))

    model = Structured(messages=iter([AIMessage("three")]))
    values = runner.invoke(
        create_react_agent(model, [], response_format=("Answer.", Answer)), {"messages": [HumanMessage("go")]}
    )
    assert values["structured_response"] == Answer(number=3)


def test_a_tool_node_in_a_graph_of_ones_own(saver: Saver, runner: Runner, config: RunnableConfig) -> None:
    model = scripted(calling(("look", {"city": "Paris"}), ("ask", {"question": "?"})), AIMessage("done"))
    model_with_tools = model.bind_tools([look, ask])

    def call_model(state: MessagesState) -> Any:
        return {"messages": [model_with_tools.invoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("agent", call_model)
    builder.add_node("tools", ToolNode([look, ask]))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", tools_condition)
    builder.add_edge("tools", "agent")
    graph = builder.compile(saver)
    runner.invoke(graph, {"messages": [HumanMessage("go")]}, config)
    values = runner.invoke(graph, Command(resume="yes"), config)
    assert contents(values)[2:] == [
        ("ToolMessage", "Paris after 2 for c0"),
        ("ToolMessage", "yes"),
        ("AIMessage", "done"),
    ]


def test_a_tool_that_returns_a_command(runner: Runner) -> None:
    @langchain_tool
    def note(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Note."""
        return Command(update={"messages": [ToolMessage("noted", tool_call_id=tool_call_id)]})

    graph = create_react_agent(scripted(calling(("note", {})), AIMessage("done")), [note])
    result = runner.invoke(graph, {"messages": [HumanMessage("go")]})
    assert ("ToolMessage", "noted") in contents(result)
    assert result["messages"][2].name == "note"  # which the tool did not say


@langchain_tool
def whose(
    city: str,
    user: Annotated[str, InjectedToolArg] = "nobody",
    role: Annotated[str | None, InjectedState("role")] = "guest",
) -> str:
    """Whose city it is."""
    return f"{city} of {user}, {role}"


def plain_whose(city: str, user: Annotated[str, InjectedToolArg] = "nobody") -> str:
    """Whose city it is."""
    return f"{city} of {user}, guest"


@langchain_tool
def private(city: str, user: Annotated[str, InjectedToolArg]) -> str:
    """Look at a city of somebody."""
    return f"{city} of {user}"


@pytest.mark.parametrize("tool", [whose, plain_whose])
def test_a_model_fills_no_parameter_that_is_hidden_from_it(runner: Runner, tool: Any) -> None:
    name = getattr(tool, "name", "plain_whose")
    node = ToolNode([tool, private])
    assert list(node.tools_by_name[name].tool_spec["inputSchema"]["json"]["properties"]) == ["city"]
    forged = {"city": "Rome", "user": "root", "role": "admin"}
    model = scripted(calling((name, forged), ("private", forged)), AIMessage("done"))
    values = runner.invoke(create_react_agent(model, node), {"messages": [HumanMessage("go")]})
    found, refused = values["messages"][2:4]
    assert (found.content, refused.status) == ("Rome of nobody, guest", "error")


@langchain_tool(response_format="content_and_artifact")
def photo(tool_call_id: Annotated[str, InjectedToolCallId]) -> tuple[list[Any], int]:
    """Take a photo."""
    image = {"type": "image", "mime_type": "image/png", "base64": "aGk="}
    return [{"type": "text", "text": tool_call_id}, image], 1


@langchain_tool
def sorry() -> str:
    """Fail."""
    raise ToolException("it failed")


sorry.handle_tool_error = True


class Either(BaseTool):
    name: str = "either"
    description: str = "of both colours"

    def _run(self) -> str:
        return "blocking"

    async def _arun(self) -> str:
        return "awaited"


@pytest.mark.parametrize("is_reviewed", [False, True], ids=["as it is", "reviewed"])
def test_in_an_agent_they_are_given_a_whole_call(is_reviewed: bool) -> None:
    """Its id is there for those that want it; whether it failed, and images, reach the model."""
    tools: list[Any] = [photo, sorry, whose, private]
    made = [ToolCall(tool.name, {"city": "Rome", "user": "root"}, f"c{n}") for n, tool in enumerate(tools)]
    tools = [add_human_in_the_loop(tool) for tool in tools] if is_reviewed else tools
    agent = Agent(ScriptedModel([made, "done"]), tools=tools, callback_handler=None)
    result = agent("go")
    if is_reviewed:
        result = agent(Command(resume={asked.id: [{"type": "accept"}] for asked in result.interrupts or ()}))
    seen, failed, found, refused = [block["toolResult"] for block in agent.messages[2]["content"]]
    assert seen["content"] == [{"text": "c0"}, {"image": {"format": "png", "source": {"bytes": b"hi"}}}]
    assert (failed["status"], failed["content"]) == ("error", [{"text": "it failed"}])
    assert found["content"] == [{"text": "Rome of nobody, guest"}]
    assert refused["status"] == "error"


def test_a_tool_of_one_text_and_one_with_a_schema_of_pydantic_1(runner: Runner) -> None:
    search = Tool(name="search", description="Search.", func=lambda text: f"found {text}")
    made = [ToolCall("search", {"tool_input": "x"}), ToolCall("search", {"__arg1": "y"})]
    tools: list[Any] = [search]
    if sys.version_info < (3, 14):  # where pydantic has it still
        from pydantic.v1 import BaseModel as OldModel

        class Old(OldModel):
            number: int

        def double(number: int) -> int:
            return 2 * number

        tools.append(StructuredTool(name="old", description="Old.", args_schema=Old, func=double))
        made.append(ToolCall("old", {"number": "2"}))
    agent = Agent(ScriptedModel([made, "done"]), tools=tools, callback_handler=None)
    first, *_ = agent.tool_registry.get_all_tool_specs()
    assert first["inputSchema"]["json"]["properties"] == {"tool_input": {"type": "string"}}
    agent("go")
    found = [block["toolResult"]["content"][0]["text"] for block in agent.messages[2]["content"]]
    assert found == ["found x", "found y", "4"][: len(made)]
    react = create_react_agent(ScriptedModel([made, "done"]), tools)
    values = runner.invoke(react, {"messages": ["go"]})
    assert [said["content"] for said in values["messages"][2:-1]] == found


def test_in_an_agent_they_run_in_its_colour(runner: Runner) -> None:
    made = [ToolCall("either"), ToolCall("alook", {"city": "Rome"})]
    agent = Agent(ScriptedModel([made, "done"]), tools=[Either(), alook], callback_handler=None)
    if runner.colour == "sync":
        agent("go")
    else:
        asyncio.run(agent.invoke_async("go"))
    found = [block["toolResult"]["content"][0]["text"] for block in agent.messages[2]["content"]]
    assert found == ["blocking" if runner.colour == "sync" else "awaited", "async Rome"]


def handoff_to(name: str) -> Any:
    """As LangGraph's how-to on supervisors writes it."""

    @langchain_tool(f"transfer_to_{name}")
    def handoff(
        state: Annotated[MessagesState, InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]
    ) -> Command[Any]:
        """Ask another agent."""
        said = ToolMessage(f"over to {name}", name=f"transfer_to_{name}", tool_call_id=tool_call_id)
        update = {**state, "messages": [*state["messages"], said]}
        return Command(goto=name, update=update, graph=Command.PARENT)

    return handoff


@pytest.mark.parametrize("called", [["ada"], ["ada", "bob"]], ids=["one", "both"])
def test_agents_that_hand_over(runner: Runner, called: list[str]) -> None:
    model = scripted(calling(*((f"transfer_to_{name}", {}) for name in called)))
    supervisor = create_react_agent(model, [handoff_to("ada"), handoff_to("bob")], name="supervisor")
    builder = StateGraph(MessagesState).add_node(supervisor, destinations=("ada", "bob"))
    for name in ("ada", "bob"):
        builder.add_node(name, create_react_agent(scripted(AIMessage(f"{name} is here")), []))
    graph = builder.add_edge(START, "supervisor").compile()
    said = [text for _, text in contents(runner.invoke(graph, {"messages": [HumanMessage("go")]}))]
    assert said == [
        "go",
        "",
        *(f"over to {name}" for name in called),
        *(f"{name} is here" for name in called),
    ]


def test_human_in_the_loop_around_a_tool_of_langchain(runner: Runner, config: RunnableConfig) -> None:
    model = scripted(calling(("look", {"city": "Paris"})), AIMessage("done"))
    graph = create_react_agent(model, [add_human_in_the_loop(look)], checkpointer=InMemorySaver())
    runner.invoke(graph, {"messages": [HumanMessage("go")]}, config)
    edit = {"type": "edit", "args": {"args": {"city": "Rome"}}}
    values = runner.invoke(graph, Command(resume=[edit]), config)
    assert contents(values)[2] == ("ToolMessage", "Rome after 2 for c0")


def test_messages_are_stored_without_being_registered(
    saver: Saver, reopen: Reopen, runner: Runner, config: RunnableConfig
) -> None:
    builder = StateGraph(MessagesState)
    answer = AIMessage("hi", response_metadata={"model": "x"}, usage_metadata=None, id="1")
    builder.add_node("agent", lambda state: {"messages": [answer]})
    builder.add_edge(START, "agent")
    runner.invoke(builder.compile(saver), {"messages": [HumanMessage("go", id="0")]}, config)
    values = runner.get_state(builder.compile(reopen(saver)), config).values
    assert values["messages"] == [HumanMessage("go", id="0"), answer]
