"""The rules of the seed on interrupts, bullet by bullet, through every door, with and without a session."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphkit import Interrupt, tool
from graphkit.agent import Agent, AgentResult
from graphkit.errors import UnserializableStateError
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    HookProvider,
    HookRegistry,
)
from graphkit.models.scripted import ScriptedModel, ToolCall
from graphkit.session import FileSessionManager, FileStorage, SessionManager
from graphkit.types.interrupt import InterruptResponse, InterruptResponseContent
from graphkit.types.tools import ToolContext
from tests.seeds.conftest import Play, responses

one_door = pytest.mark.parametrize("door", ["call"], indirect=True)
"""For rules about values: what is said of a value does not depend on the way to the agent."""

DONE = "Done."


class Tools:
    """Tools that count how often their bodies were begun."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    @tool
    def work(self, thing: str) -> str:
        """Do something with a thing."""
        self.ran.append(thing)
        return f"worked on {thing}"

    @tool(context=True)
    def ask(self, thing: str, tool_context: ToolContext) -> str:
        """Ask a person about a thing."""
        self.ran.append(f"asks about {thing}")
        return f"{thing}: {tool_context.interrupt('approval', reason={'thing': thing})}"

    @tool(context="context")
    def ask_too(self, thing: str, context: ToolContext) -> str:
        """Ask a person about a thing, in a question of the same name."""
        self.ran.append(f"asks about {thing} too")
        return f"{thing}: {context.interrupt(name='approval', reason={'thing': thing})}"

    @tool(context=True)
    def ask_twice(self, tool_context: ToolContext) -> str:
        """Ask one question after the other."""
        self.ran.append("asks twice")
        return f"{tool_context.interrupt('first')} {tool_context.interrupt('second')}"

    @property
    def all(self) -> list[Any]:
        return [self.work, self.ask, self.ask_too, self.ask_twice]


@pytest.fixture
def tools() -> Tools:
    return Tools()


def work(thing: str = "a") -> ToolCall:
    return ToolCall("work", {"thing": thing})


def approve(event: BeforeToolCallEvent) -> None:
    """Ask before every call."""
    if event.interrupt("approval", reason={"thing": event.tool_use["input"].get("thing")}) != "y":
        event.cancel_tool = "denied"


def names(result: AgentResult) -> list[str | None]:
    return [interrupt.name for interrupt in result.interrupts or []]


def reasons(result: AgentResult) -> list[Any]:
    return [interrupt.reason for interrupt in result.interrupts or []]


# --- A. The flow ------------------------------------------------------------------------------------------


def test_s1_a_question_stops_the_loop_before_the_tool_and_gives_control_back(
    play: Play, tools: Tools
) -> None:
    scene = play([work()], DONE, tools=tools.all, hooks=[approve])
    result = scene.ask("go")
    assert (result.stop_reason, tools.ran) == ("interrupt", [])
    assert scene.answer(result, "y").stop_reason == "end_turn"
    assert tools.ran == ["a"]


def test_s2_the_agent_goes_on_where_the_question_was_and_does_not_ask_the_model_again(
    play: Play, tools: Tools
) -> None:
    scene = play([work()], DONE, tools=tools.all, hooks=[approve])
    result = scene.ask("go")
    assert len(scene.model.requests) == 1
    scene.answer(result, "y")
    assert len(scene.model.requests) == 2
    assert scene.model.requests[1].messages[-1]["content"][0]["toolResult"]["status"] == "success"


def test_s3_questions_come_from_hooks_and_from_tools(play: Play, tools: Tools) -> None:
    scene = play([ToolCall("ask", {"thing": "a"})], DONE, tools=tools.all, hooks=[approve])
    first = scene.ask("go")
    second = scene.answer(first, "y")
    assert [first.stop_reason, second.stop_reason] == ["interrupt", "interrupt"]
    assert scene.answer(second, "fine").stop_reason == "end_turn"
    assert scene.results == [("success", "a: fine")]


def test_s4_new_questions_are_answered_until_there_are_none(play: Play, tools: Tools) -> None:
    scene = play([work("a")], [work("b")], [work("c")], DONE, tools=tools.all, hooks=[approve])
    result, rounds = scene.ask("go"), 0
    while result.stop_reason == "interrupt":
        result, rounds = scene.answer(result, "y"), rounds + 1
    assert (rounds, tools.ran) == (3, ["a", "b", "c"])


def test_s5_before_tool_call_can_be_interrupted(play: Play, tools: Tools) -> None:
    scene = play([work("a"), work("b")], DONE, tools=tools.all, hooks=[approve])
    result = scene.ask("go")
    assert reasons(result) == [{"thing": "a"}, {"thing": "b"}]
    answers = responses(result, lambda interrupt: "y" if interrupt.reason["thing"] == "b" else "n")
    scene.ask(answers)
    assert scene.results == [("error", "denied"), ("success", "worked on b")]


def test_s6_before_tools_can_be_interrupted_for_the_whole_batch(play: Play, tools: Tools) -> None:
    def batch(event: BeforeToolsEvent) -> None:
        count = sum("toolUse" in block for block in event.message["content"])
        if not event.interrupt("batch", reason=f"{count} calls")["approved"]:
            event.cancel = "Batch cancelled by user"

    scene = play([work("a"), work("b")], DONE, tools=tools.all, hooks=[batch])
    result = scene.ask("go")
    assert (reasons(result), tools.ran) == (["2 calls"], [])
    scene.answer(result, lambda _: {"approved": True})
    assert scene.results == [("success", "worked on a"), ("success", "worked on b")]


@one_door
@pytest.mark.parametrize("answer", [True, {"approved": True, "by": ["me"]}, ["a", 1, None], 1.5, "text"])
def test_s7_an_answer_comes_back_as_it_was_given(answer: Any, play: Play, tools: Tools) -> None:
    got: list[Any] = []

    def ask(event: BeforeToolCallEvent) -> None:
        got.append(event.interrupt(name="approval", reason={"a": [1]}))

    scene = play([work()], DONE, tools=tools.all, hooks=[ask])
    result = scene.ask("go")
    scene.answer(result, lambda _: answer)
    assert got == [answer]
    assert type(got[0]) is type(answer)


def test_s8_the_message_of_a_result_is_plain_json(play: Play, tools: Tools) -> None:
    scene = play([work()], DONE, tools=tools.all, hooks=[approve])
    result = scene.ask("go")
    assert json.loads(json.dumps(result.message))["content"][0]["toolUse"]["name"] == "work"
    result = scene.answer(result, "y")
    assert json.loads(json.dumps(result.message))["content"] == [{"text": DONE}]


def test_s9_the_stop_reason_says_that_there_are_questions(play: Play, tools: Tools) -> None:
    scene = play([work()], DONE, tools=tools.all, hooks=[approve])
    result = scene.ask("go")
    assert result.stop_reason == "interrupt"
    result = scene.answer(result, "y")
    assert (result.stop_reason, result.interrupts) == ("end_turn", None)


def test_s10_questions_have_ids_names_and_reasons(play: Play, tools: Tools) -> None:
    scene = play([work("a"), work("b")], DONE, tools=tools.all, hooks=[approve])
    result = scene.ask("go")
    first, second = result.interrupts or []
    assert isinstance(first, Interrupt)
    assert first.id and second.id and first.id != second.id
    assert (first.name, first.reason, first.response) == ("approval", {"thing": "a"}, None)
    assert first.to_dict()["id"] == first.id
    json.dumps([interrupt.to_dict() for interrupt in (first, second)])


def test_s11_answers_are_a_list_of_response_blocks(play: Play, tools: Tools) -> None:
    scene = play([work()], DONE, tools=tools.all, hooks=[approve])
    (interrupt,) = scene.ask("go").interrupts or []
    given: InterruptResponse = {"interruptId": interrupt.id, "response": "y"}
    block: InterruptResponseContent = {"interruptResponse": given}
    assert scene.ask([block]).stop_reason == "end_turn"


def test_s12_each_answer_reaches_its_own_question_by_id(play: Play, tools: Tools) -> None:
    calls = [ToolCall("ask", {"thing": "a"}), ToolCall("ask", {"thing": "b"})]
    scene = play(calls, DONE, tools=tools.all)
    result = scene.ask("go")
    answers = responses(result, lambda interrupt: f"about {interrupt.reason['thing']}")
    scene.ask(list(reversed(answers)))
    assert scene.results == [("success", "a: about a"), ("success", "b: about b")]


def test_s12_answers_may_come_one_at_a_time(play: Play, tools: Tools) -> None:
    calls = [ToolCall("ask", {"thing": "a"}), ToolCall("ask", {"thing": "b"})]
    scene = play(calls, DONE, tools=tools.all)
    first, second = responses(scene.ask("go"), "y")
    between = scene.ask([second])
    assert (between.stop_reason, reasons(between)) == ("interrupt", [{"thing": "a"}])
    assert scene.ask([first]).stop_reason == "end_turn"
    assert sorted(tools.ran) == ["asks about a"] * 2 + ["asks about b"] * 2


@one_door
@pytest.mark.parametrize("reason", [object(), {1, 2}, b"bytes", {"a": object()}])
def test_s13_a_reason_that_is_no_json_is_refused_when_it_is_given(
    reason: Any, play: Play, tools: Tools
) -> None:
    def ask(event: BeforeToolCallEvent) -> None:
        event.interrupt("approval", reason=reason)

    scene = play([work()], DONE, tools=tools.all, hooks=[ask])
    with pytest.raises(UnserializableStateError, match="'approval'"):
        scene.ask("go")
    assert tools.ran == []


@one_door
@pytest.mark.parametrize("answer", [object(), {1, 2}, b"bytes", {"a": object()}])
def test_s14_an_answer_that_is_no_json_is_refused_and_the_question_stays_open(
    answer: Any, play: Play, tools: Tools
) -> None:
    scene = play([work()], DONE, tools=tools.all, hooks=[approve])
    result = scene.ask("go")
    (interrupt,) = result.interrupts or []
    with pytest.raises(UnserializableStateError, match=interrupt.id):
        scene.answer(result, lambda _: answer)
    assert tools.ran == []
    assert scene.answer(result, "y").stop_reason == "end_turn"


def test_s15_a_name_is_asked_once_by_one_event(play: Play, tools: Tools) -> None:
    def one(event: BeforeToolCallEvent) -> None:
        event.interrupt("same")

    def other(event: BeforeToolCallEvent) -> None:
        event.interrupt("same")

    scene = play([work()], DONE, tools=tools.all, hooks=[one, other])
    with pytest.raises(ValueError, match="'same' was asked already"):
        scene.ask("go")


def test_s15_a_name_in_another_call_or_event_is_another_question(play: Play, tools: Tools) -> None:
    def batch(event: BeforeToolsEvent) -> None:
        event.interrupt("approval")

    scene = play([work("a"), work("b")], DONE, tools=tools.all, hooks=[approve, batch])
    first = scene.ask("go")
    second = scene.answer(first, "n")
    assert (names(first), names(second)) == (["approval"], ["approval"] * 2)
    assert len({interrupt.id for result in (first, second) for interrupt in result.interrupts or []}) == 3
    scene.answer(second, "y")
    assert tools.ran == ["a", "b"]


def test_s16_hooks_of_two_vendors_have_names_of_their_own(play: Play, tools: Tools) -> None:
    class ApprovalHook(HookProvider):
        def __init__(self, app_name: str) -> None:
            self.app_name = app_name

        def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
            registry.add_callback(BeforeToolCallEvent, self.approve)

        def approve(self, event: BeforeToolCallEvent) -> None:
            if event.interrupt(f"{self.app_name}-approval") != "y":
                event.cancel_tool = f"denied in {self.app_name}"

    scene = play([work()], DONE, tools=tools.all, hooks=[ApprovalHook("one"), ApprovalHook("other")])
    result = scene.ask("go")
    assert names(result) == ["one-approval", "other-approval"]
    scene.answer(result, {"one-approval": "y", "other-approval": "n"})
    assert scene.results == [("error", "denied in other")]


@one_door
@pytest.mark.parametrize("spelling", ["cancel_tool", "cancel"])
@pytest.mark.parametrize("text", ["User denied permission", True])
def test_s17_a_call_is_cancelled_with_a_text_or_without(
    spelling: str, text: Any, play: Play, tools: Tools
) -> None:
    def deny(event: BeforeToolCallEvent) -> None:
        event.interrupt("approval")
        setattr(event, spelling, text)

    scene = play([work()], DONE, tools=tools.all, hooks=[deny])
    scene.answer(scene.ask("go"), "n")
    ((status, told),) = scene.results
    assert (status, tools.ran) == ("error", [])
    assert told == text if isinstance(text, str) else told


@one_door
@pytest.mark.parametrize("text", ["Batch cancelled by user", True])
def test_s18_a_batch_is_cancelled_with_a_text_or_without(text: Any, play: Play, tools: Tools) -> None:
    def deny(event: BeforeToolsEvent) -> None:
        event.interrupt("approval")
        event.cancel = text

    scene = play([work("a"), work("b")], DONE, tools=tools.all, hooks=[deny])
    assert scene.answer(scene.ask("go"), "n").stop_reason == "end_turn"
    (one, told), (other, told_too) = scene.results
    assert (one, other, tools.ran) == ("error", "error", [])
    assert told == told_too and (told == text if isinstance(text, str) else told)


# --- Rules for hooks --------------------------------------------------------------------------------------


def test_s19_all_hooks_of_the_interrupted_event_execute(play: Play, tools: Tools) -> None:
    heard: list[str] = []

    def first(event: BeforeToolCallEvent) -> None:
        heard.append("first")
        event.interrupt("approval")
        heard.append("answered")

    def second(event: BeforeToolCallEvent) -> None:
        heard.append("second")

    scene = play([work()], DONE, tools=tools.all, hooks=[first, second])
    result = scene.ask("go")
    assert heard == ["first", "second"]
    scene.answer(result, "y")
    assert heard == ["first", "second", "first", "answered", "second"]


def test_s20_all_hooks_of_the_interrupted_event_may_ask(play: Play, tools: Tools) -> None:
    got: list[Any] = []

    def asking(name: str) -> Callable[[BeforeToolCallEvent], None]:
        def ask(event: BeforeToolCallEvent) -> None:
            got.append(event.interrupt(name))

        return ask

    order = ["c", "a", "b"]
    scene = play([work()], DONE, tools=tools.all, hooks=[asking(name) for name in order])
    result = scene.ask("go")
    assert names(result) == order
    scene.answer(result, {name: name.upper() for name in order})
    assert got == ["C", "A", "B"]


def test_s21_one_hook_asks_again_when_it_was_answered(play: Play, tools: Tools) -> None:
    got: list[Any] = []

    def ask(event: BeforeToolCallEvent) -> None:
        first = event.interrupt("first")
        got.append((first, event.interrupt("second")))

    scene = play([work()], DONE, tools=tools.all, hooks=[ask])
    first = scene.ask("go")
    second = scene.answer(first, 1)
    assert (names(first), names(second), tools.ran) == (["first"], ["second"], [])
    scene.answer(second, 2)
    assert (got, tools.ran) == ([(1, 2)], ["a"])


def test_s22_all_tools_that_run_side_by_side_may_ask(play: Play, tools: Tools) -> None:
    calls = [ToolCall("ask", {"thing": thing}) for thing in "abc"]
    scene = play(calls, DONE, tools=tools.all)
    result = scene.ask("go")
    assert reasons(result) == [{"thing": thing} for thing in "abc"]


def test_s23_tools_that_do_not_ask_run_and_only_once(play: Play, tools: Tools) -> None:
    scene = play([ToolCall("ask", {"thing": "a"}), work("b")], DONE, tools=tools.all)
    result = scene.ask("go")
    assert sorted(tools.ran) == ["asks about a", "b"]
    scene.answer(result, "y")
    assert tools.ran.count("b") == 1
    assert scene.results == [("success", "a: y"), ("success", "worked on b")]


def test_s24_after_tool_call_does_not_fire_for_the_interrupted_call_and_after_tools_does(
    play: Play, tools: Tools
) -> None:
    heard: list[str] = []

    def ask(event: BeforeToolCallEvent) -> None:
        if event.tool_use["input"]["thing"] == "a":
            event.interrupt("approval")

    def after(event: AfterToolCallEvent) -> None:
        heard.append(f"AfterToolCall {event.tool_use['input']['thing']}")

    def late(event: AfterToolsEvent | AfterInvocationEvent) -> None:
        heard.append(type(event).__name__)

    scene = play([work("a"), work("b")], DONE, tools=tools.all, hooks=[ask, after, late])
    result = scene.ask("go")
    assert heard == ["AfterToolCall b", "AfterToolsEvent", "AfterInvocationEvent"]
    heard.clear()
    scene.answer(result, "y")
    assert heard == ["AfterToolCall a", "AfterToolsEvent", "AfterInvocationEvent"]


def test_s25_finished_results_are_kept_and_only_the_rest_runs(play: Play, tools: Tools) -> None:
    models: list[Any] = []

    def model(event: BeforeModelCallEvent) -> None:
        models.append(event)

    calls = [work("a"), ToolCall("ask", {"thing": "b"}), work("c")]
    scene = play(calls, DONE, tools=tools.all, hooks=[model])
    result = scene.ask("go")
    assert sorted(tools.ran) == ["a", "asks about b", "c"]
    assert len(models) == 1
    tools.ran.clear()
    scene.answer(result, "y")
    assert (tools.ran, len(models)) == (["asks about b"], 2)
    assert scene.results == [("success", "worked on a"), ("success", "b: y"), ("success", "worked on c")]


def test_s26_a_paused_conversation_has_no_call_without_a_result(play: Play, tools: Tools) -> None:
    scene = play([ToolCall("ask", {"thing": "a"}), work("b")], DONE, tools=tools.all)
    result = scene.ask("go")
    assert [message["role"] for message in scene.agent.messages] == ["user"]
    assert len(result.message["content"]) == 2
    assert all("toolUse" in block for block in result.message["content"])
    scene.answer(result, "y")
    roles = [message["role"] for message in scene.agent.messages]
    assert roles == ["user", "assistant", "user", "assistant"]


@one_door
@pytest.mark.parametrize("answer", [False, "", 0, None, [], {}])
def test_s27_an_answer_that_is_nothing_is_an_answer(answer: Any, play: Play, tools: Tools) -> None:
    got: list[Any] = []

    def ask(event: BeforeToolCallEvent) -> None:
        got.append(event.interrupt("approval"))

    scene = play([work(), ToolCall("ask", {"thing": "b"})], DONE, tools=tools.all, hooks=[ask])
    result = scene.answer(scene.ask("go"), lambda _: answer)
    result = scene.answer(result, lambda _: answer)
    assert result.stop_reason == "end_turn"
    assert got[:2] == [answer, answer]
    assert scene.results[1] == ("success", f"b: {answer}")


def test_s28_every_name_that_the_seed_imports_is_there() -> None:
    from graphkit import Agent, interrupt, tool  # noqa: F401
    from graphkit.agent import AgentResult  # noqa: F401
    from graphkit.hooks import BeforeToolCallEvent, HookProvider, HookRegistry  # noqa: F401
    from graphkit.session import FileSessionManager  # noqa: F401
    from graphkit.types import Interrupt  # noqa: F401
    from graphkit.types.agent import AgentInput  # noqa: F401
    from graphkit.types.interrupt import InterruptResponseContent  # noqa: F401
    from graphkit.types.tools import ToolContext  # noqa: F401

    assert callable(Agent.invoke) and callable(Agent.stream)


# --- B. Rules for tools -----------------------------------------------------------------------------------


def test_s29_a_tool_asks_through_its_context(play: Play, tools: Tools) -> None:
    scene = play([ToolCall("ask", {"thing": "a"})], DONE, tools=tools.all)
    result = scene.ask("go")
    assert (names(result), reasons(result)) == (["approval"], [{"thing": "a"}])
    scene.answer(result, "y")
    assert scene.results == [("success", "a: y")]


def test_s30_a_method_of_an_object_is_a_tool_without_its_object_in_the_schema(
    play: Play, tools: Tools
) -> None:
    scene = play([ToolCall("ask", {"thing": "a"})], DONE, tools=[tools.ask])
    scene.ask("go")
    (spec,) = scene.model.requests[0].tool_specs or []
    assert list(spec["inputSchema"]["json"]["properties"]) == ["thing"]


def test_s31_a_name_is_a_tools_own(play: Play, tools: Tools) -> None:
    calls = [ToolCall("ask", {"thing": "a"}), ToolCall("ask_too", {"thing": "b"})]
    scene = play(calls, DONE, tools=tools.all, hooks=[approve])
    hooks = scene.ask("go")
    result = scene.answer(hooks, "y")
    assert names(hooks) + names(result) == ["approval"] * 4
    ids = {interrupt.id for each in (hooks, result) for interrupt in each.interrupts or []}
    assert len(ids) == 4
    scene.answer(result, lambda interrupt: f"about {interrupt.reason['thing']}")
    assert scene.results == [("success", "a: about a"), ("success", "b: about b")]


def test_s32_one_tool_asks_again_when_it_was_answered(play: Play, tools: Tools) -> None:
    scene = play([ToolCall("ask_twice", {}), work("b")], DONE, tools=tools.all)
    first = scene.ask("go")
    second = scene.answer(first, 1)
    assert (names(first), names(second)) == (["first"], ["second"])
    scene.answer(second, 2)
    assert scene.results == [("success", "1 2"), ("success", "worked on b")]
    assert tools.ran.count("b") == 1


def test_s33_a_tool_that_asked_runs_again_from_its_top(play: Play, tools: Tools) -> None:
    scene = play([ToolCall("ask", {"thing": "a"})], DONE, tools=tools.all)
    scene.answer(scene.ask("go"), "y")
    assert tools.ran == ["asks about a"] * 2


def test_s34_a_tool_that_is_called_directly_cannot_ask_and_leaves_nothing(play: Play, tools: Tools) -> None:
    scene = play(DONE, tools=tools.all)
    with pytest.raises(RuntimeError, match="'ask' cannot be called directly"):
        scene.agent.tool.ask(thing="a")
    assert (scene.agent.messages, scene.agent.interrupts) == ([], [])
    assert scene.ask("go").stop_reason == "end_turn"


def test_s35_the_context_may_have_any_name_and_asks_with_keywords(play: Play, tools: Tools) -> None:
    scene = play([ToolCall("ask_too", {"thing": "a"})], DONE, tools=tools.all)
    result = scene.ask("go")
    assert (names(result), reasons(result)) == (["approval"], [{"thing": "a"}])
    scene.answer(result, "y")
    assert scene.results == [("success", "a: y")]


# --- C. Session management --------------------------------------------------------------------------------


def fresh(manager: Any, tools: Tools, *turns: Any, hooks: Any = ()) -> Agent:
    model = ScriptedModel(turns, per_thread=True)
    return Agent(model, session_manager=manager, tools=tools.all, hooks=list(hooks), callback_handler=None)


def trusting(event: BeforeToolCallEvent) -> None:
    """Ask unless a person has said once that all is to be trusted."""
    if event.agent.state.get("approval") == "t":
        return
    answer = event.interrupt("approval")
    if answer not in ("y", "t"):
        event.cancel_tool = "denied"
    event.agent.state.set("approval", answer)


def test_s36_a_question_outlives_the_agent_that_asked_it(tools: Tools, tmp_path: Path) -> None:
    turns = [[work()], DONE]
    result = fresh(FileSessionManager("s", str(tmp_path)), tools, *turns, hooks=[approve])("go")
    later = fresh(FileSessionManager("s", str(tmp_path)), tools, *turns, hooks=[approve])
    assert [interrupt.id for interrupt in later.interrupts] == [
        interrupt.id for interrupt in result.interrupts or []
    ]
    assert later(responses(result, "y")).stop_reason == "end_turn"
    assert tools.ran == ["a"]


def test_s37_state_that_a_hook_sets_ends_the_questions(play: Play, tools: Tools) -> None:
    scene = play([work("a")], [work("b")], DONE, [work("c")], DONE, tools=tools.all, hooks=[trusting])
    result = scene.answer(scene.ask("go"), "t")
    assert (result.stop_reason, tools.ran) == ("end_turn", ["a", "b"])
    assert scene.ask("again").stop_reason == "end_turn"
    assert tools.ran == ["a", "b", "c"]
    assert scene.agent.state.get("approval") == "t"


def test_s38_answers_are_kept_with_the_session(play: Play, tools: Tools) -> None:
    scene = play([work("a")], [work("b")], DONE, tools=tools.all, hooks=[trusting])
    first = scene.ask("go")
    second = scene.answer(first, "y")
    assert (first.stop_reason, second.stop_reason) == ("interrupt", "interrupt")
    assert scene.agent.state.get("approval") == "y"
    scene.answer(second, "n")
    assert scene.results == [("success", "worked on a"), ("error", "denied")]


def test_s39_a_session_manager_of_a_storage_and_the_state_as_app_state(tools: Tools, tmp_path: Path) -> None:
    def agent() -> Agent:
        manager = SessionManager(session_id="myapp", storage={"snapshot": FileStorage(str(tmp_path))})
        return fresh(manager, tools, [work()], DONE, hooks=[trusting])

    result = agent()("go")
    assert agent()(responses(result, "t")).stop_reason == "end_turn"
    assert agent().app_state.get("approval") == "t"


def test_s40_a_tool_may_have_a_callback_of_its_own_answered(play: Play) -> None:
    """What an MCP server asks through an elicitation callback is no interrupt."""
    asked: list[str] = []

    def elicitation_callback(message: str) -> str:
        asked.append(message)
        return "accept"

    @tool
    def remote() -> str:
        return elicitation_callback("May I?")

    scene = play([ToolCall("remote", {})], DONE, tools=[remote])
    assert scene.ask("go").stop_reason == "end_turn"
    assert (asked, scene.results) == (["May I?"], [("success", "accept")])
