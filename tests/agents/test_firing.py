"""An event reaches everybody who hears it, in a task that may ask, fail and run again (S19–S21, S67, S69, N7–N9)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from graphkit.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    BaseHookEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    HookRegistry,
    MessageAddedEvent,
)
from graphkit.types import Command, RunnableConfig, interrupt
from graphkit_prebuilt.content import ToolUse, tool_result, user
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.loop.steps import Steps, awaited, blocking
from tests.conftest import EMPTY, Build, Graph, Reopen, Runner, Saver, graph_of, questions, response

NOBODY: Any = None


class Agent:
    """As much of an agent as firing needs."""

    def __init__(self) -> None:
        self.hooks = HookRegistry()


class Request:
    """As much of a request as firing needs."""

    def __init__(self) -> None:
        self.agent = Agent()
        self.hooks = self.agent.hooks
        self.lock = threading.RLock()
        self.sink: Callable[[Any], None] | None = None


@pytest.fixture
def request_() -> Request:
    return Request()


Body = Callable[[], Steps[list[Any]]]


def graph_that(body: Body, runner: Runner, saver: Saver = None) -> Graph:
    """A graph of one node that takes these steps and logs what they return."""

    def node(state: Any) -> Any:
        return {"log": blocking(body())}

    async def anode(state: Any) -> Any:
        return {"log": await awaited(body())}

    return graph_of({"node": node if runner.colour == "sync" else anode}, saver=saver)


def before_model() -> BeforeModelCallEvent:
    return BeforeModelCallEvent(agent=NOBODY)


def before_tool(call: str = "t1") -> BeforeToolCallEvent:
    return BeforeToolCallEvent(
        agent=NOBODY, selected_tool=None, tool_use=ToolUse(toolUseId=call, name="x", input={})
    )


def after_tool(call: str) -> AfterToolCallEvent:
    use = ToolUse(toolUseId=call, name="x", input={})
    result = tool_result(call, "success", "done")
    return AfterToolCallEvent(agent=NOBODY, selected_tool=None, tool_use=use, result=result)


# --- Who hears ------------------------------------------------------------------------------------------


def test_nobody_hears_until_there_is_a_callback_or_a_sink(request_: Request) -> None:
    assert not heard(request_, BeforeModelCallEvent, AfterModelCallEvent)
    request_.hooks.add_callback(AfterModelCallEvent, print)
    assert heard(request_, BeforeModelCallEvent, AfterModelCallEvent)
    assert not heard(request_, BeforeModelCallEvent)
    request_.sink = print
    assert heard(request_, BeforeModelCallEvent)


def test_a_callback_with_nothing_to_do_hears_nothing(request_: Request, runner: Runner) -> None:
    busy, seen = [False], list[Any]()
    request_.hooks.add_callback(
        BeforeModelCallEvent, lambda event: seen.append("when"), when=lambda invocation: busy[0]
    )
    assert not heard(request_, BeforeModelCallEvent)
    request_.hooks.add_callback(BeforeModelCallEvent, lambda event: seen.append("always"))
    assert heard(request_, BeforeModelCallEvent)

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_model())
        return []

    runner.invoke(graph_that(body, runner), EMPTY)
    assert seen == ["always"]
    busy[0] = True
    runner.invoke(graph_that(body, runner), EMPTY)
    assert seen == ["always", "when", "always"]


def test_the_sink_comes_first_then_the_callbacks_in_order_each_awaited(
    request_: Request, runner: Runner
) -> None:
    seen = []

    async def slow(event: BeforeModelCallEvent) -> None:
        await asyncio.sleep(0)
        seen.append("slow")

    class Provider:
        async def __call__(self, event: BeforeModelCallEvent) -> None:
            await asyncio.sleep(0)
            seen.append("object")

    request_.sink = lambda event: seen.append(type(event).__name__)
    request_.hooks.add_callback(None, slow)
    request_.hooks.add_callback(BeforeModelCallEvent, lambda event: seen.append("quick"))
    request_.hooks.add_callback(None, Provider())

    def body() -> Steps[list[Any]]:
        event = before_model()
        assert (yield from fire(request_, event)) is event
        return ["end"]

    assert runner.invoke(graph_that(body, runner), EMPTY) == {"log": ["end"]}
    assert seen == ["BeforeModelCallEvent", "slow", "quick", "object"]


# --- What callbacks raise -------------------------------------------------------------------------------


def fails(event: BaseHookEvent) -> None:
    raise ValueError("no good")


async def fails_later(event: BaseHookEvent) -> None:
    await asyncio.sleep(0)
    raise ValueError("no good")


@pytest.mark.parametrize("callback", [fails, fails_later])
def test_an_error_ends_the_firing_and_comes_out_as_it_is_with_a_note(
    request_: Request, runner: Runner, callback: Callable[..., Any]
) -> None:
    seen = []
    request_.hooks.add_callback(BeforeModelCallEvent, lambda event: seen.append("before"))
    request_.hooks.add_callback(BeforeModelCallEvent, callback)
    request_.hooks.add_callback(BeforeModelCallEvent, lambda event: seen.append("after"))

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_model())
        return []

    with pytest.raises(ValueError, match="no good") as raised:
        runner.invoke(graph_that(body, runner), EMPTY)
    assert f"raised by {callback.__name__}, a callback of BeforeModelCallEvent" in raised.value.__notes__
    assert seen == ["before"]


# --- Questions ------------------------------------------------------------------------------------------


def test_all_callbacks_run_and_may_ask_and_are_answered_by_name(
    request_: Request, runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    """S19, S20: also when the callbacks are registered in another order by the time of the answers (N8)."""
    seen: list[Any] = []

    def asks(name: str) -> Callable[[Any], None]:
        def callback(event: BeforeToolCallEvent) -> None:
            seen.append((name, event.interrupt(name, reason={"about": name})))

        return callback

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_tool())
        return ["done"]

    first, second = asks("first"), asks("second")
    for callback in (first, lambda event: seen.append("third"), second):
        request_.hooks.add_callback(BeforeToolCallEvent, callback)
    result = runner.invoke(graph_that(body, runner, saver), EMPTY, config)
    asked = result["__interrupt__"]
    assert [(question.name, question.reason) for question in asked] == [
        ("first", {"about": "first"}),
        ("second", {"about": "second"}),
    ]
    assert seen == ["third"]

    request_.agent.hooks = request_.hooks = HookRegistry()
    for callback in (second, first):
        request_.hooks.add_callback(BeforeToolCallEvent, callback)
    answers = [response(question, f"yes, {question.name}") for question in asked]
    again = graph_that(body, runner, reopen(saver))
    assert runner.invoke(again, answers, config)["log"] == ["done"]
    assert seen == ["third", ("second", "yes, second"), ("first", "yes, first")]


@pytest.mark.parametrize("answer", [False, 0, "", None, {"a": [1, None]}, [True]])
def test_an_answer_comes_back_as_it_was_given(
    request_: Request, runner: Runner, saver: Saver, config: RunnableConfig, answer: Any
) -> None:
    """S7, S27."""
    request_.hooks.add_callback(BeforeModelCallEvent, lambda event: answers.append(event.interrupt("a")))
    answers: list[Any] = []

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_model())
        return ["done"]

    graph = graph_that(body, runner, saver)
    (asked,) = runner.invoke(graph, EMPTY, config)["__interrupt__"]
    assert runner.invoke(graph, [response(asked, answer)], config)["log"] == ["done"]
    assert answers == [answer]
    assert type(answers[0]) is type(answer)


def test_one_callback_asks_one_question_after_the_other(
    request_: Request, runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    """S21."""
    seen: list[Any] = []

    async def asks(event: BeforeModelCallEvent) -> None:
        seen.append([event.interrupt("one"), event.interrupt("two")])

    request_.hooks.add_callback(None, asks)

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_model())
        return ["done"]

    graph = graph_that(body, runner, saver)
    (one,) = runner.invoke(graph, EMPTY, config)["__interrupt__"]
    (two,) = runner.invoke(graph, [response(one, 1)], config)["__interrupt__"]
    assert (one.name, two.name) == ("one", "two")
    assert runner.invoke(graph, [response(two, 2)], config)["log"] == ["done"]
    assert seen == [[1, 2]]


def test_a_name_is_unique_in_one_event(request_: Request, runner: Runner, config: RunnableConfig) -> None:
    """S15, S16."""
    request_.hooks.add_callback(BeforeModelCallEvent, lambda event: event.interrupt("approval", response=1))
    request_.hooks.add_callback(BeforeModelCallEvent, lambda event: event.interrupt("approval"))

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_model())
        return []

    with pytest.raises(
        ValueError, match="BeforeModelCallEvent: a question named 'approval' was asked already"
    ):
        runner.invoke(graph_that(body, runner), EMPTY, config)


def test_the_same_name_in_another_event_call_or_number_is_another_question(
    request_: Request, runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    """S15, S31, N1."""
    seen: list[Any] = []
    request_.hooks.add_callback(
        BaseHookEvent,
        lambda event: seen.append((type(event).__name__, event.interrupt("approval"))),
    )

    def firings() -> list[Steps[Any]]:
        return [
            fire(request_, before_model(), "model"),
            fire(request_, after_tool("t1"), "t1"),
            fire(request_, after_tool("t2"), "t2"),
            fire(request_, MessageAddedEvent(agent=NOBODY, message=user("a")), "0"),
            fire(request_, MessageAddedEvent(agent=NOBODY, message=user("b")), "1", number=1),
        ]

    def body() -> Steps[list[Any]]:
        for firing in firings():
            yield from firing
        return ["done"]

    graph = graph_that(body, runner, saver)
    given: Any = EMPTY
    ids = []
    for number in range(5):
        (asked,) = runner.invoke(graph, given, config)["__interrupt__"]
        ids.append(asked.id)
        given = [response(asked, number)]
    assert runner.invoke(graph, given, config)["log"] == ["done"]
    assert len(set(ids)) == 5
    assert [answer for _, answer in seen] == [0, 1, 2, 3, 4]


def test_a_name_can_be_asked_again_when_the_event_fires_again(
    request_: Request, runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    """A retried call is the same call: it gets the same answer."""
    seen: list[Any] = []
    request_.hooks.add_callback(
        BeforeToolCallEvent, lambda event: seen.append([event.interrupt("named"), interrupt("unnamed")])
    )

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_tool())
        yield from fire(request_, before_tool())
        return ["done"]

    graph = graph_that(body, runner, saver)
    (named,) = runner.invoke(graph, EMPTY, config)["__interrupt__"]
    (unnamed,) = runner.invoke(graph, [response(named, "a")], config)["__interrupt__"]
    assert runner.invoke(graph, [response(unnamed, "b")], config)["log"] == ["done"]
    assert seen == [["a", "b"], ["a", "b"]]


def test_plain_interrupts_are_counted_event_by_event(
    request_: Request, runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    """What has fired is not fired again, so a count over the whole task would shift."""
    seen: list[Any] = []
    request_.hooks.add_callback(BeforeInvocationEvent, lambda event: seen.append(interrupt("first")))
    request_.hooks.add_callback(BeforeModelCallEvent, lambda event: seen.append(interrupt("second")))

    def body() -> Steps[list[Any]]:
        yield from fire(request_, BeforeInvocationEvent(agent=NOBODY), "before")
        yield from fire(request_, before_model(), "model")
        return [interrupt("third")]

    graph = graph_that(body, runner, saver)
    given: Any = EMPTY
    for shown in ("first", "second", "third"):
        (asked,) = runner.invoke(graph, given, config)["__interrupt__"]
        assert asked.value == shown
        given = Command(resume=f"to the {shown}")
    assert runner.invoke(graph, given, config)["log"] == ["to the third"]
    assert seen == ["to the first", "to the second"]


def test_except_exception_does_not_swallow_a_question(
    request_: Request, runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    """N7."""

    def careful(event: BeforeModelCallEvent) -> None:
        try:
            event.interrupt("approval")
        except Exception:
            pytest.fail("the question is an Exception")

    request_.hooks.add_callback(None, careful)

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_model())
        return ["done"]

    graph = graph_that(body, runner, saver)
    (asked,) = runner.invoke(graph, EMPTY, config)["__interrupt__"]
    assert runner.invoke(graph, [response(asked, 1)], config)["log"] == ["done"]


def test_a_swallowed_question_is_asked_all_the_same_and_its_event_fires_again(
    request_: Request, runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    seen: list[Any] = []

    def careless(event: BeforeModelCallEvent) -> None:
        try:
            seen.append(event.interrupt("approval"))
        except BaseException:
            seen.append("swallowed")

    request_.hooks.add_callback(None, careless)

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_model(), "once")
        return ["done"]

    graph = graph_that(body, runner, saver)
    with pytest.warns(RuntimeWarning, match="caught the exception that carries its question"):
        (asked,) = runner.invoke(graph, EMPTY, config)["__interrupt__"]
    assert runner.invoke(graph, [response(asked, "yes")], config)["log"] == ["done"]
    assert seen == ["swallowed", "yes"]


def test_an_error_after_a_question_waits_for_its_answer(
    request_: Request, runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    request_.hooks.add_callback(BeforeModelCallEvent, lambda event: event.interrupt("approval"))
    request_.hooks.add_callback(BeforeModelCallEvent, fails)

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_model())
        return []

    graph = graph_that(body, runner, saver)
    (asked,) = runner.invoke(graph, EMPTY, config)["__interrupt__"]
    with pytest.raises(ValueError, match="no good"):
        runner.invoke(graph, [response(asked, 1)], config)


def test_questions_of_a_task_group_are_questions(
    request_: Request, runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    seen: list[Any] = []

    async def asks(event: BeforeModelCallEvent, name: str) -> None:
        seen.append(event.interrupt(name))

    async def asks_twice(event: BeforeModelCallEvent) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asks(event, "one"))
            group.create_task(asks(event, "two"))

    request_.hooks.add_callback(None, asks_twice)
    request_.hooks.add_callback(BeforeModelCallEvent, lambda event: seen.append("next"))

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_model())
        return ["done"]

    graph = graph_that(body, runner, saver)
    asked = questions(runner.invoke(graph, EMPTY, config))
    result = runner.invoke(graph, [response(question, 1) for question in asked.values()], config)
    while "__interrupt__" in result:  # the group may have ended before the second could ask
        result = runner.invoke(graph, [response(q, 1) for q in result["__interrupt__"]], config)
    assert result["log"] == ["done"]
    assert seen[0] == "next"
    assert seen[-3:] == [1, 1, "next"]


# --- Once -----------------------------------------------------------------------------------------------


def test_what_has_fired_to_its_end_is_not_fired_again_and_what_was_written_stays(
    request_: Request, runner: Runner, saver: Saver, reopen: Reopen, config: RunnableConfig
) -> None:
    seen: list[Any] = []

    def writes(event: BeforeInvocationEvent) -> None:
        seen.append("before")
        event.messages = [user("rewritten")]
        event.cancel = "because"

    request_.hooks.add_callback(None, writes)
    request_.hooks.add_callback(
        AfterInvocationEvent, lambda event: seen.append(("after", event.interrupt("approval")))
    )

    def body() -> Steps[list[Any]]:
        before = BeforeInvocationEvent(agent=NOBODY, messages=[user("given")])
        yield from fire(request_, before, "before")
        yield from fire(request_, AfterInvocationEvent(agent=NOBODY), "after")
        return [before.messages, before.cancel]

    (asked,) = runner.invoke(graph_that(body, runner, saver), EMPTY, config)["__interrupt__"]
    result = runner.invoke(graph_that(body, runner, reopen(saver)), [response(asked, 1)], config)
    assert result["log"] == [[user("rewritten")], "because"]
    assert seen == ["before", ("after", 1)]


def test_what_has_fired_before_a_failure_is_not_fired_again(
    request_: Request, runner: Runner, build: Build, saver: Saver, config: RunnableConfig
) -> None:
    seen: list[Any] = []
    fails_now = [True]
    request_.hooks.add_callback(BaseHookEvent, lambda event: seen.append(type(event).__name__))

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_model(), "before")
        if fails_now[0]:
            raise ValueError("the model is away")
        yield from fire(request_, AfterModelCallEvent(agent=NOBODY), "after")
        return ["done"]

    graph = graph_that(body, runner, saver)
    with pytest.raises(ValueError, match="away"):
        runner.invoke(graph, EMPTY, config)
    fails_now[0] = False
    assert runner.invoke(graph, None, config)["log"] == ["done"]
    assert seen == ["BeforeModelCallEvent", "AfterModelCallEvent"]


class Held:
    """A lock that knows whether it is held."""

    def __init__(self) -> None:
        self.held = 0

    def __enter__(self) -> None:
        self.held += 1

    def __exit__(self, *raised: object) -> None:
        self.held -= 1


def test_callbacks_run_while_the_lock_of_the_request_is_held(request_: Request, runner: Runner) -> None:
    """So those of two tasks do not run at the same time."""
    lock = Held()
    request_.lock = lock  # type: ignore[assignment]
    seen: list[int] = []

    async def later(event: BeforeToolCallEvent) -> None:
        await asyncio.sleep(0)
        seen.append(lock.held)

    request_.hooks.add_callback(BeforeToolCallEvent, lambda event: seen.append(lock.held))
    request_.hooks.add_callback(None, later)

    def body() -> Steps[list[Any]]:
        yield from fire(request_, before_tool())
        return [lock.held]

    assert runner.invoke(graph_that(body, runner), EMPTY) == {"log": [0]}
    assert seen == [1, 1]
