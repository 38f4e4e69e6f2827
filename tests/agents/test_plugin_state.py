"""What plugins keep: typed, per thread, in the checkpoint, and a part that ends with the turn (S158, S159)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from graphkit import Agent, tool
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import ConcurrencyException, UnknownPluginError, UnserializableStateError
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterToolCallEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
)
from graphkit.models.scripted import ToolCall
from graphkit.plugins import HaltSignal, Plugin, hook
from graphkit.session import SessionManager
from graphkit.tools.executors import SequentialToolExecutor
from graphkit.types.tools import ToolContext
from graphkit_prebuilt import plugin_state
from graphkit_prebuilt.plugin_state import RestingStates, RunningStates
from tests.agents.conftest import Door, Session, agent_of
from tests.conftest import response


class Counter(Plugin):
    """Counts calls of the model, of all turns and of this one."""

    name = "counter"

    @hook
    def count(self, event: BeforeModelCallEvent) -> None:
        agent = event.agent
        agent.set_plugin_state(self.name, (agent.get_plugin_state(self.name) or 0) + 1)
        now = agent.get_plugin_state(self.name, per_invocation=True) or 0
        agent.set_plugin_state(self.name, now + 1, per_invocation=True)


class Notes(Plugin):
    """Keeps what it is given."""

    name = "notes"


def states(agent: Any) -> tuple[Any, Any]:
    return agent.get_plugin_state("counter"), agent.get_plugin_state("counter", per_invocation=True)


@tool(context=True)
def ask(tool_context: ToolContext) -> str:
    """Ask."""
    return str(tool_context.interrupt("which"))


@tool
def work() -> str:
    """Work."""
    return "worked"


ASK, WORK = ToolCall("ask", {}), ToolCall("work", {})


def test_state_is_kept_with_the_conversation(session: Session) -> None:
    session.agent("one", "two", plugins=[Counter()])("go")
    agent = session.agent()
    assert states(agent) == (1, None)
    agent("again")
    assert states(session.agent()) == (2, None)


def test_each_thread_has_its_own(door: Door) -> None:
    agent = agent_of("a", "b", "c", plugins=[Counter()])
    for thread_id in ("one", "two", "one"):
        door(agent, "go", thread_id=thread_id)
    assert [agent.thread(each).get_plugin_state("counter") for each in ("one", "two")] == [2, 1]
    assert agent.get_plugin_state("counter") is None


def test_the_part_per_invocation_lasts_as_long_as_the_turn(session: Session) -> None:
    agent = session.agent([ASK], [WORK], "done", "more", tools=[ask, work], plugins=[Counter()])
    result = agent("go")
    assert states(session.agent()) == (1, 1)
    (question,) = result.interrupts or []
    seen: list[Any] = []
    agent = session.agent(hooks=[lambda event: seen.append(states(event.agent))][:0])
    agent.add_hook(lambda event: seen.append(states(event.agent)), AfterInvocationEvent)
    assert agent([response(question, "this")]).stop_reason == "end_turn"
    assert seen == [(3, 3)]  # the end of the turn is a part of it
    assert states(session.agent()) == (3, None)
    session.agent()("another")
    assert states(session.agent()) == (4, None)


def test_a_turn_that_is_left_leaves_its_part(session: Session) -> None:
    def halt(event: BeforeToolCallEvent) -> HaltSignal:
        return HaltSignal("enough")

    session.agent([WORK], "done", tools=[work], plugins=[Counter()], hooks=[halt])("go")
    assert states(session.agent()) == (1, 1)
    seen: list[Any] = []
    agent = session.agent()
    agent.add_hook(lambda event: seen.append(states(event.agent)), BeforeInvocationEvent)
    agent("another")
    assert (seen, states(session.agent())) == ([(1, None)], (2, None))


def test_a_turn_within_the_request_begins_anew() -> None:
    def once_more(event: AfterInvocationEvent) -> None:
        if states(event.agent)[0] == 1:
            event.resume = "more"

    seen: list[Any] = []
    agent = agent_of("one", "two", plugins=[Counter()], hooks=[once_more])
    agent.add_hook(lambda event: seen.append(states(event.agent)), BeforeInvocationEvent)
    agent("go")
    assert (seen, states(agent)) == ([(None, None), (1, None)], (2, None))


def test_the_part_per_invocation_needs_a_turn() -> None:
    agent = agent_of("done", plugins=[Counter()])
    with pytest.raises(RuntimeError, match="no turn"):
        agent.set_plugin_state("counter", 1, per_invocation=True)


def test_what_a_hook_sets_stays_whatever_becomes_of_its_task() -> None:
    def fail(event: BeforeToolCallEvent) -> None:
        event.agent.set_plugin_state("counter", "set")
        raise RuntimeError("broken")

    agent = agent_of([WORK], tools=[work], plugins=[Counter()], hooks=[fail])
    with pytest.raises(RuntimeError, match="broken"):
        agent("go")
    assert agent.get_plugin_state("counter") == "set"


def test_between_requests_it_is_stored_by_the_next_one(session: Session) -> None:
    agent = session.agent("one", "two", plugins=[Counter()])
    agent.set_plugin_state("counter", 10)
    assert agent.get_plugin_state("counter") == 10
    agent("go")
    agent.set_plugin_state("counter", None)
    assert agent.get_plugin_state("counter") is None
    assert session.agent().get_plugin_state("counter") == 11
    agent("go")
    assert session.agent().get_plugin_state("counter") == 1


def test_of_two_hosts_that_set_a_state_between_requests_the_later_request_counts(session: Session) -> None:
    one = session.agent("one", "two", "three", plugins=[Notes()])
    one("go")
    other = session.agent()
    one.set_plugin_state("notes", {"by": "one", "only": [1]})
    other.set_plugin_state("notes", {"by": "other"})
    one("go")
    assert other.get_plugin_state("notes") == {"by": "other"}
    other("go")
    assert session.agent().get_plugin_state("notes") == {"by": "other"}


def test_a_request_that_is_refused_takes_nothing_of_it(session: Session) -> None:
    begun, gate = threading.Event(), threading.Event()

    def waits(event: BeforeModelCallEvent) -> None:
        begun.set()
        assert gate.wait(20)

    one = session.agent("one", "two", plugins=[Notes()])
    other = session.agent(hooks=[waits])
    one.set_plugin_state("notes", {"a": 1})
    thread = threading.Thread(target=other, args=("go",))
    thread.start()
    try:
        assert begun.wait(20)
        with pytest.raises(ConcurrencyException):
            one("go")
    finally:
        gate.set()
        thread.join()
    assert one.get_plugin_state("notes") == {"a": 1}
    one("go")
    assert session.agent().get_plugin_state("notes") == {"a": 1}


def test_what_is_got_is_a_copy() -> None:
    agent = agent_of("one", plugins=[Counter()])
    state = {"a": [1]}
    agent.set_plugin_state("counter", state)
    state["a"].append(2)
    agent.get_plugin_state("counter")["a"].append(3)
    assert agent.get_plugin_state("counter") == {"a": [1]}


class Tally(Plugin):
    """Counts calls of tools that run side by side."""

    name = "tally"

    @hook
    def began(self, event: BeforeToolCallEvent) -> None:
        self.add(event.agent, f"began {event.tool_use['name']}")

    @hook
    def ended(self, event: AfterToolCallEvent) -> None:
        self.add(event.agent, f"ended {event.tool_use['name']}")

    def add(self, agent: Agent, what: str) -> None:
        state = agent.get_plugin_state(self.name) or {"count": 0, "log": []}
        agent.set_plugin_state(self.name, {"count": state["count"] + 1, "log": [*state["log"], what]})


def test_calls_side_by_side_change_one_state(session: Session, door: Door) -> None:
    """The second call goes on first, so its writes are older than those of the first, whose are applied before."""
    second_ended = threading.Event()

    @tool
    def first() -> str:
        """Waits for the second."""
        assert second_ended.wait(10)
        return "first"

    @tool
    def second() -> str:
        """Runs."""
        second_ended.set()
        return "second"

    calls = [ToolCall("first", {}), ToolCall("second", {})]
    agent = session.agent(calls, "done", tools=[first, second], plugins=[Tally()])
    door(agent, "go")
    state = session.agent().get_plugin_state("tally")
    assert state["count"] == 4
    assert sorted(state["log"]) == ["began first", "began second", "ended first", "ended second"]


def test_a_call_that_goes_on_later_sees_what_the_others_have_set(session: Session) -> None:
    agent = session.agent([ASK, WORK], "done", tools=[ask, work], plugins=[Tally()])
    (question,) = agent("go").interrupts or []
    assert session.agent().get_plugin_state("tally")["count"] == 3
    session.agent()([response(question, "y")])
    state = session.agent().get_plugin_state("tally")
    assert state["count"] == 5
    assert sorted(state["log"]) == ["began ask", "began ask", "began work", "ended ask", "ended work"]


class Ended(Tally):
    """Hears only how calls end."""

    @hook
    def ended(self, event: AfterToolCallEvent) -> None:
        super().ended(event)

    def began(self, event: BeforeToolCallEvent) -> None: ...


class Mortal:
    """A tool that does not outlive its first call."""

    def __init__(self) -> None:
        self.calls = 0

    @tool
    def die(self) -> str:
        """Die, once."""
        self.calls += 1
        if self.calls == 1:
            raise KeyboardInterrupt  # as a process that dies: nothing comes to rest
        return "alive"


def test_after_a_crash_it_is_what_the_calls_that_were_recorded_have_set(session: Session, door: Door) -> None:
    calls = [ToolCall("work", {}), ToolCall("die", {}), ToolCall("work", {})]
    options: Any = {"tools": [work, Mortal().die], "tool_executor": SequentialToolExecutor()}
    agent = session.agent(calls, "done", plugins=[Ended(), Counter()], **options)
    with pytest.raises(KeyboardInterrupt):
        agent("go")
    assert session.agent().get_plugin_state("tally") == {"count": 1, "log": ["ended work"]}
    door(session.agent())
    state = session.agent().get_plugin_state("tally")
    assert state == {"count": 3, "log": ["ended work", "ended die", "ended work"]}
    assert states(session.agent()) == (2, None)


# --- Types ------------------------------------------------------------------------------------------------


@dataclass
class Spent:
    tokens: int = 0
    by_day: dict[str, int] = field(default_factory=dict)
    since: datetime | None = None


class Trust(BaseModel):
    tools: list[str] = []
    level: int = 0


class NeedsName(BaseModel):
    name: str


def typed(kind: Any, turn: Any = None) -> Plugin:
    class Typed(Plugin):
        name = "typed"
        state_type = kind
        invocation_state_type = turn

    return Typed()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Spent, Spent(5, {"mon": 1}, datetime(2026, 1, 2, tzinfo=UTC))),
        (Trust, Trust(tools=["work"], level=2)),
        (dict[str, list[int]], {"a": [1, 2], "b": []}),
        (set[str], {"a", "b"}),
        (NeedsName, NeedsName(name="x")),
    ],
)
def test_a_declared_type_comes_back(kind: Any, value: Any, session: Session) -> None:
    agent = session.agent("one", plugins=[typed(kind)])
    agent.set_plugin_state("typed", value)
    agent("go")
    state = session.agent().get_plugin_state("typed")
    assert (state, type(state)) == (value, type(value))


def test_a_declared_type_without_a_state_is_made_of_its_defaults() -> None:
    assert agent_of(plugins=[typed(Spent)]).get_plugin_state("typed") == Spent()
    assert agent_of(plugins=[typed(Trust)]).get_plugin_state("typed") == Trust()
    assert agent_of(plugins=[typed(NeedsName)]).get_plugin_state("typed") is None
    assert agent_of(plugins=[typed(Spent, Trust)]).get_plugin_state("typed", per_invocation=True) == Trust()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Spent, Spent(tokens="many")),  # type: ignore[arg-type]
        (Spent, {"tokens": "many"}),
        (Trust, Spent()),
        (Trust, 5),
    ],
)
def test_what_is_not_of_the_type_is_refused(kind: Any, value: Any) -> None:
    agent = agent_of("one", plugins=[typed(kind)])
    with pytest.raises(ValueError, match="is no state of plugin 'typed'"):
        agent.set_plugin_state("typed", value)
    assert agent.get_plugin_state("typed") == kind()


def test_a_dict_is_taken_for_a_declared_type() -> None:
    agent = agent_of("one", plugins=[typed(Trust)])
    agent.set_plugin_state("typed", {"level": 3})
    assert agent.get_plugin_state("typed") == Trust(level=3)


def test_a_state_of_another_type_is_an_error_that_names_the_plugin(session: Session) -> None:
    agent = session.agent("one", plugins=[typed(None)])
    agent.set_plugin_state("typed", {"tokens": "many"})
    agent("go")
    with pytest.raises(ValueError, match="what is kept of plugin 'typed' is no Spent"):
        session.agent(plugins=[typed(Spent)]).get_plugin_state("typed")


def test_a_name_that_is_no_plugin_s_is_an_error(session: Session) -> None:
    agent = session.agent("one", plugins=[Counter()])
    with pytest.raises(UnknownPluginError, match=r"no plugin 'count'; there are \['counter'\]"):
        agent.get_plugin_state("count")
    with pytest.raises(UnknownPluginError, match="no plugin 'count'"):
        agent.set_plugin_state("count", 1)
    agent("go")
    assert session.agent(plugins=[]).get_plugin_state("counter") == 1  # what is kept of a plugin that is gone


def test_what_cannot_be_stored_is_refused_and_nothing_is_changed() -> None:
    agent = agent_of("one", plugins=[Counter()])
    agent.set_plugin_state("counter", {"a": 1})
    with pytest.raises(UnserializableStateError, match="the state of plugin 'counter'"):
        agent.set_plugin_state("counter", {"a": 2, "b": object()})
    assert agent.get_plugin_state("counter") == {"a": 1}


CHANGES: list[list[Any]] = [
    [{"a": 1}, {"a": True}, {"a": 1.0}],
    [[1, 2, 3], [1], [], [{"x": 1}], {"x": 1}, "text", None],
    [{"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, {"a": [1]}, {"a": {}}, {}, {"a": None}],
    [{1: "a"}, {1: "b", "x": []}, {"x": [[], [1, {}], {"y": [1]}]}],
    [(1, [2]), {"a", "b"}, {"a": (1,), "b": {"c"}}],
    [{"b": 1, "a": 2}, {"a": 2}, {"a": 2, "b": 3}],
]


@pytest.mark.parametrize("values", CHANGES)
def test_any_change_of_a_state_is_what_it_was_set_to(values: list[Any], session: Session) -> None:
    agent = session.agent(*["ok"] * len(values), plugins=[Counter()])
    agent.hooks = type(agent.hooks)()
    for value in values:
        agent.set_plugin_state("counter", value)
        assert agent.get_plugin_state("counter") == value
        agent("go")
        found = session.agent().get_plugin_state("counter")
        assert (repr(found), type(found)) == (repr(value), type(value)) or found == value == {"a", "b"}


def test_plugins_that_keep_nothing_pay_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle(Plugin):
        name = "idle"

        @hook
        def hear(self, event: BeforeToolCallEvent) -> None: ...

    made: list[Any] = []
    for states in (RunningStates, RestingStates):
        monkeypatch.setattr(states, "__init__", lambda self, *args: made.append(self))
    monkeypatch.setattr(plugin_state, "taken_apart", lambda *args: made.append(args))
    agent = agent_of([WORK], "done", "more", tools=[work], plugins=[Idle()])
    written: list[str] = []
    for update in agent.graph.stream(
        {"messages": [{"role": "user", "content": [{"text": "go"}]}]},
        agent.thread().config,
        stream_mode="updates",
    ):
        written += [channel for node in update.values() for channel in node or ()]
    assert (made, {"plugins", "turn"} & set(written)) == ([], set())
    agent("again")
    assert made == []


# --- Bytes ------------------------------------------------------------------------------------------------


def replaced(agent: Agent, turn: int) -> Any:
    return {"turn": turn, "text": f"{turn:04}" * 256}


def grown_in_a_list(agent: Agent, turn: int) -> Any:
    state = agent.get_plugin_state("counter") or {"log": []}
    return {"log": [*state["log"], f"{turn:04}" * 256]}


def grown_in_keys(agent: Agent, turn: int) -> Any:
    return {**(agent.get_plugin_state("counter") or {}), f"turn {turn}": f"{turn:04}" * 256}


@pytest.mark.parametrize("change", [replaced, grown_in_a_list, grown_in_keys])
def test_a_kilobyte_a_turn_is_stored_linearly(change: Callable[[Agent, int], Any], tmp_path: Path) -> None:
    """1,000 turns in figures; here as many as show what grows with the square."""
    path = tmp_path / "state.sqlite"
    sizes = []
    with SqliteSaver(str(path), synchronous="NORMAL") as saver:
        agent = agent_of(*["ok"] * 80, session_manager=SessionManager(saver, "s"), plugins=[Counter()])
        agent.hooks = type(agent.hooks)()
        for turn in range(80):
            agent.set_plugin_state("counter", change(agent, turn))
            agent("go")
            if turn + 1 in (20, 40, 80):
                sizes.append(bytes_of_values(saver))
    assert sizes[0] > 20 * 1024
    assert sizes[2] - sizes[1] < 2.2 * (sizes[1] - sizes[0])
    assert sizes[2] < 80 * 3 * 1024


def bytes_of_values(saver: Any) -> int:
    with saver.engine.connect() as connection:
        from sqlalchemy import text

        rows = connection.execute(text("SELECT sum(length(body)) FROM graphkit_value"))
        found: int = rows.scalar_one()
        return found
