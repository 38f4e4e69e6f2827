"""A callback or a tool halts the agent: durable, generic, through every door (S156, S157)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphkit import Agent, AgentResult, tool
from graphkit.errors import (
    HaltedTwiceError,
    InvalidPromptError,
    InvalidResponseError,
    NotHaltedError,
    UnserializableStateError,
)
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    AgentInitializedEvent,
    AgentResultEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    InterruptEvent,
    MessageAddedEvent,
    ModelStreamUpdateEvent,
    ToolResultEvent,
)
from graphkit.models import ScriptedModel
from graphkit.models.scripted import ToolCall
from graphkit.plugins import Halt, HaltSignal, Plugin, hook
from graphkit.session import FileSessionManager
from graphkit.types import Command
from graphkit.types.tools import ToolContext
from tests.agents.conftest import Door, Session, agent_of, script
from tests.conftest import response


class Tools:
    """Counts what runs."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    @tool
    def work(self, thing: str) -> str:
        """Work on a thing."""
        self.ran.append(thing)
        return f"worked on {thing}"


def call(thing: str = "a", name: str = "work") -> ToolCall:
    return ToolCall(name, {"thing": thing})


class Pause(Plugin):
    """Halts at an event until it is resumed."""

    name = "pause"

    def __init__(self, event_type: Any = BeforeToolCallEvent, returns: bool = False) -> None:
        self.event_type = event_type
        self.returns = returns

    def init_agent(self, agent: Agent) -> None:
        agent.add_hook(self.pause, self.event_type)

    def pause(self, event: Any) -> HaltSignal | None:
        is_told = isinstance(event, AgentResultEvent) and event.result.halts  # which this has come to
        if is_told or event.agent.get_plugin_state("pause") == "resumed":
            return None
        signal = HaltSignal("paused", {"at": type(event).__name__})
        if not self.returns:
            raise signal
        return signal

    def on_resume(self, agent: Agent, data: Any) -> None:
        agent.set_plugin_state("pause", "resumed")


ASKING = [
    BeforeInvocationEvent,
    MessageAddedEvent,
    BeforeModelCallEvent,
    ModelStreamUpdateEvent,
    AfterModelCallEvent,
    BeforeToolsEvent,
    BeforeToolCallEvent,
    ToolResultEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    AgentResultEvent,
    AfterInvocationEvent,
]
ANSWERED = [AfterModelCallEvent, BeforeToolsEvent, BeforeToolCallEvent, AfterToolCallEvent, AfterToolsEvent]


@pytest.mark.parametrize("returns", [False, True], ids=["raised", "returned"])
@pytest.mark.parametrize("event_type", ASKING)
def test_a_callback_of_any_event_halts_and_the_turn_goes_on_when_it_is_resumed(
    event_type: Any, returns: bool
) -> None:
    tools = Tools()
    broken_off = (
        [[call()]] if event_type is ModelStreamUpdateEvent else []
    )  # an answer that is not read to its end
    turns = [*broken_off, [call()], "done"]
    agent = agent_of(*turns, tools=[tools.work], plugins=[Pause(event_type, returns)])
    result = agent("go")
    assert (result.stop_reason, result.data) == ("paused", {"at": event_type.__name__})
    assert (result.resumable, result.plugin, result.interrupts) == (True, "pause", None)
    assert not agent.messages or agent.messages[-1]["role"] == "user" or event_type in ASKING[-2:]
    asked = len(script(agent).requests)
    result = agent.resume("pause")
    assert (result.stop_reason, str(result)) == ("end_turn", "done\n")
    assert (result.data, result.resumable, result.plugin, list(result.halts)) == (None, False, None, [])
    assert tools.ran == ["a"]
    if event_type in ANSWERED:  # the model is not asked again for what it has said
        assert (asked, len(script(agent).requests)) == (1, 2)
    roles = [message["role"] for message in agent.messages]
    assert roles == ["user", "assistant", "user", "assistant"]


def test_a_halt_comes_through_every_door(door: Door) -> None:
    tools = Tools()
    agent = agent_of([call()], "done", tools=[tools.work], plugins=[Pause()])
    result = door(agent, "go")
    assert (result.stop_reason, result.data, tools.ran) == ("paused", {"at": "BeforeToolCallEvent"}, [])
    assert result.message["content"][0]["toolUse"]["name"] == "work"
    assert agent.messages == [{"role": "user", "content": [{"text": "go"}]}]


def resumed(agent: Agent, colour: str, *args: Any, **options: Any) -> AgentResult:
    if colour == "sync":
        return agent.resume(*args, **options)
    return asyncio.run(agent.resume_async(*args, **options))


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_halted_turn_is_there_in_another_process(session: Session, colour: str) -> None:
    tools = Tools()
    first = session.agent([call(), call("b")], "done", tools=[tools.work], plugins=[Pause()])("go")
    agent = session.agent()
    assert [halt.data for halt in agent.halts] == [{"at": "BeforeToolCallEvent"}] * 2
    again = agent()
    assert (again.stop_reason, again.data, list(again.halts)) == ("paused", first.data, list(first.halts))
    assert again.message == first.message
    assert resumed(session.agent(), colour, "pause").stop_reason == "end_turn"
    assert sorted(tools.ran) == ["a", "b"]
    assert (session.agent().halts, len(session.model.requests)) == ([], 2)


CHILD = """
import os, sys
from graphkit.session import FileSessionManager
from tests.agents.conftest import agent_of
from tests.agents.test_halting import Pause, Tools, call

manager = FileSessionManager("s", sys.argv[1])
result = agent_of([call()], tools=[Tools().work], plugins=[Pause()], session_manager=manager)("go")
print(result.stop_reason, flush=True)
os._exit(0)
"""


def test_a_halted_turn_outlives_its_process(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert (ran.stdout, ran.returncode) == ("paused\n", 0), ran.stderr
    tools = Tools()
    manager = FileSessionManager("s", str(tmp_path))
    agent = agent_of("done", tools=[tools.work], plugins=[Pause()], session_manager=manager)
    assert agent().data == {"at": "BeforeToolCallEvent"}
    assert agent.resume("pause").stop_reason == "end_turn"
    assert tools.ran == ["a"]


def async_tool(signal: HaltSignal, returns: bool) -> Any:
    @tool
    async def halting() -> Any:
        """Halts."""
        await asyncio.sleep(0)
        if not returns:
            raise signal
        return signal

    return halting


def blocking_tool(signal: HaltSignal, returns: bool) -> Any:
    @tool
    def halting() -> Any:
        """Halts."""
        try:
            if not returns:
                raise signal
        except Exception as error:  # pragma: no cover - it is none
            return str(error)
        return signal

    return halting


def generator_tool(signal: HaltSignal, returns: bool) -> Any:
    @tool
    def halting() -> Iterator[Any]:
        """Halts."""
        yield "progress"
        if not returns:
            raise signal
        yield signal

    return halting


def async_generator_tool(signal: HaltSignal, returns: bool) -> Any:
    @tool
    async def halting() -> AsyncIterator[Any]:
        """Halts."""
        yield "progress"
        if not returns:
            raise signal
        yield signal

    return halting


def group_tool(signal: HaltSignal, returns: bool) -> Any:
    async def child() -> None:
        raise signal

    @tool
    async def halting() -> Any:
        """Halts."""
        async with asyncio.TaskGroup() as group:
            group.create_task(child())

    return halting


@pytest.mark.parametrize("returns", [False, True], ids=["raised", "returned"])
@pytest.mark.parametrize(
    "made", [blocking_tool, async_tool, generator_tool, async_generator_tool, group_tool]
)
@pytest.mark.parametrize("door", [Door("call"), Door("invoke_async")], ids=["sync", "async"])
def test_a_tool_of_any_kind_halts(made: Any, returns: bool, door: Door) -> None:
    halting = made(HaltSignal("no_more", [1], resumable=False), returns)
    result = door(agent_of([ToolCall("halting", {})], tools=[halting]), "go")
    assert (result.stop_reason, result.data, result.resumable) == ("no_more", [1], False)
    assert result.plugin is None


def test_the_other_callbacks_of_the_event_run_and_may_halt_too() -> None:
    heard: list[str] = []

    def ask(event: BeforeToolCallEvent) -> None:
        heard.append("asks")
        event.interrupt("approval")

    def halt(event: BeforeToolCallEvent) -> HaltSignal:
        heard.append("halts")
        return HaltSignal("second", 2, plugin="pause")

    agent = agent_of([call()], "done", tools=[Tools().work], plugins=[Pause()], hooks=[halt, ask])
    result = agent("go")
    assert heard == ["halts", "asks"]
    assert [(each.stop_reason, each.data) for each in result.halts] == [
        ("second", 2),
        ("paused", {"at": "BeforeToolCallEvent"}),
    ]
    assert (result.stop_reason, result.data) == ("second", 2)
    assert [question.name for question in result.interrupts or []] == ["approval"]
    assert agent.halts == result.halts
    assert [question.name for question in agent.interrupts] == ["approval"]


def test_calls_beside_a_halted_one_run_to_their_end_and_once() -> None:
    tools = Tools()

    def halt_b(event: BeforeToolCallEvent) -> HaltSignal | None:
        waits = event.tool_use["input"]["thing"] == "b" and not event.agent.state.get("go")
        return HaltSignal("waiting") if waits else None

    agent = agent_of([call("a"), call("b"), call("c")], "done", tools=[tools.work], hooks=[halt_b])
    assert agent("go").stop_reason == "waiting"
    assert sorted(tools.ran) == ["a", "c"]
    assert agent.resume().stop_reason == "waiting"  # nothing has changed: it halts again
    assert sorted(tools.ran) == ["a", "c"]
    agent.state.set("go", True)
    assert agent.resume().stop_reason == "end_turn"
    assert tools.ran[2:] == ["b"]
    results = agent.messages[2]["content"]
    assert [block["toolResult"]["content"][0]["text"] for block in results] == [
        "worked on a",
        "worked on b",
        "worked on c",
    ]


def test_questions_beside_a_halt_are_answered_on_their_own() -> None:
    tools = Tools()

    @tool(context=True)
    def ask(tool_context: ToolContext) -> str:
        """Ask."""
        return str(tool_context.interrupt("which"))

    def pause(event: BeforeToolCallEvent) -> HaltSignal | None:
        waits = event.tool_use["name"] == "work" and not event.agent.state.get("go")
        return HaltSignal("waiting") if waits else None

    agent = agent_of([call(), ToolCall("ask", {})], "done", tools=[tools.work, ask], hooks=[pause])
    result = agent("go")
    assert result.stop_reason == "waiting"
    (question,) = result.interrupts or []
    with pytest.raises(InvalidPromptError, match="waits for answers"):
        agent("another")
    result = agent([response(question, "this")])
    assert (result.stop_reason, result.interrupts) == ("waiting", None)
    agent.state.set("go", True)
    assert agent.resume().stop_reason == "end_turn"
    assert agent.messages[2]["content"][1]["toolResult"]["content"] == [{"text": "this"}]


def test_a_new_prompt_leaves_what_was_halted() -> None:
    agent = agent_of([call()], "done", tools=[Tools().work], plugins=[Pause()])
    agent("go")
    assert agent("something else").stop_reason == "end_turn"
    assert agent.messages[2]["content"][0]["toolResult"]["status"] == "error"
    with pytest.raises(NotHaltedError, match="no turn of it is going on"):
        agent.resume("pause")


def test_no_answer_passes_a_halt() -> None:
    tools = Tools()
    agent = agent_of([call()], "done", tools=[tools.work], plugins=[Pause()])
    agent("go")
    (halted,) = agent.thread().snapshot.interrupts
    answers: list[Any] = [[response(halted, True)], Command(resume={halted.id: "y"}), Command(resume="y")]
    for answer in answers:
        with pytest.raises(InvalidResponseError, match="stays open"):
            agent(answer)
    assert (agent().stop_reason, tools.ran) == ("paused", [])


def test_a_halt_is_no_question_and_its_result_is_told() -> None:
    heard: list[Any] = []

    def hear(event: InterruptEvent | AgentResultEvent | AfterInvocationEvent) -> None:
        heard.append((type(event), event.result.stop_reason))  # type: ignore[union-attr]

    agent = agent_of([call()], tools=[Tools().work], plugins=[Pause()], hooks=[hear])
    agent("go")
    assert heard == [(AgentResultEvent, "paused"), (AfterInvocationEvent, "paused")]


def test_a_halt_is_in_the_graph_s_own_view() -> None:
    agent = agent_of([call()], "done", tools=[Tools().work], plugins=[Pause()])
    agent("go")
    state = agent.graph.get_state(agent.thread().config)
    assert state.next == ("tools",)
    assert [each.value for each in state.interrupts] == [
        Halt("paused", {"at": "BeforeToolCallEvent"}, True, "pause")
    ]


# --- What cannot be meant ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"stop_reason": ""}, ValueError),
        ({"stop_reason": 5}, TypeError),
        ({"stop_reason": "x", "plugin": ""}, TypeError),
    ],
)
def test_a_signal_says_why(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="HaltSignal needs"):
        HaltSignal(**arguments)


def test_data_that_cannot_be_stored_is_refused_where_it_was_given() -> None:
    def halt(event: BeforeModelCallEvent) -> HaltSignal:
        return HaltSignal("x", object())

    with pytest.raises(UnserializableStateError, match=r"something halts \('x'\) with data"):
        agent_of("done", hooks=[halt])("go")


@pytest.mark.parametrize("event_type", [AgentResultEvent, AfterInvocationEvent, AfterToolsEvent])
def test_a_halt_inside_a_halt_is_an_error_and_the_first_one_stays(event_type: Any) -> None:
    tools = Tools()
    armed = [True]

    def halt(event: Any) -> HaltSignal | None:
        return HaltSignal("again") if armed[0] else None

    agent = agent_of([call()], "done", tools=[tools.work], plugins=[Pause()])
    agent.add_hook(halt, event_type)
    with pytest.raises(HaltedTwiceError, match=r"'again'.*'paused', plugin 'pause'"):
        agent("go")
    armed[0] = False
    assert [halt.stop_reason for halt in agent.halts] == ["paused"]
    assert agent.resume("pause").stop_reason == "end_turn"
    assert tools.ran == ["a"]


def test_a_halt_for_good_is_not_resumed() -> None:
    def halt(event: BeforeToolCallEvent) -> HaltSignal:
        return HaltSignal("enough", resumable=False)

    agent = agent_of([call()], "done", tools=[Tools().work], hooks=[halt])
    result = agent("go")
    assert (result.stop_reason, result.resumable) == ("enough", False)
    with pytest.raises(NotHaltedError, match=r"halted for good \('enough'"):
        agent.resume()
    assert agent().stop_reason == "enough"
    assert agent("go on").stop_reason == "end_turn"


def test_a_callback_cannot_end_a_halt_with_a_prompt() -> None:
    def more(event: AfterInvocationEvent) -> None:
        event.resume = "and now?"

    agent = agent_of([call()], "done", tools=[Tools().work], plugins=[Pause()], hooks=[more])
    with pytest.raises(InvalidPromptError, match=r"while the agent is halted \('paused'\)"):
        agent("go")


def test_a_tool_that_is_called_directly_cannot_halt() -> None:
    @tool
    def halting() -> Any:
        """Halts."""
        raise HaltSignal("paused")

    agent = agent_of("done", tools=[halting])
    with pytest.raises(RuntimeError, match="'halting' cannot be called directly: it halts"):
        agent.tool.halting()
    assert agent.messages == []


def test_a_halted_conversation_takes_no_direct_call() -> None:
    agent = agent_of([call()], "done", tools=[Tools().work], plugins=[Pause()])
    agent("go")
    with pytest.raises(RuntimeError, match="or is halted"):
        agent.tool.work(thing="b")


def test_a_model_that_halts_does_so_for_no_plugin() -> None:
    class Model(ScriptedModel):
        def stream(self, *args: Any, **kwargs: Any) -> Any:
            raise HaltSignal("no model")

    assert Agent(Model([]), callback_handler=None)("go").stop_reason == "no model"


class Owned(Plugin):
    """Halts from everything that a plugin can have."""

    name = "owned"

    def init_agent(self, agent: Agent) -> None:
        agent.add_hook(lambda event: HaltSignal("closure"), BeforeModelCallEvent)

    @hook
    async def after_model(self, event: AfterModelCallEvent) -> HaltSignal:
        return HaltSignal("method")

    @tool
    def owned_tool(self) -> Any:
        """Halts."""
        return HaltSignal("tool")


@pytest.mark.parametrize("reason", ["closure", "method", "tool"])
def test_whose_halt_it_is_is_known(reason: str) -> None:
    class One(Owned):
        def init_agent(self, agent: Agent) -> None:
            if reason == "closure":
                super().init_agent(agent)

        @hook
        async def after_model(self, event: AfterModelCallEvent) -> HaltSignal | None:  # type: ignore[override]
            return await super().after_model(event) if reason == "method" else None

    result = agent_of([ToolCall("owned_tool", {})], plugins=[One()])("go")
    assert (result.stop_reason, result.plugin) == (reason, "owned")


# --- At the edges of a request ----------------------------------------------------------------------------


@pytest.mark.parametrize("event_type", [BeforeInvocationEvent, AfterInvocationEvent, AfterToolsEvent])
def test_a_request_with_questions_halts_at_its_edges(event_type: Any, session: Session) -> None:
    @tool(context=True)
    def ask(tool_context: ToolContext) -> str:
        """Ask."""
        return str(tool_context.interrupt("which"))

    class Edge(Pause):
        def pause(self, event: Any) -> HaltSignal | None:
            waits = event_type is not BeforeInvocationEvent or event.messages is None
            return super().pause(event) if waits else None

    plugin = Edge(event_type)
    result = session.agent([ToolCall("ask", {})], "done", tools=[ask], plugins=[plugin])("go")
    (question,) = result.interrupts or []
    if event_type is BeforeInvocationEvent:  # of the request that answers
        assert result.stop_reason == "interrupt"
        result = session.agent()([response(question, "this")])
        assert (result.stop_reason, result.interrupts) == ("paused", None)
        assert session.agent().resume("pause").stop_reason == "end_turn"
    else:  # of the one that asks
        assert (result.stop_reason, result.plugin) == ("paused", "pause")
        result = session.agent().resume("pause")
        assert (result.stop_reason, list(result.halts)) == ("interrupt", [])
        assert session.agent()([response(question, "this")]).stop_reason == "end_turn"
    assert session.agent().messages[2]["content"][0]["toolResult"]["content"] == [{"text": "this"}]


@pytest.mark.parametrize("how", ["init_agent", "event"])
def test_what_does_not_run_yet_cannot_be_halted(how: str) -> None:
    class Early(Plugin):
        name = "early"

        def init_agent(self, agent: Agent) -> None:
            if how == "init_agent":
                raise HaltSignal("early")
            agent.add_hook(lambda event: HaltSignal("early"), AgentInitializedEvent)

    with pytest.raises(RuntimeError, match=r"halts \('early'\).* nothing runs yet"):
        agent_of(plugins=[Early()])


def test_an_error_beside_a_halt_comes_out_and_the_turn_halts_again() -> None:
    broken = [True]

    def fail(event: BeforeToolCallEvent) -> None:
        if broken[0]:
            raise LookupError("broken")

    tools = Tools()
    agent = agent_of([call()], "done", tools=[tools.work], plugins=[Pause()], hooks=[])
    agent.add_hook(fail, BeforeToolCallEvent)
    with pytest.raises(LookupError, match="broken"):
        agent("go")
    assert agent.halts == []
    broken[0] = False
    assert agent().stop_reason == "paused"
    assert agent.resume("pause").stop_reason == "end_turn"
    assert tools.ran == ["a"]
