"""Middleware: one onion around a call of the model, one around a call of a tool, one around all calls of a message
(S163, N12)."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphkit import Agent, ToolContext, interrupt, tool
from graphkit.hooks import (
    AfterModelCallEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    ContentBlockEvent,
    HookEvent,
    ModelStreamUpdateEvent,
    ToolResultEvent,
    ToolStreamUpdateEvent,
)
from graphkit.middleware import (
    ExecuteToolResult,
    ExecuteToolsStage,
    ExecuteToolStage,
    InvokeModelResult,
    InvokeModelStage,
    ModelStopReason,
    ToolResultsEvent,
)
from graphkit.models import ScriptedModel, ToolCall
from graphkit.plugins import HaltSignal, Plugin, ResumeDirective, hook, middleware
from graphkit.tools.executors import SequentialToolExecutor
from tests.agents.conftest import Answers, Door, Session, agent_of, script

STAGES = [InvokeModelStage, ExecuteToolStage, ExecuteToolsStage]


@pytest.fixture(params=["call", "invoke_async"])
def door(request: pytest.FixtureRequest) -> Door:
    return Door(request.param)


@pytest.fixture
def ran() -> list[Any]:
    """What tools have done."""
    return []


@pytest.fixture
def add(ran: list[Any]) -> Any:
    @tool
    def add(a: int, b: int = 0) -> int:
        """Add."""
        ran.append((a, b))
        return a + b

    return add


def adding(add: Any, *inputs: Any, **options: Any) -> Agent:
    """An agent that calls `add` with each of these inputs, in one message, and is done."""
    calls = [
        ToolCall("add", {"a": each} if isinstance(each, int) else each) for each in inputs or ({"a": 1},)
    ]
    return agent_of(calls, "done", tools=[add], **options)


def texts(agent: Any) -> list[str]:
    """The texts of the results of the first batch."""
    return [block["toolResult"]["content"][0]["text"] for block in agent.messages[2]["content"]]


def asked(agent: Any) -> list[Any]:
    """The inputs of the calls of the first batch, as they stand in the conversation."""
    return [block["toolUse"]["input"] for block in agent.messages[1]["content"] if "toolUse" in block]


def passing(context: Any, next: Any) -> Any:
    result = yield from next(context)
    return result


async def passing_async(context: Any, next: Any) -> Any:
    async for event in next(context):
        yield event


def passed_on(context: Any, next: Any) -> Any:
    return next(context)


class Passing:
    def __call__(self, context: Any, next: Any) -> Any:
        return (yield from next(context))


# --- The form -------------------------------------------------------------------------------------------


def named(name: str, log: list[str], colour: str = "plain") -> Any:
    def wrap(context: Any, next: Any) -> Any:
        log.append(f"{name} in")
        result = yield from next(context)
        log.append(f"{name} out")
        return result

    async def awrap(context: Any, next: Any) -> Any:
        log.append(f"{name} in")
        async for event in next(context):
            yield event
        log.append(f"{name} out")

    return wrap if colour == "plain" else awrap


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    "colours", [("plain", "plain"), ("plain", "async"), ("async", "plain"), ("async", "async")]
)
def test_the_first_is_the_outermost_whatever_its_colour(
    door: Door, add: Any, ran: list[Any], stage: Any, colours: tuple[str, str]
) -> None:
    log: list[str] = []
    agent = adding(add)
    for name, colour in zip("ab", colours, strict=True):
        agent.add_middleware(stage, named(name, log, colour))
    assert str(door(agent, "go")) == "done\n"
    once = ["a in", "b in", "b out", "a out"]
    assert log == (once * 2 if stage is InvokeModelStage else once)
    assert ran == [(1, 0)] and texts(agent) == ["1"]


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("wrap", [passing, passing_async, passed_on, Passing(), lambda c, n: passing(c, n)])
def test_every_form_of_a_wrap(door: Door, add: Any, stage: Any, wrap: Any) -> None:
    agent = adding(add)
    agent.add_middleware(stage, wrap)
    assert str(door(agent, "go")) == "done\n" and texts(agent) == ["1"]


@pytest.mark.parametrize("colour", ["blocking", "async"])
def test_input_comes_before_wraps_and_output_after_them(door: Door, add: Any, colour: str) -> None:
    log: list[str] = []

    def noting(name: str) -> Any:
        def note(given: Any) -> Any:
            log.append(name)
            return given

        async def anote(given: Any) -> Any:
            await asyncio.sleep(0)
            return note(given)

        return note if colour == "blocking" else anote

    agent = adding(add)
    agent.add_middleware(ExecuteToolStage.Wrap, named("wrap", log))
    agent.add_middleware(ExecuteToolStage.Output, noting("outer output"))
    agent.add_middleware(ExecuteToolStage.Output, noting("inner output"))
    agent.add_middleware(ExecuteToolStage.Input, noting("outer input"))
    agent.add_middleware(ExecuteToolStage.Input, noting("inner input"))
    door(agent, "go")
    assert log == ["outer input", "inner input", "wrap in", "wrap out", "inner output", "outer output"]


def test_input_and_output_change_what_goes_in_and_comes_out(door: Door, add: Any, ran: list[Any]) -> None:
    def more(context: Any) -> Any:
        return context.replace(tool_use={**context.tool_use, "input": {"a": 40, "b": 2}})

    def shouted(result: ExecuteToolResult) -> ExecuteToolResult:
        given = result.result.tool_result
        return ExecuteToolResult(ToolResultEvent({**given, "content": [{"text": "42!"}]}))

    def polite(result: InvokeModelResult) -> InvokeModelResult:
        event = result.result
        message: Any = {**event.message, "content": [*event.message["content"], {"text": "Thank you."}]}
        return InvokeModelResult(ModelStopReason(event.stop_reason, message, event.usage, event.metrics))

    agent = adding(add)
    agent.add_middleware(ExecuteToolStage.Input, more)
    agent.add_middleware(ExecuteToolStage.Output, shouted)
    agent.add_middleware(InvokeModelStage.Output, polite)
    assert str(door(agent, "go")) == "done\nThank you.\n"
    assert ran == [(40, 2)] and texts(agent) == ["42!"]
    assert asked(agent) == [{"a": 1}]  # what was said stays


def test_a_wrap_waits_for_what_it_yields(door: Door, add: Any) -> None:
    async def soon() -> int:
        await asyncio.sleep(0)
        return 7

    async def fails() -> None:
        raise LookupError("gone")

    def wrap(context: Any, next: Any) -> Any:
        assert (yield soon()) == 7
        with pytest.raises(LookupError, match="gone"):
            yield fails()
        return (yield from next(context))

    agent = adding(add)
    for stage in STAGES:
        agent.add_middleware(stage, passing_async)
        agent.add_middleware(stage, wrap)
        agent.add_middleware(stage, passing_async)
    assert str(door(agent, "go")) == "done\n"


# --- The model ------------------------------------------------------------------------------------------


def test_what_the_model_is_given_may_be_replaced(door: Door, add: Any) -> None:
    other = ScriptedModel(["other"])

    def wrap(context: Any, next: Any) -> Any:
        assert context.agent is agent and context.projected_input_tokens is not None
        assert context.system_prompt == [{"text": "be kind"}]  # to be added to, as in Strands
        context.messages[0]["content"][0]["text"] = "changed"  # a copy
        return (
            yield from next(
                context.replace(
                    model=other,
                    system_prompt="be brief",
                    tool_specs=[],
                    tool_choice={"auto": {}},
                    invocation_state={"k": 1},
                )
            )
        )

    agent = adding(add, system_prompt="be kind")
    agent.add_middleware(InvokeModelStage, wrap)
    assert str(door(agent, "go")) == "other\n"
    (request,) = other.requests
    assert request.messages[0]["content"] == [{"text": "changed"}]
    assert (request.system_prompt, request.tool_specs) == ("be brief", None)
    assert (request.tool_choice, request.invocation_state) == ({"auto": {}}, {"k": 1})
    assert agent.messages[0]["content"] == [{"text": "go"}] and script(agent).requests == []


def test_a_wrap_may_answer_for_the_model(door: Door) -> None:
    def cached(context: Any, next: Any) -> Any:
        yield from ()
        return ModelStopReason("end_turn", {"role": "assistant", "content": [{"text": "cached"}]})

    agent = agent_of()
    agent.add_middleware(InvokeModelStage, cached)
    result = door(agent, "go")
    assert (str(result), result.metrics.cycle_count, len(agent.messages)) == ("cached\n", 1, 2)


def test_answers_for_the_model_count_as_turns(door: Door, add: Any) -> None:
    def calls_for_ever(context: Any, next: Any) -> Any:
        yield from ()
        use = {"toolUseId": f"t{len(context.messages)}", "name": "add", "input": {"a": 1}}
        return ModelStopReason("tool_use", {"role": "assistant", "content": [{"toolUse": use}]})

    agent = agent_of(tools=[add])
    agent.add_middleware(InvokeModelStage, calls_for_ever)
    assert door(agent, "go", limits={"turns": 3}).stop_reason == "limit_turns"


def test_a_wrap_may_call_the_model_again(door: Door) -> None:
    def insisting(context: Any, next: Any) -> Any:
        while True:
            try:
                event = yield from next(context)
            except ConnectionError:
                continue
            if event.message["content"] != [{"text": "no"}]:
                return event

    agent = agent_of("no", ConnectionError("lost"), "yes")
    agent.add_middleware(InvokeModelStage, insisting)
    after: list[Any] = []
    agent.add_hook(after.append, AfterModelCallEvent)
    result = door(agent, "go")
    assert str(result) == "yes\n" and len(script(agent).requests) == 3
    assert len(after) == 1 and after[0].exception is None  # hooks hear of one call
    assert result.metrics.cycle_count == 2


@pytest.mark.parametrize("name", ["stream", "astream"])
def test_what_is_streamed_goes_through_the_layers(name: str) -> None:
    """A layer may keep it back, and show events of its own."""

    def loud(context: Any, next: Any) -> Any:
        yield ContentBlockEvent(context.agent, content_block={"text": "before"})
        return (yield from next(context))

    async def secret(context: Any, next: Any) -> Any:
        async for event in next(context):
            if not isinstance(event, ModelStreamUpdateEvent):
                yield event

    agent = agent_of("hello")
    agent.add_middleware(InvokeModelStage, loud)
    agent.add_middleware(InvokeModelStage, secret)
    agent.add_middleware(InvokeModelStage, passing)
    heard: list[Any] = []
    agent.add_hook(heard.append, [ModelStreamUpdateEvent, ContentBlockEvent])
    assert str(Door(name)(agent, "go")) == "hello\n"
    assert [event.content_block for event in heard] == [{"text": "before"}, {"text": "hello"}]


@pytest.mark.parametrize(
    "layers", [[passing], [passing_async], [passing, passing_async], [passing_async, passing]]
)
@pytest.mark.parametrize("place", ["a hook", "a layer"])
def test_what_is_left_early_is_closed_before_anything_else_happens(
    door: Door, layers: list[Any], place: str
) -> None:
    log: list[str] = []

    class Streaming(ScriptedModel):
        def stream(self, *args: Any, **kwargs: Any) -> Any:
            return self._chunks(super().stream(*args, **kwargs))

        async def _chunks(self, chunks: Any) -> Any:
            try:
                for chunk in chunks:
                    await asyncio.sleep(0)
                    yield chunk
            finally:
                log.append("closed")

    async def leaves(context: Any, next: Any) -> Any:
        async for event in next(context):
            if place == "a layer" and not log:
                raise LookupError("seen enough")
            yield event

    def fails(event: ModelStreamUpdateEvent) -> None:
        if place == "a hook" and not log:
            raise LookupError("seen enough")

    def again(event: AfterModelCallEvent) -> None:
        log.append(f"after {event.exception}")
        event.retry = event.exception is not None

    agent = agent_of(model=Streaming(["one", "two"]), hooks=[fails, again])
    for layer in (*layers, leaves, *layers):
        agent.add_middleware(InvokeModelStage, layer)
    assert str(door(agent, "go")) == "two\n"
    assert log == ["closed", "after seen enough", "closed", "after None"]


# --- One tool -------------------------------------------------------------------------------------------


def test_a_wrap_may_serve_the_call_itself(door: Door, add: Any, ran: list[Any]) -> None:
    """Also one of a tool that there is not."""

    def mocked(context: Any, next: Any) -> Any:
        if context.tool is not None:
            return (yield from next(context))
        use = context.tool_use
        return ToolResultEvent(
            {"toolUseId": use.tool_use_id, "status": "success", "content": [{"text": f"mocked {use.name}"}]}
        )

    agent = agent_of([ToolCall("add", {"a": 1}), ToolCall("gone")], "done", tools=[add])
    agent.add_middleware(ExecuteToolStage, mocked)
    door(agent, "go")
    assert texts(agent) == ["1", "mocked gone"] and ran == [(1, 0)]


def test_an_unknown_tool_stays_unknown_inside_of_wraps(door: Door) -> None:
    errors: list[Any] = []

    def look(event: AfterToolCallEvent) -> None:
        errors.append(str(event.exception))

    agent = agent_of(ToolCall("gone"), "done", hooks=[look])
    agent.add_middleware(ExecuteToolStage, passing)
    door(agent, "go")
    assert texts(agent) == errors == ["Unknown tool: gone"]


def test_a_wrap_may_have_another_tool_serve_the_call(door: Door, add: Any, ran: list[Any]) -> None:
    @tool
    def subtract(a: int) -> int:
        """Subtract."""
        return -a

    agent = adding(add, 3)
    agent.add_middleware(ExecuteToolStage.Input, lambda context: context.replace(tool=subtract))
    door(agent, "go")
    assert texts(agent) == ["-3"] and ran == []


def test_what_a_tool_raises_is_a_result_for_wraps_and_an_exception_for_hooks(door: Door) -> None:
    @tool
    def broken() -> str:
        """Breaks."""
        raise OSError("no disk")

    events: list[Any] = []

    def wrap(context: Any, next: Any) -> Any:
        event = yield from next(context)
        events.append(event)
        return event

    agent = agent_of(ToolCall("broken"), "done", tools=[broken])
    agent.add_middleware(ExecuteToolStage, wrap)
    agent.add_hook(events.append, AfterToolCallEvent)
    door(agent, "go")
    inside, after = events
    assert inside.result["status"] == after.result["status"] == "error"
    assert inside.exception is after.exception and str(after.exception) == "no disk"


def test_wraps_run_once_more_for_each_try_that_hooks_want(door: Door, add: Any, ran: list[Any]) -> None:
    log: list[str] = []

    def once_more(event: AfterToolCallEvent) -> None:
        event.retry = len(ran) < 2

    agent = adding(add, hooks=[once_more])
    agent.add_middleware(ExecuteToolStage, named("a", log))
    door(agent, "go")
    assert ran == [(1, 0)] * 2 and log == ["a in", "a out"] * 2


def test_progress_goes_through_the_layers(door: Door) -> None:
    @tool
    def counts() -> Any:
        """Counts."""
        yield 1
        yield 2
        yield "done"

    def doubled(context: Any, next: Any) -> Any:
        return (yield from next(context))

    agent = agent_of(ToolCall("counts"), "done", tools=[counts])
    agent.add_middleware(ExecuteToolStage, doubled)
    agent.add_middleware(ExecuteToolStage, passing_async)
    seen: list[Any] = []
    agent.add_hook(lambda event: seen.append(event.event), ToolStreamUpdateEvent)
    door(agent, "go")
    assert seen == [1, 2, "done"] and texts(agent) == ["done"]


# --- Asking ---------------------------------------------------------------------------------------------


def asking(context: Any, next: Any) -> Any:
    """Asks before and after, by name and without."""
    before = context.interrupt("before", reason={"stage": type(context).__name__}).response
    result = yield from next(context)
    after = context.interrupt("after", "and now?").response
    plain = interrupt("plain?")
    context.invocation_state.setdefault("answers", []).append((before, after, plain))
    return result


async def asking_async(context: Any, next: Any) -> Any:
    before = context.interrupt("before", reason={"stage": type(context).__name__}).response
    async for event in next(context):
        yield event
    after = context.interrupt("after", "and now?").response
    plain = interrupt("plain?")
    context.invocation_state.setdefault("answers", []).append((before, after, plain))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("wrap", [asking, asking_async])
def test_nothing_inside_runs_again_when_a_wrap_asks_after_it(
    door: Door, answers: Answers, add: Any, ran: list[Any], stage: Any, wrap: Any
) -> None:
    agent = adding(add)
    agent.add_middleware(stage, wrap)
    agent.add_middleware(stage, passing)
    state: dict[str, Any] = {}
    result, rounds = door(agent, "go", invocation_state=state), 0
    while result.stop_reason == "interrupt":
        rounds += 1
        result = door(agent, answers(result, rounds), invocation_state=state)
    assert str(result) == "done\n" and ran == [(1, 0)] and len(script(agent).requests) == 2
    expected = [(1, 2, 3), (4, 5, 6)] if stage is InvokeModelStage else [(1, 2, 3)]
    assert state["answers"] == expected and rounds == 3 * len(expected)


@pytest.mark.parametrize("stage", STAGES)
def test_questions_of_wraps_survive_a_restart(
    session: Session, answers: Answers, add: Any, ran: list[Any], stage: Any
) -> None:
    def fresh(*turns: Any) -> Agent:
        agent = session.agent(*turns, tools=[add])
        agent.add_middleware(stage, asking)
        return agent

    result = fresh([ToolCall("add", {"a": 1}), ToolCall("add", {"a": 2})], "done")("go")
    while result.stop_reason == "interrupt":
        result = fresh()(answers(result, "ok"))
    assert str(result) == "done\n" and sorted(ran) == [(1, 0), (2, 0)]
    assert texts(fresh()) == ["1", "2"]


def test_a_tool_inside_asks_apart_from_the_wraps(door: Door, answers: Answers) -> None:
    """Its unnamed questions, and a name of theirs."""
    got: list[Any] = []

    @tool(context=True)
    def asks(tool_context: ToolContext) -> str:
        """Asks."""
        got.append((interrupt("tool?"), tool_context.interrupt("same", "tool")))
        return "served"

    def wrap(context: Any, next: Any) -> Any:
        got.append(("wrap", interrupt("wrap?"), context.interrupt("same", "wrap").response))
        result = yield from next(context)
        got.append(("out", interrupt("out?")))
        return result

    agent = agent_of(ToolCall("asks"), "done", tools=[asks])
    agent.add_middleware(ExecuteToolStage, wrap)
    result, reasons = door(agent, "go"), []
    while result.interrupts:
        (question,) = result.interrupts
        reasons.append(question.value)
        result = door(agent, answers(result, f"to {question.value}"))
    assert reasons == ["wrap?", "wrap", "tool?", "tool", "out?"] and str(result) == "done\n"
    # The wrap again, the tool not: it had returned before the last question.
    assert got[-2:] == [("wrap", "to wrap?", "to wrap"), ("out", "to out?")]
    assert got.count(("to tool?", "to tool")) == 1


def test_a_name_is_asked_once_in_the_wraps_of_a_call(door: Door, add: Any) -> None:
    def asks(context: Any, next: Any) -> Any:
        context.interrupt("sure", response="yes")
        return (yield from next(context.replace(tool_use=context.tool_use)))

    agent = adding(add)
    agent.add_middleware(ExecuteToolStage, asks)
    agent.add_middleware(ExecuteToolStage, asks)
    with pytest.raises(ValueError, match="'sure' was asked already"):
        door(agent, "go")


# --- A batch --------------------------------------------------------------------------------------------


def test_a_batch_has_the_message_and_its_calls(door: Door, add: Any) -> None:
    seen: list[Any] = []

    def wrap(context: Any, next: Any) -> Any:
        seen.append((context.agent, context.message, [use.input for use in context.tool_uses]))
        event = yield from next(context)
        seen.append([result["content"][0]["text"] for result in event.results])
        return event

    agent = adding(add, 1, 2)
    agent.add_middleware(ExecuteToolsStage, wrap)
    door(agent, "go")
    assert seen == [(agent, agent.messages[1], [{"a": 1}, {"a": 2}]), ["1", "2"]]


def test_a_batch_in_another_order_and_in_parts(door: Door, add: Any, ran: list[Any]) -> None:
    """Results stand in the order of the calls, whatever ran first."""

    def one_by_one(context: Any, next: Any) -> Any:
        results: list[Any] = []
        for use in reversed(context.tool_uses):
            event = yield from next(context.replace(tool_uses=[use]))
            results += event.results
        return ToolResultsEvent(results)

    agent = adding(add, 1, 2, 3)
    agent.add_middleware(ExecuteToolsStage, one_by_one)
    door(agent, "go")
    assert ran == [(3, 0), (2, 0), (1, 0)] and texts(agent) == ["1", "2", "3"]


def test_some_calls_are_served_elsewhere_and_results_replaced(door: Door, add: Any, ran: list[Any]) -> None:
    async def elsewhere(a: int) -> int:
        await asyncio.sleep(0)
        return a * 100

    def wrap(context: Any, next: Any) -> Any:
        first, second, third = context.tool_uses
        far = yield elsewhere(second.input["a"])
        changed = {**third, "input": {"a": 30}}
        event = yield from next(context.replace(tool_uses=[first, changed]))
        mine: Any = {"toolUseId": second.tool_use_id, "status": "success", "content": [{"text": str(far)}]}
        return ToolResultsEvent([mine, *event.results])

    agent = adding(add, 1, 2, 3)
    agent.add_middleware(ExecuteToolsStage, wrap)
    door(agent, "go")
    assert sorted(ran) == [(1, 0), (30, 0)] and texts(agent) == ["1", "200", "30"]
    assert asked(agent) == [{"a": 1}, {"a": 2}, {"a": 3}]  # what was said stays


@pytest.mark.parametrize("order", ["at the same time", "in order"])
def test_calls_of_a_batch_that_ask_are_asked_and_the_others_run_once(
    session: Session, answers: Answers, add: Any, ran: list[Any], order: str
) -> None:
    @tool(context=True)
    def careful(n: int, tool_context: ToolContext) -> str:
        """Asks."""
        return f"{n}: {tool_context.interrupt('sure', n)}"

    heard: Counter[str] = Counter()

    def fresh(*turns: Any) -> Agent:
        executor = SequentialToolExecutor() if order == "in order" else None
        agent = session.agent(*turns, tools=[add, careful], tool_executor=executor)
        agent.add_middleware(ExecuteToolsStage, passing)
        agent.add_hook(lambda event: heard.update([type(event).__name__]), HookEvent)
        return agent

    calls = [ToolCall("add", {"a": 1}), ToolCall("careful", {"n": 1}), ToolCall("careful", {"n": 2})]
    result = fresh([*calls, ToolCall("add", {"a": 2})], "done")("go")
    assert result.interrupts is not None
    assert [question.reason for question in result.interrupts] == ([1, 2] if order != "in order" else [1])
    assert ran == ([(1, 0), (2, 0)] if order != "in order" else [(1, 0)])
    while result.stop_reason == "interrupt":
        result = fresh()(answers(result, "yes"))
    assert ran == [(1, 0), (2, 0)] and texts(fresh()) == ["1", "1: yes", "2: yes", "2"]
    assert heard["BeforeToolsEvent"] == 1  # once a batch
    assert heard["InterruptEvent"] == 2
    assert heard["AfterToolsEvent"] == (2 if order != "in order" else 3)  # at each halt, and at the end


def test_finished_calls_of_a_batch_that_fails_do_not_run_again(
    session: Session, add: Any, ran: list[Any]
) -> None:
    broken = [True]

    def breaks(event: BeforeToolCallEvent) -> None:
        if broken and event.tool_use.input["a"] == 2:
            raise OSError("no disk")

    def fresh(*turns: Any) -> Agent:
        agent = session.agent(*turns, tools=[add], hooks=[breaks])
        agent.add_middleware(ExecuteToolsStage, passing)
        return agent

    with pytest.raises(OSError, match="no disk"):
        fresh([ToolCall("add", {"a": n}) for n in (1, 2, 3)], "done")("go")
    assert sorted(ran) == [(1, 0), (3, 0)]
    broken.clear()
    assert str(fresh()()) == "done\n"
    assert sorted(ran) == [(1, 0), (2, 0), (3, 0)] and texts(fresh()) == ["1", "2", "3"]


def test_each_call_of_a_batch_is_a_task(add: Any) -> None:
    agent = adding(add, 1, 2)
    agent.add_middleware(ExecuteToolsStage, passing)
    started = [
        event["name"]
        for event in agent.graph.stream(
            {"messages": [{"role": "user", "content": [{"text": "go"}]}]},
            agent.thread().config,
            stream_mode="tasks",
        )
        if "input" in event
    ]
    assert started.count("tools") == 2 and started.count("batch") == 1


def test_hooks_change_calls_inside_of_a_batch(door: Door, answers: Answers, add: Any, ran: list[Any]) -> None:
    """What hooks change is said; of the batch they hear once, also if a layer asks then."""
    batches: list[Any] = []

    def of_batch(event: BeforeToolsEvent) -> None:
        batches.append(event)
        event.message["content"][0]["toolUse"]["input"] = {"a": 10}

    def of_call(event: BeforeToolCallEvent) -> None:
        event.tool_use.input["b"] = 5

    def asks(context: Any, next: Any) -> Any:
        context.interrupt("go", [use.input for use in context.tool_uses])
        return (yield from next(context))

    agent = adding(add, 1, 2, hooks=[of_batch, of_call])
    agent.add_middleware(ExecuteToolsStage, asks)
    result = door(agent, "go")
    assert result.interrupts is not None and result.interrupts[0].reason == [{"a": 10}, {"a": 2}]
    door(agent, answers(result, "yes"))
    assert len(batches) == 1 and sorted(ran) == [(2, 5), (10, 5)] and texts(agent) == ["15", "7"]
    assert asked(agent) == [{"a": 10, "b": 5}, {"a": 2, "b": 5}]


def test_a_hook_gives_a_call_of_a_batch_another_id(door: Door, add: Any) -> None:
    def renumbers(event: BeforeToolCallEvent) -> None:
        event.tool_use["toolUseId"] = "mine"

    agent = adding(add, 1, hooks=[renumbers])
    agent.add_middleware(ExecuteToolsStage, passing)
    door(agent, "go")
    assert agent.messages[1]["content"][0]["toolUse"]["toolUseId"] == "mine"
    assert agent.messages[2]["content"][0]["toolResult"]["toolUseId"] == "mine"


def test_a_batch_that_a_hook_cancels_is_not_wrapped(door: Door, add: Any, ran: list[Any]) -> None:
    log: list[str] = []

    def cancels(event: BeforeToolsEvent) -> None:
        event.cancel = "not now"

    agent = adding(add, hooks=[cancels])
    agent.add_middleware(ExecuteToolsStage, named("a", log))
    door(agent, "go")
    assert (ran, log, texts(agent)) == ([], [], ["not now"])


def test_all_three_stages_in_one_turn(door: Door, add: Any) -> None:
    log: list[str] = []
    agent = adding(add, 1)
    agent.add_middleware(ExecuteToolStage, named("tool", log))
    agent.add_middleware(ExecuteToolsStage, named("tools", log))
    agent.add_middleware(InvokeModelStage, named("model", log))
    agent.add_hook(lambda event: log.append("after tools"), AfterToolsEvent)
    door(agent, "go")
    inner = ["tools in", "tool in", "tool out", "tools out", "after tools"]
    assert log == ["model in", "model out", *inner, "model in", "model out"]


# --- Halting, plugins -----------------------------------------------------------------------------------


class Gate(Plugin):
    name = "gate"

    def __init__(self, stage: Any, returns: bool) -> None:
        self.open = False
        self.returns = returns
        self.stage = stage

    def init_agent(self, agent: Any) -> None:
        agent.add_middleware(self.stage, self.wrap)

    def wrap(self, context: Any, next: Any) -> Any:
        if not self.open:
            signal = HaltSignal("closed", {"why": "night"})
            if self.returns:
                return signal
            raise signal
        return (yield from next(context))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("returns", [True, False])
def test_a_wrap_halts_the_agent(door: Door, add: Any, ran: list[Any], stage: Any, returns: bool) -> None:
    gate = Gate(stage, returns)
    agent = adding(add, plugins=[gate])
    agent.add_middleware(stage, passing_async)
    result = door(agent, "go")
    assert (result.stop_reason, result.data, result.resumable) == ("closed", {"why": "night"}, True)
    assert result.plugin == "gate" and ran == []


def test_calls_of_a_batch_halt_and_are_resumed(session: Session, add: Any, ran: list[Any]) -> None:
    """Those beside them run, once; a result may come with the resume."""

    class Curfew(Plugin):
        name = "curfew"

        @hook
        def heard(self, event: BeforeToolCallEvent) -> None:
            if event.tool_use.input["a"] > 1 and not event.agent.get_plugin_state("curfew"):
                raise HaltSignal("late", event.tool_use.tool_use_id)

        def on_resume(self, agent: Any, data: Any) -> Any:
            agent.set_plugin_state("curfew", ["lifted"])
            return ResumeDirective(completed_tool_results=data)

    def fresh(*turns: Any) -> Agent:
        agent = session.agent(*turns, tools=[add], plugins=[Curfew()])
        agent.add_middleware(ExecuteToolsStage, passing)
        return agent

    result = fresh([ToolCall("add", {"a": n}, id=f"t{n}") for n in (1, 2, 3)], "done")("go")
    assert (result.stop_reason, [halt.data for halt in result.halts], ran) == ("late", ["t2", "t3"], [(1, 0)])
    agent = fresh()
    done = {"toolUseId": "t2", "status": "success", "content": [{"text": "two"}]}
    assert str(agent.resume("curfew", [done])) == "done\n"
    assert ran == [(1, 0), (3, 0)] and texts(agent) == ["1", "two", "3"]


def test_methods_of_a_plugin_are_middleware(door: Door, add: Any) -> None:
    class Traced(Plugin):
        name = "traced"

        def __init__(self) -> None:
            self.log: list[str] = []

        @middleware(InvokeModelStage)
        def around_model(self, context: Any, next: Any) -> Any:
            self.log.append("model")
            return (yield from next(context))

        @middleware(ExecuteToolStage.Input)
        def before_tool(self, context: Any) -> Any:
            self.log.append(context.tool_use.name)
            return context

        @hook
        def heard(self, event: AfterToolsEvent) -> None:
            self.log.append("after")

    class Quiet(Traced):
        name = "quiet"

        def around_model(self, context: Any, next: Any) -> Any:
            raise AssertionError("overridden without a mark")

    traced, quiet = Traced(), Quiet()
    agent = adding(add, plugins=[traced, quiet])
    door(agent, "go")
    assert traced.log == ["model", "add", "after", "model"] and quiet.log == ["add", "after"]


# --- What is wrong --------------------------------------------------------------------------------------


async def coroutine(context: Any, next: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("stage", "handler", "message"),
    [
        ("InvokeModelStage", passing, "added to a stage"),
        (None, passing, "added to a stage"),
        (ExecuteToolStage, None, "no handler"),
        (ExecuteToolStage, Passing, "no handler"),
        (ExecuteToolStage, coroutine, "coroutine is a coroutine function"),
    ],
)
def test_what_cannot_be_middleware_is_refused_when_it_is_added(
    stage: Any, handler: Any, message: str
) -> None:
    agent = agent_of()
    with pytest.raises(TypeError, match=message):
        agent.add_middleware(stage, handler)
    with pytest.raises(TypeError, match="is given a stage"):
        middleware("model")
    assert agent.middleware.of(ExecuteToolStage) == ()


def nothing(context: Any, next: Any) -> Any:
    yield from next(context)


def no_generator(context: Any, next: Any) -> Any:
    return {"toolUseId": "x"}


def looping(context: Any, next: Any) -> Any:
    for event in next(context):  # noqa: UP028
        yield event


def yields_a_number(context: Any, next: Any) -> Any:
    yield 5
    return (yield from next(context))


async def yields_a_number_async(context: Any, next: Any) -> Any:
    yield 5


async def yields_nothing(context: Any, next: Any) -> Any:
    async for _ in next(context):
        pass
    return
    yield


def other_context(context: Any, next: Any) -> Any:
    return (yield from next(None))


def raising(context: Any, next: Any) -> Any:
    raise ValueError("its own")
    yield


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("wrap", "error", "message"),
    [
        (nothing, TypeError, "has come to None, which is no "),
        (no_generator, TypeError, "and a wrap of .* is a generator"),
        (looping, TypeError, "`result = yield from next"),
        (yields_a_number, TypeError, "neither an event nor something to wait for"),
        (yields_a_number_async, TypeError, "yielded 5, which is no event"),
        (yields_nothing, TypeError, "has come to None"),
        (other_context, TypeError, "takes the .*Context, not None"),
        (raising, ValueError, "its own"),
    ],
)
def test_a_wrap_that_does_the_wrong_thing_is_named_and_the_turn_can_go_on(
    door: Door, add: Any, stage: Any, wrap: Any, error: type[Exception], message: str
) -> None:
    wrong: list[Callable[..., Any]] = [wrap]

    def sometimes(context: Any, next: Any) -> Any:
        return wrong[0](context, next)

    model = ScriptedModel([ToolCall("add", {"a": 1}), "done"], per_thread=True)
    agent = agent_of(model=model, tools=[add])
    agent.add_middleware(stage, passing)
    agent.add_middleware(stage, sometimes)
    with pytest.raises(error, match=message) as raised:
        door(agent, "go")
    notes = [note for note in raised.value.__notes__ if "middleware" in note]
    assert notes == [f"raised by {sometimes.__qualname__}, middleware of {stage.name}"]
    wrong[0] = passing
    assert str(door(agent)) == "done\n" and texts(agent) == ["1"]


@pytest.mark.parametrize("inner", [passing, passing_async])
def test_a_loop_over_next_is_refused_before_anything_is_lost(
    door: Door, add: Any, ran: list[Any], inner: Any
) -> None:
    agent = adding(add)
    agent.add_middleware(ExecuteToolStage, looping)
    agent.add_middleware(ExecuteToolStage, inner)
    with pytest.raises(TypeError, match="a loop over next"):
        door(agent, "go")
    assert len(ran) <= 1


@pytest.mark.parametrize(
    ("stage", "comes_to", "error", "message"),
    [
        (
            InvokeModelStage,
            ModelStopReason("end_turn", {"role": "user", "content": []}),
            TypeError,
            "assistant",
        ),
        (InvokeModelStage, ModelStopReason("end_turn", None), TypeError, "no message"),  # type: ignore[arg-type]
        (ExecuteToolStage, ToolResultEvent("text"), TypeError, "'text', which is no result"),
        (ExecuteToolsStage, ToolResultsEvent([]), ValueError, "no result for the calls"),
        (ExecuteToolsStage, ToolResultsEvent([5]), ValueError, "None is no call"),  # type: ignore[list-item]
        (ExecuteToolsStage, ToolResultsEvent([{"toolUseId": "z"}]), ValueError, "'z' is no call"),  # type: ignore[typeddict-item]
    ],
)
def test_a_result_that_is_none_is_refused(
    door: Door, add: Any, stage: Any, comes_to: Any, error: type[Exception], message: str
) -> None:
    def wrap(context: Any, next: Any) -> Any:
        yield from ()
        return comes_to

    agent = adding(add)
    agent.add_middleware(stage, wrap)
    with pytest.raises(error, match=message):
        door(agent, "go")


def test_a_call_that_is_not_of_the_batch_is_refused(door: Door, add: Any, ran: list[Any]) -> None:
    def wrap(context: Any, next: Any) -> Any:
        stranger = {"toolUseId": "z", "name": "add", "input": {"a": 5}}
        return (yield from next(context.replace(tool_uses=[stranger])))

    agent = adding(add)
    agent.add_middleware(ExecuteToolsStage, wrap)
    with pytest.raises(ValueError, match="'z' is no call of this batch"):
        door(agent, "go")
    assert ran == []


@pytest.mark.parametrize("phase", ["Input", "Output"])
def test_handlers_of_a_phase_give_back_what_they_were_given(door: Door, add: Any, phase: str) -> None:
    def forgets(given: Any) -> None:
        return None

    agent = adding(add)
    agent.add_middleware(getattr(ExecuteToolStage, phase), forgets)
    with pytest.raises(TypeError, match=rf"forgets, ExecuteToolStage.{phase}, has returned None"):
        door(agent, "go")


def test_only_some_of_a_context_can_be_replaced(door: Door, add: Any) -> None:
    agent = adding(add)
    agent.add_middleware(ExecuteToolStage.Input, lambda context: context.replace(agent=None))
    with pytest.raises(
        TypeError, match=r"ExecuteToolContext\.agent cannot be replaced; these can: invocation_state"
    ):
        door(agent, "go")


def test_an_error_of_the_inside_is_nobody_s_of_the_layers(door: Door) -> None:
    agent = agent_of(ConnectionError("lost"))
    agent.add_middleware(InvokeModelStage, passing)
    agent.add_middleware(InvokeModelStage, passing_async)
    with pytest.raises(ConnectionError, match="lost") as raised:
        door(agent, "go")
    assert not any("middleware" in note for note in getattr(raised.value, "__notes__", ()))


# --- What it costs --------------------------------------------------------------------------------------

PREBUILT = Path(sys.modules["graphkit_prebuilt"].__file__ or "").parent
MIDDLEWARE = str(PREBUILT / "middleware")
OF_PLUGINS = (MIDDLEWARE, *(str(PREBUILT / f"{name}.py") for name in ("plugins", "plugin_state", "halting")))
HOOKS = str(PREBUILT / "hooks")


def frames(run: Callable[[], Any], *places: str, flag: int = ~0) -> Counter[str]:
    """How often functions of these folders and modules are entered, by name; a generator that is gone on with counts.
    `flag` is what kind of function."""
    entered: Counter[str] = Counter()

    def profile(frame: Any, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & flag and code.co_filename.startswith(places):
            entered[code.co_name] += 1

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return entered


def test_without_plugins_no_generator_of_theirs_is_entered(add: Any) -> None:
    agent = adding(add, 1)
    assert frames(lambda: agent("go"), HOOKS, *OF_PLUGINS, flag=inspect.CO_GENERATOR) == {}
    # What the request is given and comes to is looked at once, and nothing for each call of the model or of a tool.
    calls = [ToolCall("add", {"a": 1}), ToolCall("add", {"a": 2})]
    once = frames(lambda: agent_of("done", tools=[add])("go"), *OF_PLUGINS[1:])
    assert not once.keys() & {"end_turn", "settle", "unsettled", "pieces", "hooks", "tools"}
    assert once == frames(lambda: agent_of(calls, calls, "done", tools=[add])("go"), *OF_PLUGINS[1:])


def test_without_middleware_nothing_of_it_is_made_or_entered(add: Any) -> None:
    agent = adding(add, 1)
    entered = frames(lambda: agent("go"), MIDDLEWARE)
    # Each call of the model and of the tool, and the one batch, looks once whether there is any.
    assert entered == {"of": 4}


def test_who_wraps_one_stage_pays_for_that(add: Any) -> None:
    agent = adding(add, 1)
    agent.add_middleware(ExecuteToolStage, passing)
    entered = frames(lambda: agent("go"), MIDDLEWARE)
    assert entered["steps"] and entered["_through"] and agent.middleware.of(InvokeModelStage) == ()
    one = Counter(entered)
    ten = adding(add, 1)
    for _ in range(10):
        ten.add_middleware(ExecuteToolStage, passing)
    many = frames(lambda: ten("go"), MIDDLEWARE)
    # A layer that passes on is entered, and has nothing to do with what is waited for inside of it.
    assert many["steps"] == one["steps"] and many["_serve"] == one["_serve"]
    assert many["_innermost"] == one["_innermost"] and many["_through"] == 10 * one["_through"]
