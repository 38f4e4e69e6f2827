"""Every name is importable where a user looks for it, and an agent is what its constructor was told."""

import asyncio
import importlib
from typing import Any

import pytest

from graphkit import Agent, Plugin, tool
from graphkit.agent import NullConversationManager
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.compiled import CompiledGraph
from graphkit.hooks import (
    AgentInitializedEvent,
    BeforeInvocationEvent,
    HookEvent,
    HookRegistry,
)
from graphkit.models import ScriptedModel, ToolCall
from graphkit.session import SessionManager
from graphkit.tools import ToolProvider
from graphkit.tools.executors import ConcurrentToolExecutor, SequentialToolExecutor
from graphkit.types.agent import LocalAgent
from tests.agents.conftest import agent_of

NAMES = {
    "graphkit": "Agent AgentResult ModelRetryStrategy Plugin ToolContext tool",
    "graphkit.agent": "Agent AgentResult AgentThread ConversationManager ModelRetryStrategy "
    "NullConversationManager SlidingWindowConversationManager SummarizingConversationManager",
    "graphkit.agent.agent": "Agent",
    "graphkit.agent.agent_result": "AgentResult",
    "graphkit.agent.state": "AgentState",
    "graphkit.agent.conversation_manager": "ConversationManager NullConversationManager "
    "SlidingWindowConversationManager SummarizingConversationManager",
    "graphkit.handlers": "CompositeCallbackHandler PrintingCallbackHandler null_callback_handler",
    "graphkit.handlers.callback_handler": "PrintingCallbackHandler null_callback_handler",
    "graphkit.hooks": "AfterInvocationEvent AfterModelCallEvent AfterToolCallEvent AfterToolsEvent "
    "AgentInitializedEvent AgentResultEvent BaseHookEvent BeforeInvocationEvent BeforeModelCallEvent "
    "BeforeToolCallEvent BeforeToolsEvent ContentBlockEvent HookCallback HookEvent HookOrder HookProvider "
    "HookRegistry HookableEvent InterruptEvent MessageAddedEvent ModelMessageEvent ModelStreamUpdateEvent "
    "ToolResultEvent ToolStreamUpdateEvent AfterMultiAgentInvocationEvent AfterNodeCallEvent "
    "BeforeMultiAgentInvocationEvent BeforeNodeCallEvent MultiAgentHandoffEvent MultiAgentInitializedEvent "
    "MultiAgentResultEvent NodeCancelEvent NodeResultEvent NodeStreamUpdateEvent",
    "graphkit.hooks.events": "AgentInitializedEvent BeforeNodeCallEvent BeforeToolCallEvent",
    "graphkit.hooks.registry": "HookEvent HookProvider HookRegistry",
    "graphkit.middleware": "ExecuteToolContext ExecuteToolResult ExecuteToolStage ExecuteToolsContext "
    "ExecuteToolsResult ExecuteToolsStage InvokeModelContext InvokeModelResult InvokeModelStage MiddlewareHandler "
    "MiddlewareInputHandler MiddlewareInputPhase MiddlewareInterruptResult MiddlewareNext MiddlewareOutputHandler "
    "MiddlewareOutputPhase MiddlewareStage MiddlewareWrapPhase ModelStopReason ToolResultEvent ToolResultsEvent "
    "TypedEvent",
    "graphkit.models": "Model ScriptedModel resolve_model",
    "graphkit.models.model": "Model",
    "graphkit.models.scripted": "ScriptedModel",
    "graphkit.multiagent": "Graph GraphBuilder GraphEdge GraphResult MultiAgentBase MultiAgentResult MultiAgentState "
    "Node NodeResult Status Swarm SwarmResult TeamThread",
    "graphkit.plugins": "Halt HaltSignal MultiAgentPlugin Plugin ResumeDirective hook middleware",
    "graphkit.session": "FileSessionManager FileStorage SessionManager",
    "graphkit.tools": "InvalidToolUseNameException PythonAgentTool ToolProvider tool",
    "graphkit.tools.decorator": "tool",
    "graphkit.tools.executors": "ConcurrentToolExecutor SequentialToolExecutor",
    "graphkit.tools.registry": "ToolRegistry",
    "graphkit.types": "Interrupt",
    "graphkit.types.agent": "AgentInput Limits LocalAgent",
    "graphkit.types.content": "CachePoint ContentBlock Message Messages ReasoningContentBlock Role "
    "SystemContentBlock TextBlock",
    "graphkit.types.event_loop": "Metrics StopReason Usage",
    "graphkit.types.exceptions": "ConcurrencyException ContextWindowOverflowException EventLoopException "
    "MaxTokensReachedException ModelThrottledException SessionException StructuredOutputException",
    "graphkit.types.interrupt": "InterruptResponse InterruptResponseContent",
    "graphkit.types.media": "DocumentContent ImageContent VideoContent",
    "graphkit.types.streaming": "StopReason StreamEvent",
    "graphkit.types.tools": "AgentTool ToolChoice ToolContext ToolResult ToolResultBlock ToolResultContent "
    "ToolSpec ToolUse",
    "graphkit.vended_plugins": "ApprovalGate BudgetGuard HandOver RateLimiter ServiceRetry ToolCallLimits "
    "ToolResultCache",
}


@pytest.mark.parametrize("door", NAMES)
def test_the_names_are_there(door: str) -> None:
    found = importlib.import_module(door)
    for name in NAMES[door].split():
        assert getattr(found, name) is not None
        assert name in found.__all__


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


# --- The constructor ------------------------------------------------------------------------------------


def test_an_agent_needs_nothing_until_it_is_called(monkeypatch: pytest.MonkeyPatch, door: Any) -> None:
    monkeypatch.delenv("GRAPHKIT_MODEL", raising=False)
    agent = Agent(callback_handler=None)
    assert (agent.agent_id, agent.id, agent.name) == ("default", "default", "graphkit agent")
    assert (agent.messages, agent.state.get(), agent.interrupts, agent.tool_names) == ([], {}, [], [])
    assert isinstance(agent.hooks, HookRegistry) and isinstance(agent.graph, CompiledGraph)
    with pytest.raises(ValueError, match="GRAPHKIT_MODEL"):
        door(agent, "hi")
    # It can go on when it has one.
    agent.model = ScriptedModel(["hello"])
    assert str(door(agent)) == "hello\n"


def test_the_default_model_is_looked_up_when_the_agent_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(["hi"])
    monkeypatch.setattr(Agent, "default_model", model)
    agent = Agent(callback_handler=None)
    assert agent.model is model
    assert str(agent("x")) == "hi\n"


def test_the_first_parameters_may_be_given_by_position() -> None:
    messages: Any = [{"role": "user", "content": [{"text": "a"}]}]
    manager = NullConversationManager()
    agent = Agent(
        ScriptedModel(["b"]), messages, [add], "be kind", None, None, manager, False, False, {"t": 1}
    )
    assert agent.system_prompt == "be kind" and agent.tool_names == ["add"] and agent.messages == messages
    assert agent.conversation_manager is manager and agent.record_direct_tool_call is False
    agent()
    assert (agent.thread().snapshot.metadata or {})["t"] == 1


def test_what_an_agent_is_made_of_can_be_changed_between_calls(door: Any) -> None:
    agent = agent_of("one", system_prompt="first")
    door(agent, "hi")
    first = agent.model
    agent.model = second = ScriptedModel(["two"])
    agent.system_prompt = "second"
    assert str(door(agent, "more")) == "two\n"
    assert [request.system_prompt for model in (first, second) for request in model.requests] == [  # type: ignore[attr-defined]
        "first",
        "second",
    ]


def test_a_system_prompt_is_text_and_blocks(door: Any) -> None:
    cached: Any = [{"text": "one"}, {"cachePoint": {"type": "default"}}, {"text": "two"}]
    agent = agent_of("a", "b", system_prompt=cached)
    assert (agent.system_prompt, agent.system_prompt_content) == ("one\ntwo", cached)
    assert agent.system_prompt_content is not cached
    door(agent, "hi")
    agent.system_prompt = "plain"
    assert (agent.system_prompt, agent.system_prompt_content) == ("plain", [{"text": "plain"}])
    door(agent, "more")
    told = [(request.system_prompt, request.system_prompt_content) for request in agent.model.requests]  # type: ignore[attr-defined]
    assert told == [("one\ntwo", cached), ("plain", [{"text": "plain"}])]


@pytest.mark.parametrize("prompt", [None, "", [], [{"cachePoint": {"type": "default"}}]], ids=str)
def test_a_system_prompt_without_text_is_none(door: Any, prompt: Any) -> None:
    agent = agent_of("a", system_prompt=prompt)
    assert agent.system_prompt is None
    door(agent, "hi")
    assert agent.model.requests[0].system_prompt is None  # type: ignore[attr-defined]


def test_structured_output_is_told_a_system_prompt_of_blocks() -> None:
    from pydantic import BaseModel

    class Weather(BaseModel):
        degrees: int

    agent = agent_of([ToolCall("Weather", {"degrees": 3})], system_prompt=[{"text": "be brief"}])
    assert agent.structured_output(Weather, "how warm?") == Weather(degrees=3)
    assert agent.model.requests[0].system_prompt == "be brief"  # type: ignore[attr-defined]


class Line(ToolProvider):
    """Something that is open as long as somebody has its tools."""

    def __init__(self) -> None:
        self.is_open = False

    async def load_tools(self, **kwargs: Any) -> Any:
        self.is_open = True
        return [add]

    def remove_consumer(self, consumer_id: Any, **kwargs: Any) -> None:
        self.is_open = False


@pytest.mark.parametrize("way", ["with", "async with", "cleanup", "shutdown", "shutdown_async"])
def test_an_agent_that_is_not_needed_any_more_lets_go_of_its_tools(way: str) -> None:
    line = Line()
    agent = agent_of("hi", tools=[line])
    assert line.is_open

    async def within() -> None:
        async with agent as same:
            assert same is agent and line.is_open

    if way == "with":
        with agent as same:
            assert same is agent and line.is_open
    elif way == "async with":
        asyncio.run(within())
    elif way == "shutdown_async":
        asyncio.run(agent.shutdown_async())
    else:
        getattr(agent, way)()
    assert not line.is_open and str(agent("go")) == "hi\n"


def test_an_agent_is_a_local_agent() -> None:
    agent: LocalAgent = agent_of("x")
    assert agent.name == "graphkit agent"


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"agent_id": "a", "id": "b"}, ValueError, "'a' and id is 'b'"),
        ({"agent_id": "a/b"}, ValueError, "without NUL"),
        ({"agent_id": "a\\b"}, ValueError, "without NUL"),
        ({"agent_id": "a\0b"}, ValueError, "without NUL"),
        ({"agent_id": "x" * 256}, ValueError, "255"),
        ({"id": ""}, ValueError, "agent_id"),
        ({"agent_id": 5}, ValueError, "agent_id"),
        ({"model": 5}, TypeError, "no model"),
        ({"model": "unknown"}, ValueError, "provider:model"),
        ({"system_prompt": 5}, TypeError, "system_prompt"),
        ({"system_prompt": ["be brief"]}, TypeError, "system_prompt must be a text or a list of blocks"),
        ({"messages": "hi"}, TypeError, "messages"),
        ({"messages": [{"role": "robot", "content": []}]}, ValueError, "robot"),
        ({"messages": [{"text": "a block"}]}, TypeError, "messages"),
        ({"state": [1]}, ValueError, "state"),
        ({"state": {"k": object()}}, ValueError, "JSON"),
        ({"hooks": [5]}, ValueError, "5"),
        ({"hooks": [HookEvent]}, ValueError, "HookEvent"),
        ({"hooks": [lambda event: None]}, ValueError, "lambda"),
        ({"plugins": [5]}, TypeError, "Plugin"),
        ({"tools": [5]}, TypeError, "5"),
        ({"session_manager": 5}, TypeError, "session_manager"),
        ({"checkpointer": "memory"}, TypeError, "checkpointer"),
        ({"conversation_manager": 5}, ValueError, "register_hooks"),
        ({"retry_strategy": 5}, ValueError, "register_hooks"),
        ({"tool_executor": 5}, TypeError, "tool_executor"),
        ({"trace_attributes": 5}, TypeError, "trace_attributes"),
        ({"structured_output_model": dict}, TypeError, "pydantic"),
        ({"load_tools_from_directory": True}, NotImplementedError, "tools="),
        ({"sandbox": 1}, TypeError, "sandbox"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Agent(**options)


def test_a_session_and_a_saver_are_one_too_many() -> None:
    saver = InMemorySaver()
    with pytest.raises(ValueError, match="not both"):
        Agent(session_manager=SessionManager(saver, "s"), checkpointer=saver)


def test_both_words_for_the_id() -> None:
    assert Agent(id="a").agent_id == Agent(agent_id="a").id == Agent(agent_id="a", id="a").agent_id == "a"


# --- The order of its construction ----------------------------------------------------------------------


def test_hooks_come_before_plugins_and_the_agent_is_complete_at_the_end() -> None:
    order: list[str] = []

    class Provider:
        def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
            order.append("provider")
            registry.add_callback(AgentInitializedEvent, self.initialized)

        def initialized(self, event: AgentInitializedEvent) -> None:
            order.append(f"initialized with {event.agent.tool_names}")

    class P(Plugin):
        name = "p"

        def init_agent(self, agent: Any) -> None:
            order.append(f"init_agent with {agent.tool_names}")

        @tool
        def more(self) -> str:
            """More."""
            return "more"

    Agent(tools=[add], hooks=[Provider()], plugins=[P()])
    assert order == ["provider", "init_agent with ['add']", "initialized with ['add', 'more']"]


def test_an_async_callback_cannot_hear_the_constructor() -> None:
    async def late(event: AgentInitializedEvent) -> None: ...

    with pytest.raises(ValueError, match="async"):
        Agent(hooks=[late])


def test_a_catch_all_hears_the_constructor_too() -> None:
    heard: list[HookEvent] = []

    def listen(event: HookEvent) -> None:
        heard.append(event)

    agent = Agent(hooks=[listen])
    assert [type(event) for event in heard] == [AgentInitializedEvent] and heard[0].agent is agent


def test_a_session_manager_of_the_users_own_is_a_hook_provider(door: Any) -> None:
    class Mine:
        def __init__(self) -> None:
            self.requests = 0

        def register_hooks(self, registry: HookRegistry) -> None:
            registry.add_callback(BeforeInvocationEvent, self.count)

        def count(self, event: BeforeInvocationEvent) -> None:
            self.requests += 1

    mine = Mine()
    agent = agent_of("one", session_manager=mine)
    door(agent, "hi")
    assert mine.requests == 1 and agent.session_manager is mine and len(agent.messages) == 2


# --- A call ---------------------------------------------------------------------------------------------


def test_other_keywords_go_into_the_invocation_state(door: Any) -> None:
    given: dict[str, Any] = {"user": "u1"}
    result = door(agent_of("one"), "hi", invocation_state=given, request_id=5)
    assert result.invocation_state is given == {"user": "u1", "request_id": 5, "request_state": {}}
    assert door(agent_of("one"), "hi", request_id=5).invocation_state == {
        "request_id": 5,
        "request_state": {},
    }


def test_invoke_is_the_call() -> None:
    agent = agent_of("one", "two")
    assert str(agent.invoke("hi")) == "one\n"
    assert str(agent.thread().invoke("hi")) == "two\n"


def test_the_executor_decides_how_calls_run() -> None:
    agent = agent_of(
        [ToolCall("add", {"a": 1, "b": 1}), ToolCall("add", {"a": 2, "b": 2})],
        "done",
        tools=[add],
        tool_executor=SequentialToolExecutor(),
    )
    assert agent("go").stop_reason == "end_turn"
    assert agent.graph.program.nodes["tools"].in_order is True
    agent.tool_executor = ConcurrentToolExecutor()
    assert agent.graph.program.nodes["tools"].in_order is False


def test_state_under_both_names(door: Any) -> None:
    agent = agent_of("one", state={"k": 1})
    assert agent.app_state.get("k") == 1
    agent.app_state.set("k", 2)
    door(agent, "hi")
    assert agent.state.get() == {"k": 2}
    agent.state = {"other": [1]}
    assert agent.state.get() == {"other": [1]}


def test_the_conversation_can_be_changed_and_set(session: Any, door: Any) -> None:
    agent = session.agent("one", "two", "three")
    door(agent, "hi")
    agent.messages[0]["content"][0]["text"] = "changed"
    agent.messages.append({"role": "user", "content": [{"text": "and"}]})
    agent.messages.append({"role": "assistant", "content": [{"text": "yes"}]})
    assert len(agent.messages) == 4
    door(agent, "more")
    texts = ["changed", "one", "and", "yes", "more", "two"]
    assert [message["content"][0]["text"] for message in session.agent().messages] == texts
    assert [m["content"][0]["text"] for m in session.model.requests[1].messages] == texts[:-1]
    agent.messages = []
    door(agent, "again")
    assert [message["content"][0]["text"] for message in session.agent().messages] == ["again", "three"]


def test_changes_wait_for_a_request_that_is_taken(session: Any, door: Any) -> None:
    """A request that is refused stores nothing, and the changes stay for the next one."""
    agent = session.agent("one", "two")
    door(agent, "hi")
    agent.messages.append({"role": "user", "content": [{"text": "mine"}]})
    agent.state.set("k", 1)
    with pytest.raises(ValueError, match="no question"):
        door(agent, [{"interruptResponse": {"interruptId": "none", "response": 1}}])
    assert len(session.agent().messages) == 2
    assert len(agent.messages) == 3 and agent.state.get("k") == 1
    door(agent, "more")
    fresh = session.agent()
    assert [m["content"][0]["text"] for m in fresh.messages] == ["hi", "one", "mine", "more", "two"]
    assert fresh.state.get("k") == 1


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_structured_output_leaves_the_conversation_alone(colour: str) -> None:
    import asyncio

    from pydantic import BaseModel

    class Weather(BaseModel):
        degrees: int

    agent = agent_of("one", [ToolCall("Weather", {"degrees": 3})], system_prompt="be brief")
    agent("hi")
    found = (
        agent.structured_output(Weather, "and the weather?")
        if colour == "sync"
        else asyncio.run(agent.structured_output_async(Weather, "and the weather?"))
    )
    assert found == Weather(degrees=3)
    assert len(agent.messages) == 2
    request = agent.model.requests[1]  # type: ignore[attr-defined]
    assert [m["content"][0]["text"] for m in request.messages] == ["hi", "one", "and the weather?"]
    assert request.system_prompt == "be brief"
    with pytest.raises(TypeError, match="pydantic"):
        agent.structured_output(dict, "x")  # type: ignore[arg-type]
