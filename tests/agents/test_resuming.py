"""Going on after a halt as the plugin directs: honoured exactly, or refused before anything runs (S160–S162)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from graphkit import Agent, AgentResult, tool
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.errors import (
    ConcurrencyException,
    HaltedTwiceError,
    InvalidDirectiveError,
    InvalidPromptError,
    NotHaltedError,
    UnknownPluginError,
)
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    HookEvent,
)
from graphkit.middleware import ExecuteToolsStage, ExecuteToolStage, InvokeModelStage
from graphkit.models.scripted import ToolCall
from graphkit.plugins import HaltSignal, Plugin, ResumeDirective
from graphkit.types.content import Message
from graphkit.types.tools import ToolResultBlock
from tests.agents.conftest import Session, agent_of, names, script


class Tools:
    """Counts what runs."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    @tool
    def work(self, thing: str) -> str:
        """Work on a thing."""
        self.ran.append(thing)
        return f"worked on {thing}"


@pytest.fixture
def tools() -> Tools:
    return Tools()


def call(thing: str) -> ToolCall:
    return ToolCall("work", {"thing": thing}, thing)


def use(thing: str, id: str | None = None) -> Any:
    return {"toolUse": {"toolUseId": id or thing, "name": "work", "input": {"thing": thing}}}


def said(*blocks: Any) -> Message:
    return {"role": "assistant", "content": list(blocks)}


def done(id: str, text: str = "done elsewhere") -> Any:
    return {"toolUseId": id, "status": "success", "content": [{"text": text}]}


class Pause(Plugin):
    """Halts at an event, for the things that it is told, until it is resumed as it is told."""

    def __init__(
        self, event_type: Any = BeforeToolCallEvent, things: str = "abc", name: str = "pause"
    ) -> None:
        self.name = name
        self.event_type = event_type
        self.things = things
        self.directs: Callable[[Agent, Any], Any] = lambda agent, data: data

    def init_agent(self, agent: Agent) -> None:
        agent.add_hook(self.pause, self.event_type)

    def pause(self, event: Any) -> HaltSignal | None:
        use = getattr(event, "tool_use", None)
        if use is not None and use["input"]["thing"] not in self.things:
            return None
        resumed = event.agent.get_plugin_state(self.name, per_invocation=True)
        return None if resumed else HaltSignal("paused")

    def on_resume(self, agent: Agent, data: Any) -> Any:
        agent.set_plugin_state(self.name, True, per_invocation=True)
        return self.directs(agent, data)


def results(agent: Any) -> list[Any]:
    return [
        (
            block["toolResult"]["toolUseId"],
            block["toolResult"]["status"],
            block["toolResult"]["content"][0]["text"],
        )
        for message in agent.messages
        for block in message["content"]
        if "toolResult" in block
    ]


def calls(agent: Agent) -> list[Any]:
    return [
        block["toolUse"]["input"]["thing"]
        for message in agent.messages
        for block in message["content"]
        if "toolUse" in block
    ]


# --- on_resume --------------------------------------------------------------------------------------------


class Waits(Pause):
    async def on_resume(self, agent: Agent, data: Any) -> Any:
        await asyncio.sleep(0)
        return super().on_resume(agent, data)


@pytest.mark.parametrize("plugin", [Pause(), Waits()], ids=["function", "coroutine"])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_plugin_is_given_the_data_and_the_halted_conversation(
    plugin: Pause, colour: str, tools: Tools
) -> None:
    agent = agent_of([call("a")], "one", [call("b")], "two", tools=[tools.work], plugins=[plugin])
    seen: list[Any] = []

    def direct(agent: Agent, data: Any) -> None:
        seen.append((data, [message["role"] for message in agent.messages], agent.state.get("whose")))
        agent.state.set("resumed", data)

    plugin.directs = direct
    agent.thread("x").state.set("whose", "x's")
    assert agent("go", thread_id="x").stop_reason == "paused"
    if colour == "sync":
        result = agent.thread("x").resume("pause", 5)
    else:
        result = asyncio.run(agent.thread("x").resume_async("pause", 5))
    assert (seen, result.stop_reason) == ([(5, ["user"], "x's")], "end_turn")
    assert (agent.thread("x").state.get("resumed"), agent.state.get("resumed")) == (5, None)
    assert agent("go").stop_reason == "paused"  # the agent's own thread knows nothing of it


def test_options_are_those_of_a_call(tools: Tools) -> None:
    agent = agent_of([call("a")], "done", tools=[tools.work], plugins=[Pause()])
    agent("go")
    state = {"mine": object()}
    assert agent.resume("pause", invocation_state=state).invocation_state is state


def test_two_plugins_are_resumed_one_by_one(session: Session, tools: Tools) -> None:
    plugins = [Pause(things="a", name="one"), Pause(things="bc", name="two")]
    session.agent([call("a"), call("b"), call("c"), call("d")], "done", tools=[tools.work], plugins=plugins)(
        "go"
    )
    assert [halt.plugin for halt in session.agent().halts] == ["one", "two", "two"]
    result = session.agent().resume("two")
    assert (result.stop_reason, result.plugin, sorted(tools.ran)) == ("paused", "one", ["b", "c", "d"])
    assert session.agent().resume("one").stop_reason == "end_turn"
    assert sorted(tools.ran) == ["a", "b", "c", "d"]


def test_the_opening_of_a_resumed_request_is_heard(tools: Tools) -> None:
    agent = agent_of([call("a")], "done", tools=[tools.work], plugins=[Pause()])
    agent("go")
    heard: list[Any] = []
    agent.add_hook(heard.append, HookEvent)
    agent.resume("pause")
    assert [name for name in names(heard) if "Stream" not in name and "Block" not in name][:4] == [
        "BeforeInvocation",
        "BeforeToolCall",
        "ToolResult",
        "AfterToolCall",
    ]
    assert heard[0].messages is None


# --- The directive, honoured ------------------------------------------------------------------------------


@pytest.mark.parametrize("skip", [None, True])
def test_only_calls_without_a_result_run_and_the_model_is_skipped(
    skip: bool | None, session: Session, tools: Tools
) -> None:
    session.agent([call("a"), call("d")], "done", tools=[tools.work], plugins=[Pause()])("go")
    heard: list[str] = []
    agent = session.agent()
    agent.add_hook(
        lambda event: heard.append(type(event).__name__), [BeforeModelCallEvent, BeforeToolCallEvent]
    )
    agent.resume("pause", ResumeDirective(skip_model_call=skip))
    assert heard == ["BeforeToolCallEvent", "BeforeModelCallEvent"]
    assert tools.ran == ["d", "a"]
    assert [result[2] for result in results(session.agent())] == ["worked on a", "worked on d"]


@pytest.mark.parametrize(
    "given",
    [
        done("a"),
        {"toolResult": done("a")},
        {"toolUseId": "a", "content": [{"text": "done elsewhere"}]},
        ToolResultBlock(tool_use_id="a", status="success", content=[{"text": "done elsewhere"}]),
    ],
    ids=["result", "block", "without status", "object"],
)
def test_a_call_with_a_completed_result_does_not_run(given: Any, session: Session, tools: Tools) -> None:
    session.agent([call("a"), call("b"), call("d")], "done", tools=[tools.work], plugins=[Pause()])("go")
    heard: list[Any] = []
    agent = session.agent()
    agent.add_hook(lambda event: heard.append(event.tool_use["toolUseId"]), BeforeToolCallEvent)
    result = agent.resume("pause", ResumeDirective(True, completed_tool_results=[given]))
    assert (result.stop_reason, heard, tools.ran) == ("end_turn", ["b"], ["d", "b"])
    assert results(session.agent()) == [
        ("a", "success", "done elsewhere"),
        ("b", "success", "worked on b"),
        ("d", "success", "worked on d"),
    ]


def test_a_result_that_is_there_stays(tools: Tools) -> None:
    agent = agent_of([call("a"), call("d")], "done", tools=[tools.work], plugins=[Pause()])
    agent("go")
    agent.resume("pause", ResumeDirective(completed_tool_results=[done("a"), done("d", "another")]))
    assert [result[2] for result in results(agent)] == ["done elsewhere", "worked on d"]


def test_completed_results_are_those_of_this_batch_alone(tools: Tools) -> None:
    turns = [[call("a")], [call("a")], "done"]
    agent = agent_of(*turns, tools=[tools.work], plugins=[Pause()])
    agent("go")
    agent.resume("pause", ResumeDirective(completed_tool_results=[done("a")]))
    assert [result[2] for result in results(agent)] == ["done elsewhere", "worked on a"]


def test_the_model_is_called_instead_of_the_tools(session: Session, tools: Tools) -> None:
    session.agent([call("a"), call("b"), call("d")], "done", tools=[tools.work], plugins=[Pause()])("go")
    directive = ResumeDirective(skip_model_call=False, completed_tool_results=[done("b")])
    assert session.agent().resume("pause", directive).stop_reason == "end_turn"
    assert tools.ran == ["d"]
    assert results(session.agent()) == [
        ("a", "error", "The call was not completed."),
        ("b", "success", "done elsewhere"),
        ("d", "success", "worked on d"),
    ]


@pytest.mark.parametrize("event_type", [BeforeToolCallEvent, BeforeToolsEvent])
@pytest.mark.parametrize(
    ("restored", "ran", "expected"),
    [
        (said(use("a"), use("d")), ["a", "d"], ["a", "d"]),
        (said({"text": "now"}, use("x", "a"), use("d")), ["d", "x"], ["x", "d"]),
        (said(use("d")), ["d"], ["d"]),
        (said(use("x"), use("d"), use("y")), ["d", "x", "y"], ["x", "d", "y"]),
    ],
    ids=["the same", "another input", "fewer", "more"],
)
def test_the_calls_of_a_restored_message_are_made(
    event_type: Any, restored: Message, ran: list[str], expected: list[str], session: Session, tools: Tools
) -> None:
    turns = [[call("a"), call("d")], "done"]
    session.agent(*turns, tools=[tools.work], plugins=[Pause(event_type)])("go")
    result = session.agent().resume("pause", ResumeDirective(True, restored))
    assert (result.stop_reason, len(session.model.requests)) == ("end_turn", 2)
    assert sorted(tools.ran) == ran  # "d" once, before or after
    agent = session.agent()
    assert calls(agent) == expected
    assert [each[2] for each in results(agent)] == [f"worked on {thing}" for thing in expected]
    assert [message["role"] for message in agent.messages] == ["user", "assistant", "user", "assistant"]
    asked = [message["content"] for message in session.model.requests[-1].messages]
    assert asked == [message["content"] for message in agent.messages[:-1]]


def test_a_restored_message_and_its_completed_results(session: Session, tools: Tools) -> None:
    session.agent([call("a")], "done", tools=[tools.work], plugins=[Pause()])("go")
    directive = ResumeDirective(True, said(use("x"), use("y")), [done("x")])
    session.agent().resume("pause", directive)
    assert tools.ran == ["y"]
    assert [each[2] for each in results(session.agent())] == ["done elsewhere", "worked on y"]


@pytest.mark.parametrize("event_type", [BeforeInvocationEvent, BeforeModelCallEvent, AfterModelCallEvent])
def test_a_restored_message_stands_for_the_model_s_answer(
    event_type: Any, session: Session, tools: Tools
) -> None:
    first = ["never read"] if event_type is AfterModelCallEvent else []
    session.agent(*first, "done", tools=[tools.work], plugins=[Pause(event_type)])("go")
    directive = ResumeDirective(True, said(use("x"), use("y")), [done("x")])
    result = session.agent().resume("pause", directive)
    assert (str(result), tools.ran) == ("done\n", ["y"])
    agent = session.agent()
    assert [each[2] for each in results(agent)] == ["done elsewhere", "worked on y"]
    assert [message["role"] for message in agent.messages] == ["user", "assistant", "user", "assistant"]


def test_a_restored_text_ends_the_turn(tools: Tools) -> None:
    agent = agent_of(plugins=[Pause(BeforeModelCallEvent)])
    agent("go")
    result = agent.resume("pause", ResumeDirective(True, said({"text": "from elsewhere"})))
    assert (result.stop_reason, str(result)) == ("end_turn", "from elsewhere\n")


def test_a_turn_that_had_ended_goes_on_with_a_restored_message(session: Session, tools: Tools) -> None:
    session.agent("one", "two", tools=[tools.work], plugins=[Pause(AfterInvocationEvent)])("go")
    result = session.agent().resume("pause", ResumeDirective(True, said(use("x"))))
    assert (str(result), tools.ran) == ("two\n", ["x"])


@pytest.mark.parametrize(
    ("skip", "text", "requests"), [(None, "one", 1), (True, "one", 1), (False, "two", 2)]
)
def test_an_answer_that_is_there_is_kept_or_asked_for_again(
    skip: bool | None, text: str, requests: int, session: Session
) -> None:
    session.agent("one", "two", plugins=[Pause(AfterModelCallEvent)])("go")
    agent = session.agent()
    heard: list[Any] = []
    agent.add_hook(heard.append, AfterModelCallEvent)
    result = agent.resume("pause", ResumeDirective(skip_model_call=skip))
    assert (str(result), len(session.model.requests), len(heard)) == (f"{text}\n", requests, 1)


class Around(Pause):
    """Halts in middleware: after the model has answered, or around calls."""

    def __init__(self, stage: Any) -> None:
        super().__init__(HookEvent, things="")
        self.stage = stage

    def init_agent(self, agent: Agent) -> None:
        agent.add_middleware(self.stage, self.wrap)

    def wrap(self, context: Any, next: Any) -> Any:
        result = None
        if self.stage is InvokeModelStage:
            result = yield from next(context)
        if signal := self.pause(SimpleNamespace(agent=context.agent)):
            signal.plugin = self.name
            raise signal
        return (yield from next(context)) if result is None else result


@pytest.mark.parametrize(
    ("skip", "text", "requests"), [(None, "one", 1), (True, "one", 1), (False, "two", 2)]
)
def test_an_answer_that_middleware_had_is_kept_or_asked_for_again(
    skip: bool | None, text: str, requests: int, session: Session
) -> None:
    session.agent("one", "two", plugins=[Around(InvokeModelStage)])("go")
    result = session.agent().resume("pause", ResumeDirective(skip_model_call=skip))
    assert (str(result), len(session.model.requests)) == (f"{text}\n", requests)


@pytest.mark.parametrize("stage", [ExecuteToolStage, ExecuteToolsStage])
@pytest.mark.parametrize(
    ("directive", "ran", "expected"),
    [
        (None, ["a", "d"], ["worked on a", "worked on d"]),
        (ResumeDirective(True, completed_tool_results=[done("a")]), ["d"], ["done elsewhere", "worked on d"]),
        (ResumeDirective(False, None, [done("d")]), [], ["The call was not completed.", "done elsewhere"]),
        (ResumeDirective(True, said(use("x", "a"), use("d"))), ["d", "x"], ["worked on x", "worked on d"]),
        (ResumeDirective(True, said(use("x")), []), ["x"], ["worked on x"]),
    ],
    ids=["as it was", "completed", "the model", "another input", "other calls"],
)
def test_calls_that_middleware_has_halted_go_on_as_directed(
    stage: Any, directive: Any, ran: list[str], expected: list[str], session: Session, tools: Tools
) -> None:
    session.agent([call("a"), call("d")], "done", tools=[tools.work], plugins=[Around(stage)])("go")
    assert tools.ran == []
    assert session.agent().resume("pause", directive).stop_reason == "end_turn"
    assert (sorted(tools.ran), len(session.model.requests)) == (ran, 2)
    assert [each[2] for each in results(session.agent())] == expected


# --- Refused before anything runs -------------------------------------------------------------------------


def refuses(
    agent: Agent, tools: Tools, error: type[Exception], match: str, resume: Callable[[], Any]
) -> None:
    """What is refused leaves no trace, and the thread can be resumed."""
    before = agent.thread().snapshot
    told: list[Any] = []
    agent.add_hook(told.append, HookEvent)
    with pytest.raises(error, match=match):
        resume()
    after = agent.thread().snapshot
    assert (told, tools.ran, after) == ([], [], before)
    agent.thread().set_plugin_state("pause", True, per_invocation=True)
    assert agent.resume("pause").stop_reason == "end_turn"


WRONG: list[tuple[Any, str]] = [
    (
        ResumeDirective(completed_tool_results=[done("x"), done("a")]),
        r"calls that do not exist: 'x'; .*\['a'\]",
    ),
    (
        ResumeDirective(restore_message=said(use("x")), completed_tool_results=[done("a")]),
        "do not exist: 'a'",
    ),
    (ResumeDirective(completed_tool_results=done("a")), "no list of results"),
    (ResumeDirective(completed_tool_results=[5]), "5, which is no result"),
    (ResumeDirective(completed_tool_results=[{"toolUseId": "a"}]), "which is no result"),
    (ResumeDirective(restore_message={"role": "user", "content": []}), "no message of the assistant"),
    (ResumeDirective(restore_message="go on"), "no message of the assistant"),  # type: ignore[arg-type]
    (ResumeDirective(restore_message=said("text")), "no list of blocks"),
    (ResumeDirective(restore_message=said({"toolUse": {"name": "work"}})), "no call of a tool"),
    (ResumeDirective(skip_model_call="yes"), "neither True nor False"),  # type: ignore[arg-type]
    (ResumeDirective(False, said(use("x"))), "restores an answer and calls the model all the same"),
    ({"skip_model_call": True}, "which is no ResumeDirective"),
    (True, "True, which is no ResumeDirective"),
]


@pytest.mark.parametrize(("directive", "match"), WRONG)
def test_a_directive_that_cannot_be_followed_is_refused(directive: Any, match: str, tools: Tools) -> None:
    agent = agent_of([call("a")], "done", tools=[tools.work], plugins=[Pause()])
    agent("go")
    refuses(agent, tools, InvalidDirectiveError, match, lambda: agent.resume("pause", directive))


@pytest.mark.parametrize("event_type", [BeforeInvocationEvent, BeforeModelCallEvent])
def test_the_model_cannot_be_skipped_before_it_has_answered(event_type: Any, tools: Tools) -> None:
    agent = agent_of("done", plugins=[Pause(event_type)])
    agent("go")
    directive = ResumeDirective(skip_model_call=True)
    match = "skips the model, which has not answered"
    refuses(agent, tools, InvalidDirectiveError, match, lambda: agent.resume("pause", directive))


def test_results_before_there_is_a_call_are_refused(tools: Tools) -> None:
    agent = agent_of("done", plugins=[Pause(BeforeModelCallEvent)])
    agent("go")
    directive = ResumeDirective(completed_tool_results=[done("a")])
    refuses(
        agent, tools, InvalidDirectiveError, "do not exist: 'a'", lambda: agent.resume("pause", directive)
    )


def test_other_calls_cannot_be_restored_while_something_else_waits(tools: Tools) -> None:
    plugins = [Pause(things="a"), Pause(things="b", name="other")]
    agent = agent_of([call("a"), call("b")], "done", tools=[tools.work], plugins=plugins)
    agent("go")
    with pytest.raises(InvalidDirectiveError, match="while something else waits too"):
        agent.resume("pause", ResumeDirective(True, said(use("x"))))
    agent.resume("other")
    assert agent.resume("pause").stop_reason == "end_turn"


def raising(agent: Agent, data: Any) -> Any:
    agent.set_plugin_state("pause", "changed")
    agent.state.set("changed", True)
    agent.messages.append({"role": "user", "content": [{"text": "changed"}]})
    raise LookupError("nothing there")


def test_what_on_resume_raises_comes_out_and_what_it_had_changed_is_as_before(tools: Tools) -> None:
    plugin = Pause()
    agent = agent_of([call("a")], "done", tools=[tools.work], plugins=[plugin])
    agent("go")
    plugin.directs = raising
    with pytest.raises(LookupError, match="nothing there") as raised:
        agent.resume("pause")
    assert raised.value.__notes__ == ["raised by on_resume of plugin 'pause'; the thread stays halted"]
    assert (agent.get_plugin_state("pause"), agent.state.get("changed"), len(agent.messages)) == (
        None,
        None,
        1,
    )
    plugin.directs = lambda agent, data: None
    assert agent.resume("pause").stop_reason == "end_turn"
    assert (agent.get_plugin_state("pause"), agent.state.get("changed")) == (None, None)


def halting(agent: Agent, data: Any) -> Any:
    if data == "raised":
        raise HaltSignal("again")
    return HaltSignal("again")


@pytest.mark.parametrize("how", ["raised", "returned"])
def test_a_halt_in_on_resume_is_an_error(how: str, tools: Tools) -> None:
    plugin = Pause()
    agent = agent_of([call("a")], "done", tools=[tools.work], plugins=[plugin])
    agent("go")
    plugin.directs = halting
    match = r"on_resume of plugin 'pause' halts \('again'\)"
    with pytest.raises(HaltedTwiceError, match=match):
        agent.resume("pause", how)
    plugin.directs = lambda agent, data: None
    assert agent.resume("pause").stop_reason == "end_turn"


def test_a_plugin_that_has_gone_is_an_error_and_the_thread_waits_for_it(
    session: Session, tools: Tools
) -> None:
    session.agent([call("a")], "done", tools=[tools.work], plugins=[Pause()])("go")
    with pytest.raises(
        UnknownPluginError, match=r"halted by plugin 'pause', which this agent does not have: .*\['x'\]"
    ):
        session.agent(plugins=[Pause(name="x")]).resume("pause")
    assert session.agent(plugins=[]).halts[0].plugin == "pause"
    assert session.agent(plugins=[Pause()]).resume("pause").stop_reason == "end_turn"


def test_what_was_never_halted_is_not_resumed(tools: Tools) -> None:
    agent = agent_of("one", "two", plugins=[Pause(things="")], tools=[tools.work])
    for name in ("pause", "nobody", None):
        with pytest.raises(NotHaltedError, match="no turn of it is going on"):
            agent.resume(name)
    agent("go")
    with pytest.raises(NotHaltedError, match=r"plugin 'pause' has not halted thread '\w+': no turn"):
        agent.resume("pause")
    with pytest.raises(NotHaltedError, match="nothing outside of plugins has halted"):
        agent.resume()
    assert len(agent.messages) == 2


def test_what_another_plugin_has_halted_is_not_resumed(tools: Tools) -> None:
    agent = agent_of(
        [call("a")], "done", plugins=[Pause(), Pause(things="", name="other")], tools=[tools.work]
    )
    agent("go")
    for name in ("other", None):
        with pytest.raises(NotHaltedError, match="it was halted by 'pause'"):
            agent.resume(name)
    assert agent.resume("pause").stop_reason == "end_turn"


def test_a_halt_is_resumed_once(tools: Tools) -> None:
    agent = agent_of([call("a")], "done", plugins=[Pause()], tools=[tools.work])
    agent("go")
    agent.resume("pause")
    with pytest.raises(NotHaltedError, match="no turn of it is going on"):
        agent.resume("pause")
    assert (tools.ran, len(script(agent).requests)) == (["a"], 2)


def test_a_turn_that_fails_after_it_was_resumed_goes_on_without_another_resume(tools: Tools) -> None:
    broken = [True]

    def fail(event: AfterToolCallEvent) -> None:
        if broken[0]:
            raise RuntimeError("broken")

    agent = agent_of([call("a")], "done", plugins=[Pause()], tools=[tools.work], hooks=[fail])
    agent("go")
    with pytest.raises(RuntimeError, match="broken"):
        agent.resume("pause", ResumeDirective(True))
    with pytest.raises(NotHaltedError, match=r"a turn of it is unfinished, and goes on with agent\(\)"):
        agent.resume("pause")
    broken[0] = False
    assert agent().stop_reason == "end_turn"
    assert tools.ran == ["a"]


def test_nothing_is_resumed_while_a_request_runs(tools: Tools) -> None:
    raised: list[BaseException] = []

    def resume(event: BeforeModelCallEvent) -> None:
        try:
            event.agent.resume("pause")
        except ConcurrencyException as error:
            raised.append(error)

    agent = agent_of("done", plugins=[Pause(things="")], hooks=[resume])
    assert agent("go").stop_reason == "end_turn"
    assert len(raised) == 1


def test_two_resumes_at_once_run_it_once(tools: Tools) -> None:
    saver = InMemorySaver()

    def another() -> Agent:
        return agent_of([call("a")], "done", plugins=[plugin], tools=[tools.work], checkpointer=saver)

    plugin = Pause()
    another()("go", thread_id="t")
    plugin.directs = lambda agent, data: None if data else agent_resumes()

    def agent_resumes() -> None:
        """Between what the first resume has seen and what it stores, the second one runs to its end."""
        agent_in_time = agent_of("done", plugins=[plugin], tools=[tools.work], checkpointer=saver)
        assert agent_in_time.resume("pause", "second", thread_id="t").stop_reason == "end_turn"

    try:
        result: AgentResult | None = another().resume("pause", thread_id="t")
    except (InvalidPromptError, KeyError, ValueError):
        result = None
    assert tools.ran == ["a"]
    assert result is None or result.stop_reason == "end_turn"
