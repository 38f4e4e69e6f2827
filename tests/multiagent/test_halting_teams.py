"""A callback, a function or a member halts an orchestrator: durable, generic, and resumed once (S156-S163)."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.errors import (
    ConcurrencyException,
    HaltedTwiceError,
    InvalidDirectiveError,
    InvalidPromptError,
    InvalidResponseError,
    NotHaltedError,
    UnknownPluginError,
    UnserializableStateError,
)
from graphkit.hooks import (
    AfterMultiAgentInvocationEvent,
    AfterNodeCallEvent,
    BeforeModelCallEvent,
    BeforeMultiAgentInvocationEvent,
    BeforeNodeCallEvent,
    BeforeToolCallEvent,
    MultiAgentHandoffEvent,
    MultiAgentInitializedEvent,
    MultiAgentResultEvent,
    NodeCancelEvent,
    NodeResultEvent,
    NodeStreamUpdateEvent,
)
from graphkit.middleware import ExecuteToolsStage, ExecuteToolStage, InvokeModelStage
from graphkit.models import ToolCall
from graphkit.multiagent import Graph, MultiAgentBase, MultiAgentResult, Status, Swarm
from graphkit.plugins import Halt, HaltSignal, MultiAgentPlugin, Plugin, ResumeDirective, hook
from graphkit.types import Command, interrupt
from graphkit.vended_plugins import BudgetGuard, HandOver
from tests.agents.test_middleware import frames
from tests.conftest import response
from tests.multiagent.teams import Scripts, Storage, TeamDoor, answers, order, statuses


def resumed(team: Any, either: TeamDoor, *args: Any, **options: Any) -> MultiAgentResult:
    """`resume` in the colour of a door."""
    result: MultiAgentResult
    if either.name == "call":
        result = team.resume(*args, **options)
    else:
        result = asyncio.run(team.resume_async(*args, **options))
    return result


@pytest.fixture
def sqlite(open_sqlite: Any) -> Storage:
    return Storage(open_sqlite)


class Pause(Plugin):
    """Halts at an event, of a node if one is named, until it is resumed, as it is told."""

    def __init__(self, event_type: Any, node: str | None = None, returns: bool = False) -> None:
        self.name = "pause"
        self.event_type, self.node, self.returns = event_type, node, returns
        self.told: list[Any] = []
        self.directs: Callable[[Any, Any], Any] = lambda host, data: None

    def init_agent(self, agent: Any) -> None:
        agent.add_hook(self.pause, self.event_type)

    def init_multi_agent(self, orchestrator: Any) -> None:
        self.init_agent(orchestrator)

    def pause(self, event: Any) -> HaltSignal | None:
        host = getattr(event, "source", None) or event.agent
        about = self.node is None or getattr(event, "node_id", None) == self.node
        while hasattr(event, "event"):
            event = event.event
        is_told = getattr(getattr(event, "result", None), "halts", ())  # the result tells of this very halt
        if not about or is_told or host.get_plugin_state("pause") == "resumed":
            return None
        signal = HaltSignal("paused", {"at": self.event_type.__name__})
        if not self.returns:
            raise signal
        return signal

    def on_resume(self, agent: Any, data: Any) -> Any:
        self.told.append((agent, data))
        agent.set_plugin_state("pause", "resumed")
        return self.directs(agent, data)


def cancel_b(event: BeforeNodeCallEvent) -> None:
    if event.node_id == "b":
        event.cancel_node = "not now"


EVENTS = [
    BeforeMultiAgentInvocationEvent,
    BeforeNodeCallEvent,
    NodeStreamUpdateEvent,
    AfterNodeCallEvent,
    NodeResultEvent,
    NodeCancelEvent,
    MultiAgentHandoffEvent,
    AfterMultiAgentInvocationEvent,
    MultiAgentResultEvent,
]


@pytest.mark.parametrize("returns", [False, True], ids=["raised", "returned"])
@pytest.mark.parametrize("event_type", EVENTS)
def test_a_callback_of_any_event_halts_and_the_turn_goes_on_when_it_is_resumed(
    event_type: Any, returns: bool, either: TeamDoor, scripts: Scripts
) -> None:
    nodes = {name: scripts.agent(name, f"{name} is done") for name in "abc"}
    hooks = [cancel_b] if event_type is NodeCancelEvent else []
    pause = Pause(event_type, returns=returns)
    team = Graph(nodes, [("a", "c")], entry_points=["a", "b"], hooks=hooks, plugins=[pause])
    result = either(team, "go")
    assert (result.status, result.stop_reason) == (Status.HALTED, "paused")
    assert (result.data, result.resumable, result.plugin) == ({"at": event_type.__name__}, True, "pause")
    assert result.interrupts == [] and team.halts == list(result.halts)
    result = resumed(team, either, "pause", 7)
    assert (result.status, result.stop_reason, list(result.halts)) == (Status.COMPLETED, None, [])
    assert (result.data, result.resumable, result.plugin) == (None, False, None)
    assert pause.told == [(team, 7)]
    assert sorted(order(result)) == ["a", "b", "c"] and team.halts == []
    assert scripts.calls == dict.fromkeys("ac" if hooks else "abc", 1)


def test_a_swarm_halts_and_goes_on(either: TeamDoor, storage: Storage, scripts: Scripts) -> None:
    def build() -> Swarm:
        hand_over = ToolCall("handoff_to_agent", {"agent_name": "b", "message": "yours"})
        agents = {"a": scripts.agent("a", [hand_over], "given"), "b": scripts.agent("b", "done")}
        pause = Pause(BeforeNodeCallEvent, "b")
        return Swarm(agents, plugins=[pause], session_manager=storage.session)

    result = either(build(), "go")
    assert (result.status, statuses(result)) == (Status.HALTED, {"a": "completed", "b": "halted"})
    assert (build().thread().result.status, build().halts) == (Status.HALTED, list(result.halts))
    again = either(build())
    assert (again.status, again.data) == (Status.HALTED, {"at": "BeforeNodeCallEvent"})
    done = resumed(build(), either, "pause")
    assert (done.status, order(done), scripts.calls["b"]) == (Status.COMPLETED, ["a", "b"], 1)


def test_a_halt_comes_through_every_door(door: TeamDoor, scripts: Scripts) -> None:
    team = Graph({"a": scripts.agent("a", "done")}, plugins=[Pause(BeforeNodeCallEvent)])
    result = door(team, "go")
    assert (result.status, result.data) == (Status.HALTED, {"at": "BeforeNodeCallEvent"})
    assert statuses(result) == {"a": "halted"} and result.results["a"].result.stop_reason == "paused"
    assert scripts.calls == {}


def function_of(made: str) -> Any:
    signal = HaltSignal("no_more", [1])

    def raises(task: Any) -> Any:
        try:
            raise signal
        except Exception as error:  # pragma: no cover - it is none
            return str(error)

    async def araises(task: Any) -> Any:
        raise signal

    def returns(task: Any) -> Any:
        return signal

    async def groups(task: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            group.create_task(araises(task))

    return {"raises": raises, "araises": araises, "returns": returns, "groups": groups}[made]


@pytest.mark.parametrize("made", ["raises", "araises", "returns", "groups"])
def test_a_function_halts_beside_members_that_run_to_their_end(
    made: str, either: TeamDoor, scripts: Scripts
) -> None:
    team = Graph({"f": function_of(made), "a": scripts.agent("a", "done", "again")})
    result = either(team, "go")
    assert (result.stop_reason, result.data, result.plugin) == ("no_more", [1], None)
    assert statuses(result) == {"f": "halted", "a": "completed"}
    assert resumed(team, either).stop_reason == "no_more"  # what made it halt is still so
    assert scripts.calls == {"a": 1}


def test_a_condition_halts(either: TeamDoor, scripts: Scripts) -> None:
    open_now: list[bool] = []

    def is_open(state: Any) -> bool:
        if not open_now:
            raise HaltSignal("closed")
        return True

    nodes = {name: scripts.agent(name, "done") for name in "ab"}
    team = Graph(nodes, [("a", "b", is_open)])
    assert either(team, "go").stop_reason == "closed"
    open_now.append(True)
    assert order(resumed(team, either)) == ["a", "b"]
    assert scripts.calls == {"a": 1, "b": 1}


# --- Members --------------------------------------------------------------------------------------------


class Till:
    """Counts what was paid."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    @tool
    def pay(self, what: str) -> str:
        """Pay for something."""
        self.paid.append(what)
        return f"paid {what}"


def pay(what: str) -> ToolCall:
    return ToolCall("pay", {"what": what}, what)


class Gate(Plugin):
    """Halts an agent in one of the places that plugins of agents have, until it is resumed."""

    name = "gate"

    def __init__(self, where: str) -> None:
        self.where = where
        self.told: list[Any] = []
        self.directs: Callable[[Any, Any], Any] = lambda agent, data: None

    def init_agent(self, agent: Agent) -> None:
        stages = {"model": InvokeModelStage, "call": ExecuteToolStage, "batch": ExecuteToolsStage}
        if self.where in stages:
            agent.add_middleware(stages[self.where], self.wrap)
        else:
            events: Any = {"hook": BeforeToolCallEvent, "model hook": BeforeModelCallEvent}
            agent.add_hook(lambda event: self.check(event.agent), events[self.where])

    def wrap(self, context: Any, next: Any) -> Any:
        self.check(context.agent)
        return (yield from next(context))

    def check(self, agent: Any) -> None:
        if agent.get_plugin_state("gate", per_invocation=True) is None:
            raise HaltSignal("gated", {"said": len(agent.messages)})

    def on_resume(self, agent: Any, data: Any) -> Any:
        self.told.append((agent, data, len(agent.messages)))
        agent.set_plugin_state("gate", {"opened": True}, per_invocation=True)
        return self.directs(agent, data)


WHERE = ["hook", "model hook", "model", "call", "batch"]


def in_turn(cases: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Each case in one colour, these by turns."""
    return [
        (*case, colour)
        for case, colour in zip(cases, itertools.cycle(["call", "invoke_async"]), strict=False)
    ]


def nested(payer: Agent, how: str, scripts: Scripts, storage: Storage) -> MultiAgentBase:
    """A team with the agent in it: directly, in a team in it, in a swarm, or as a tool of a member."""
    if how == "swarm":
        return Swarm({"payer": payer}, session_manager=storage.session)
    member: Any = payer
    if how == "team":
        member = Graph({"payer": payer, "beside": scripts.agent("beside", "ready")}, id="inside")
    if how == "tool":
        call = ToolCall("payer", {"input": "pay"})
        member = scripts.agent("boss", [call], "thanks", tools=[payer.as_tool(name="payer")])
    nodes = {"first": scripts.agent("first", "planned"), "member": member}
    return Graph(nodes, [("first", "member")], session_manager=storage.session)


@pytest.mark.parametrize(
    ("where", "how", "either"),
    in_turn(itertools.product(WHERE, ["node", "team", "swarm", "tool"])),
    indirect=["either"],
)
def test_what_halts_a_member_halts_the_team_and_is_resumed_there(
    where: str, how: str, either: TeamDoor, sqlite: Storage
) -> None:
    scripts, till, gates = Scripts(), Till(), [Gate(where) for _ in range(2)]

    def build(number: int) -> tuple[MultiAgentBase, Agent]:
        payer = scripts.agent(
            "payer", [pay("a"), pay("b")], "settled", tools=[till.pay], plugins=[gates[number]]
        )
        return nested(payer, how, scripts, sqlite), payer

    result = either(build(0)[0], "go")
    assert (result.status, result.stop_reason, result.plugin) == (Status.HALTED, "gated", "gate")
    assert (result.data, till.paid) == ({"said": 1 if "model" in where else 2}, [])
    team, payer = build(1)
    done = resumed(team, either, "gate", {"by": "me"})
    assert done.status is Status.COMPLETED and sorted(till.paid) == ["a", "b"]
    assert gates[1].told == [(payer, {"by": "me"}, 1)]
    assert set(scripts.calls.values()) <= {1, 2} and scripts.calls["payer"] == 2
    with pytest.raises(NotHaltedError, match="no turn of it is going on"):
        resumed(build(0)[0], either, "gate")


def test_all_members_that_a_plugin_has_halted_are_asked_and_go_on(
    either: TeamDoor, storage: Storage, scripts: Scripts
) -> None:
    till, gate = Till(), Gate("hook")

    def build() -> Graph:
        agents = {
            name: scripts.agent(name, [pay(name)], "settled", tools=[till.pay], plugins=[gate])
            for name in "ab"
        }
        return Graph(agents, session_manager=storage.session)

    assert len(either(build(), "go").halts) == 2
    team = build()
    assert resumed(team, either, "gate", 1).status is Status.COMPLETED
    assert [told[0] for told in gate.told] == [team.nodes["a"].executor, team.nodes["b"].executor]
    assert sorted(till.paid) == ["a", "b"] and scripts.calls == {"a": 2, "b": 2}


def said(*things: str) -> Any:
    uses = [{"toolUse": {"toolUseId": one, "name": "pay", "input": {"what": one}}} for one in things]
    return {"role": "assistant", "content": uses}


def done(id: str) -> Any:
    return {"toolUseId": id, "status": "success", "content": [{"text": "done elsewhere"}]}


DIRECTIVES: list[Any] = [
    (ResumeDirective(completed_tool_results=[done("a")]), ["b"], 2),
    (ResumeDirective(True, said("a", "b")), ["a", "b"], 2),
    (ResumeDirective(True, said("x", "y", "z"), [done("y")]), ["x", "z"], 2),  # other calls: it begins anew
    (ResumeDirective(True, said("x", "y")), ["x", "y"], 2),
    (ResumeDirective(False), [], 2),
]


@pytest.mark.parametrize(
    ("number", "how", "either"),
    in_turn(itertools.product(range(len(DIRECTIVES)), ["node", "team", "tool"])),
    indirect=["either"],
)
def test_the_directive_is_honoured_in_a_member(
    number: int, how: str, either: TeamDoor, sqlite: Storage
) -> None:
    directive, paid, asked = DIRECTIVES[number]
    scripts, till, gate = Scripts(), Till(), Gate("hook")
    gate.directs = lambda agent, data: directive

    def build() -> MultiAgentBase:
        payer = scripts.agent("payer", [pay("a"), pay("b")], "settled", tools=[till.pay], plugins=[gate])
        return nested(payer, how, scripts, sqlite)

    either(build(), "go")
    result = resumed(build(), either, "gate")
    assert (result.status, sorted(till.paid), scripts.calls["payer"]) == (Status.COMPLETED, paid, asked)
    last = scripts.models["payer"].requests[-1].messages[-1]["content"]
    shown = {block["toolResult"]["toolUseId"]: block["toolResult"]["content"][0]["text"] for block in last}
    for each in directive.completed_tool_results:
        assert shown[each["toolUseId"]] == "done elsewhere"


@pytest.mark.parametrize("how", ["node", "team", "tool"])
def test_shipped_plugins_of_a_member_are_resumed_through_the_team(
    how: str, either: TeamDoor, sqlite: Storage
) -> None:
    """What has no more budget, and what was handed over, is not where the team was called."""
    scripts, till = Scripts(), Till()

    def build() -> MultiAgentBase:
        plugins = [BudgetGuard(max_turns=1), HandOver(["pay"])]
        payer = scripts.agent("payer", [pay("a"), pay("b")], "settled", tools=[till.pay], plugins=plugins)
        return nested(payer, how, scripts, sqlite)

    result = either(build(), "go")
    thread_id = build().thread().id
    assert [(halt.stop_reason, halt.data["thread_id"]) for halt in result.halts] == [
        ("handed_over", thread_id)
    ] * 2
    result = resumed(build(), either, "hand_over", [done("b")])
    assert (result.stop_reason, result.data["exceeded"]) == ("budget_exceeded", ["turns"])
    with pytest.raises(ValueError, match="takes what is granted"):
        resumed(build(), either, "budget_guard", "more")
    result = resumed(build(), either, "budget_guard", {"turns": 1})
    assert (result.status, till.paid, scripts.calls["payer"]) == (Status.COMPLETED, ["a"], 2)


def test_messages_of_a_member_that_its_plugin_changes_are_changed(
    either: TeamDoor, sqlite: Storage, scripts: Scripts
) -> None:
    till, gate = Till(), Gate("hook")

    def change(agent: Any, data: Any) -> None:
        agent.messages[0]["content"] = [{"text": data}]
        agent.state.set("who", data)

    gate.directs = change

    def build() -> MultiAgentBase:
        payer = scripts.agent("payer", [pay("a")], "settled", tools=[till.pay], plugins=[gate])
        return nested(payer, "team", scripts, sqlite)

    either(build(), "go")
    assert resumed(build(), either, "gate", "anew").status is Status.COMPLETED
    assert scripts.models["payer"].requests[-1].messages[0]["content"] == [{"text": "anew"}]


def test_the_plugin_of_the_team_halts_inside_of_a_member(
    either: TeamDoor, sqlite: Storage, scripts: Scripts
) -> None:
    """It is the team's: so are its state and what is resumed."""
    pause = Pause(NodeStreamUpdateEvent)

    def build() -> Graph:
        inside = Graph({"a": scripts.agent("a", "done", "done")}, id="inside")
        return Graph({"team": inside}, plugins=[pause], session_manager=sqlite.session)

    assert either(build(), "go").stop_reason == "paused"
    team = build()
    assert resumed(team, either, "pause").status is Status.COMPLETED
    assert pause.told == [(team, None)] and team.get_plugin_state("pause") == "resumed"


def test_questions_beside_a_halt_are_answered_on_their_own(either: TeamDoor, scripts: Scripts) -> None:
    def ask(task: Any) -> str:
        return f"told {interrupt('what?')}"

    team = Graph({"ask": ask, "a": scripts.agent("a", "done")}, plugins=[Pause(BeforeNodeCallEvent, "a")])
    result = either(team, "go")
    assert (result.status, len(result.interrupts), len(result.halts)) == (Status.HALTED, 1, 1)
    assert statuses(result) == {"ask": "interrupted", "a": "halted"}
    with pytest.raises(InvalidPromptError):
        either(team, "another")
    result = either(team, [response(result.interrupts[0], "this")])
    assert (result.status, statuses(result)) == (Status.HALTED, {"ask": "completed", "a": "halted"})
    assert str(resumed(team, either, "pause")) == "ask: told this\na: done"


def test_a_new_task_leaves_what_was_halted(either: TeamDoor, scripts: Scripts) -> None:
    pause = Pause(BeforeNodeCallEvent)
    team = Graph({"a": scripts.agent("a", "done")}, plugins=[pause])
    assert either(team, "go").status is Status.HALTED
    team.set_plugin_state("pause", "resumed")
    assert (either(team, "another").status, team.halts) == (Status.COMPLETED, [])
    assert scripts.prompt("a") == ["another"]


def test_no_answer_passes_a_halt(either: TeamDoor, scripts: Scripts) -> None:
    team = Graph({"a": scripts.agent("a", "done")}, plugins=[Pause(BeforeNodeCallEvent)])
    either(team, "go")
    (halted,) = team.thread().snapshot.interrupts
    wrong: list[Any] = [[response(halted, True)], Command(resume={halted.id: "y"}), Command(resume="y")]
    for answer in wrong:
        with pytest.raises(InvalidResponseError, match="stays open"):
            either(team, answer)
    assert either(team).stop_reason == "paused" and scripts.calls == {}


def test_an_agent_resumes_what_an_agent_that_is_its_tool_was_halted_by(
    either: TeamDoor, sqlite: Storage, scripts: Scripts
) -> None:
    till, gate = Till(), Gate("call")

    def build() -> Agent:
        payer = scripts.agent("payer", [pay("a")], "settled", tools=[till.pay], plugins=[gate])
        call = ToolCall("payer", {"input": "pay"})
        tools = [payer.as_tool(name="payer")]
        return scripts.agent("boss", [call], "thanks", tools=tools, session_manager=sqlite.session)

    result: Any = either(build(), "go")
    assert (result.stop_reason, result.plugin, till.paid) == ("gated", "gate", [])
    result = resumed(build(), either, "gate")
    assert (result.stop_reason, till.paid, scripts.calls) == ("end_turn", ["a"], {"boss": 2, "payer": 2})


# --- State ----------------------------------------------------------------------------------------------


class Counter(MultiAgentPlugin):
    """Counts the nodes of a thread, and of a turn."""

    name = "counter"

    @hook
    def count(self, event: AfterNodeCallEvent) -> None:
        for per_invocation in (False, True):
            state = event.source.get_plugin_state(self.name, per_invocation=per_invocation) or []
            event.source.set_plugin_state(self.name, [*state, event.node_id], per_invocation=per_invocation)


def test_state_is_kept_with_the_thread_and_a_part_of_it_with_the_turn(
    either: TeamDoor, storage: Storage, scripts: Scripts
) -> None:
    seen: list[Any] = []

    def see(event: AfterMultiAgentInvocationEvent) -> None:
        seen.append(event.source.get_plugin_state("counter", per_invocation=True))

    def ask(task: Any) -> str:
        return str(interrupt("what?"))

    def build() -> Graph:
        nodes = {"a": scripts.agent("a", "one", "two"), "b": ask}
        edges = [("a", "b")]
        return Graph(nodes, edges, plugins=[Counter()], hooks=[see], session_manager=storage.session)

    for turn in (1, 2):
        asked = either(build(), "go")
        assert build().get_plugin_state("counter", per_invocation=True) == ["a"]
        either(build(), answers(asked))
        assert build().get_plugin_state("counter") == ["a", "b"] * turn
        assert build().get_plugin_state("counter", per_invocation=True) is None
    assert seen == [["a"], ["a", "b"]] * 2


def test_after_a_crash_the_state_is_what_the_nodes_that_were_recorded_have_set(
    either: TeamDoor, storage: Storage
) -> None:
    alive: list[Any] = []

    def die(task: Any) -> str:
        alive.append(task)
        if len(alive) == 1:
            time.sleep(0.1)  # the others are recorded while it runs
            raise KeyboardInterrupt  # as a process that dies: nothing comes to rest
        return "alive"

    def build() -> Graph:
        nodes = {"a": lambda task: "a", "b": lambda task: "b", "die": die}
        return Graph(nodes, plugins=[Counter()], session_manager=storage.session)

    with pytest.raises(KeyboardInterrupt):
        build()("go")
    before = build().get_plugin_state("counter")
    assert sorted(before) == ["a", "b"]
    either(build())
    assert build().get_plugin_state("counter") == [*before, "die"]


def test_each_thread_has_its_own_state(either: TeamDoor, scripts: Scripts) -> None:
    team = Graph({"a": scripts.agent("a", "one", "two", "three")}, plugins=[Counter()])
    for thread_id in ("x", "x", "y"):
        either(team, "go", thread_id=thread_id)
    states = [team.thread(thread_id).get_plugin_state("counter") for thread_id in "xyz"]
    assert states == [["a", "a"], ["a"], None]


def test_state_that_is_set_between_turns_is_stored_by_the_next_one(
    either: TeamDoor, sqlite: Storage, scripts: Scripts
) -> None:
    def build() -> Graph:
        nodes = {"a": scripts.agent("a", "one", "two")}
        return Graph(nodes, plugins=[Counter()], session_manager=sqlite.session)

    team = build()
    team.set_plugin_state("counter", ["set"])
    assert (team.get_plugin_state("counter"), build().get_plugin_state("counter")) == (["set"], None)
    either(team, "go")
    assert build().get_plugin_state("counter") == ["set", "a"]
    with pytest.raises(RuntimeError, match="while no turn of thread"):
        team.set_plugin_state("counter", [], per_invocation=True)
    with pytest.raises(InvalidPromptError):
        either(team, object())
    with pytest.raises(UnknownPluginError, match=r"no plugin 'x'; there are \['counter'\]"):
        team.set_plugin_state("x", 1)
    with pytest.raises(UnserializableStateError, match="'counter'"):
        team.set_plugin_state("counter", object())


@pytest.mark.parametrize("how", ["member", "tool"])
def test_state_that_is_set_between_turns_is_of_the_teams_own_thread(how: str, scripts: Scripts) -> None:
    team = Graph({"a": scripts.agent("a", "one", "two")}, plugins=[Counter()], id="inside")
    team.set_plugin_state("counter", ["set"])
    around: Any = Graph({"team": team})
    if how == "tool":
        around = scripts.agent("boss", [ToolCall("inside", {"input": "go"})], "thanks", tools=[team])
    around("go")
    assert team.get_plugin_state("counter") == ["set"]
    team("go")
    assert team.get_plugin_state("counter") == ["set", "a"]


def test_a_declared_type_comes_back(either: TeamDoor, scripts: Scripts) -> None:
    typed = Counter()
    typed.state_type = list[str]
    team = Graph({"a": scripts.agent("a", "one")}, plugins=[typed])
    either(team, "go")
    assert team.get_plugin_state("counter") == ["a"]
    with pytest.raises(ValueError, match="no state of plugin 'counter'"):
        team.set_plugin_state("counter", 3)
    typed.state_type = 3
    with pytest.raises(TypeError, match="no state can be made"):
        Graph({"a": scripts.agent("a")}, plugins=[typed])


class Everywhere(Plugin):
    """Halts a team and an agent, each until it is resumed."""

    name = "everywhere"

    @hook
    def before_node(self, event: BeforeNodeCallEvent) -> HaltSignal | None:
        return self._halt(event.source, "team")

    @hook
    def before_tool(self, event: BeforeToolCallEvent) -> HaltSignal | None:
        return self._halt(event.agent, "agent")

    def _halt(self, host: Any, kind: str) -> HaltSignal | None:
        return None if host.get_plugin_state(self.name, per_invocation=True) else HaltSignal(kind)

    def on_resume(self, agent: Any, data: Any) -> None:
        agent.set_plugin_state(self.name, [data], per_invocation=True)


def test_one_plugin_serves_a_team_and_its_agents(either: TeamDoor, scripts: Scripts) -> None:
    till, plugin = Till(), Everywhere()
    payer = scripts.agent("payer", [pay("a")], "settled", tools=[till.pay], plugins=[plugin])
    team = Graph({"payer": payer}, plugins=[plugin])
    assert either(team, "go").stop_reason == "team"
    assert resumed(team, either, "everywhere", 1).stop_reason == "agent"
    assert team.get_plugin_state("everywhere", per_invocation=True) == [1]
    assert (resumed(team, either, "everywhere", 2).status, till.paid) == (Status.COMPLETED, ["a"])


def test_a_team_without_plugins_pays_nothing(scripts: Scripts) -> None:
    """No generator of theirs is entered, nor anything for each node."""
    modules = [
        sys.modules[f"graphkit_prebuilt.{name}"].__file__
        for name in ("plugins", "plugin_state", "plugin_pieces", "halting")
    ]
    places = [str(each) for each in modules]

    def row(*names: str) -> Graph:
        nodes = {name: scripts.agent(name, *["done"] * 5) for name in names}
        return Graph(nodes, list(itertools.pairwise(names)))

    short, long = row("a", "b"), row("a", "b", "c", "d")
    assert frames(lambda: short("go"), *places, flag=inspect.CO_GENERATOR) == {}
    assert not frames(lambda: short("go"), *places).keys() & {"end_turn", "settle", "unsettled", "pieces"}
    long("go")
    one, more = frames(lambda: short("go"), *places), frames(lambda: long("go"), *places)
    added = {name: count for name, count in (more - one).items() if name != "<listcomp>"}
    # Two agents more: what each came to is looked at once.
    assert added == {"halts_in": 2, "questions_in": 2}


# --- What goes wrong ------------------------------------------------------------------------------------


class Broken(Exception):
    pass


WRONG: list[Any] = [
    ("raises", Broken, "no", "raised by on_resume of plugin 'pause'; the thread stays halted"),
    ("a wrong thing", InvalidDirectiveError, "'no', which is no ResumeDirective", None),
    ("halts", HaltedTwiceError, "on_resume of plugin 'pause' halts", None),
    ("returns a halt", HaltedTwiceError, "on_resume of plugin 'pause' halts", None),
    ("skips the model", InvalidDirectiveError, "calls no model", None),
    ("names results", InvalidDirectiveError, "calls no model", None),
    ("names halts", InvalidDirectiveError, "whose halts are", None),
]


@pytest.mark.parametrize(
    ("what", "error", "match", "note", "either"),
    in_turn(WRONG),
    ids=[each[0] for each in WRONG],
    indirect=["either"],
)
def test_a_resume_that_goes_wrong_is_named_and_the_thread_stays_halted(
    what: str, error: Any, match: str, note: str | None, either: TeamDoor, sqlite: Storage, scripts: Scripts
) -> None:
    def wrong(host: Any, data: Any) -> Any:
        if what == "raises":
            raise Broken("no")
        if what == "halts":
            raise HaltSignal("again")
        return {
            "a wrong thing": "no",
            "returns a halt": HaltSignal("again"),
            "skips the model": ResumeDirective(True),
            "names results": ResumeDirective(completed_tool_results=[done("nobody")]),
            "names halts": ResumeDirective(halts=[Halt("x", id="y")]),
        }[what]

    def build(directs: Any) -> Graph:
        pause = Pause(BeforeNodeCallEvent)
        pause.directs = directs
        return Graph({"a": scripts.agent("a", "done")}, plugins=[pause], session_manager=sqlite.session)

    either(build(wrong), "go")
    team = build(wrong)
    with pytest.raises(error, match=match) as caught:
        resumed(team, either, "pause")
    assert note is None or note in caught.value.__notes__
    assert team.get_plugin_state("pause") is None and either(team).stop_reason == "paused"
    assert (scripts.calls, resumed(build(lambda *_: None), either, "pause").status) == ({}, Status.COMPLETED)


WRONG_IN_A_MEMBER: list[Any] = [
    (ResumeDirective(completed_tool_results=[done("nobody")]), "calls that do not exist: 'nobody'"),
    (ResumeDirective(True, {"role": "user", "content": []}), "no message of the assistant"),
    (ResumeDirective(skip_model_call="x"), "neither True nor False"),  # type: ignore[arg-type]
    ("x", "no ResumeDirective"),
]


@pytest.mark.parametrize(
    ("directive", "match", "either"),
    in_turn(WRONG_IN_A_MEMBER),
    ids=range(len(WRONG_IN_A_MEMBER)),
    indirect=["either"],
)
def test_a_wrong_directive_for_a_member_is_named_and_the_thread_stays_halted(
    directive: Any, match: str, either: TeamDoor, sqlite: Storage, scripts: Scripts
) -> None:
    till, gate = Till(), Gate("hook")
    given = [directive, None]
    gate.directs = lambda agent, data: given.pop(0)

    def build() -> MultiAgentBase:
        payer = scripts.agent("payer", [pay("a")], "settled", tools=[till.pay], plugins=[gate])
        return nested(payer, "team", scripts, sqlite)

    either(build(), "go")
    with pytest.raises(InvalidDirectiveError, match=match):
        resumed(build(), either, "gate")
    assert either(build()).stop_reason == "gated"  # also what on_resume had set is as before
    assert (resumed(build(), either, "gate").status, till.paid) == (Status.COMPLETED, ["a"])


@pytest.mark.parametrize("inside", [False, True], ids=["its own", "a member's"])
def test_a_plugin_that_has_gone_is_an_error_and_the_thread_waits_for_it(
    inside: bool, either: TeamDoor, sqlite: Storage, scripts: Scripts
) -> None:
    def build(has: bool) -> Graph:
        gates: Any = [Gate("model hook")] if inside and has else []
        pauses: Any = [Pause(BeforeNodeCallEvent)] if not inside and has else []
        nodes = {"a": scripts.agent("a", "done", plugins=gates)}
        return Graph(nodes, plugins=pauses, session_manager=sqlite.session)

    name = either(build(True), "go").plugin
    with pytest.raises(
        UnknownPluginError, match=rf"halted by plugin '{name}', which this \w+.* does not have"
    ):
        resumed(build(False), either, name)
    assert (resumed(build(True), either, name).status, scripts.calls) == (Status.COMPLETED, {"a": 1})


def test_what_was_never_halted_is_not_resumed_and_what_was_only_once(
    either: TeamDoor, scripts: Scripts
) -> None:
    team = Graph({"a": scripts.agent("a", "done")}, plugins=[Pause(BeforeNodeCallEvent), Counter()])
    with pytest.raises(NotHaltedError, match="no turn of it is going on"):
        resumed(team, either, "pause")
    either(team, "go")
    with pytest.raises(NotHaltedError, match=r"plugin 'counter' has not halted .*: it was halted by 'pause'"):
        resumed(team, either, "counter")
    with pytest.raises(NotHaltedError, match="nothing outside of plugins"):
        resumed(team, either)
    assert resumed(team, either, "pause").status is Status.COMPLETED
    with pytest.raises(NotHaltedError, match="no turn of it is going on"):
        resumed(team, either, "pause")
    assert scripts.calls == {"a": 1}


def test_nothing_is_resumed_while_a_turn_runs(either: TeamDoor, scripts: Scripts) -> None:
    raised: list[BaseException] = []

    def resume(event: BeforeNodeCallEvent) -> None:
        try:
            event.source.resume("counter")
        except ConcurrencyException as error:
            raised.append(error)

    team = Graph({"a": scripts.agent("a", "done")}, plugins=[Counter()], hooks=[resume])
    assert either(team, "go").status is Status.COMPLETED and len(raised) == 1


def test_its_own_thread_is_resumed_while_it_runs_inside_of_something(scripts: Scripts) -> None:
    signals, ended = [HaltSignal("paused", plugin="named")], list[str]()

    class Named(Plugin):
        name = "named"

        @hook
        def check(self, event: BeforeModelCallEvent) -> HaltSignal | None:
            if signals:
                return signals.pop()
            if not ended:
                ended.append("inside")
                with ThreadPoolExecutor(1) as another_caller:
                    ended.append(another_caller.submit(agent.resume, "named").result().stop_reason)
            return None

    agent = scripts.agent("a", "one", "two", plugins=[Named()])
    assert agent("go").stop_reason == "paused"
    assert Graph({"a": agent})("go").status is Status.COMPLETED
    assert (ended, agent.halts) == (["inside", "end_turn"], [])


@pytest.mark.parametrize("how", ["node", "team", "tool"])
def test_two_resumes_at_once_run_it_once(
    how: str, either: TeamDoor, sqlite: Storage, scripts: Scripts
) -> None:
    till, gate = Till(), Gate("call")

    def build() -> MultiAgentBase:
        payer = scripts.agent("payer", [pay("a")], "settled", tools=[till.pay], plugins=[gate])
        return nested(payer, how, scripts, sqlite)

    def resume_in_time(agent: Any, data: Any) -> None:
        """Between what the first resume has seen and what it stores, the second one runs to its end."""
        if data == "first":
            assert build().resume("gate", "second").status is Status.COMPLETED

    either(build(), "go")
    gate.directs = resume_in_time
    with suppress(ValueError, KeyError):
        resumed(build(), either, "gate", "first")
    assert (till.paid, scripts.calls["payer"], build().halts) == (["a"], 2, [])


def test_a_halt_for_good_is_not_resumed(either: TeamDoor, scripts: Scripts) -> None:
    def stop(event: BeforeNodeCallEvent) -> HaltSignal | None:
        is_last = str(event.state.task) == "go"
        return HaltSignal("over", resumable=False) if is_last else None

    team = Graph({"a": scripts.agent("a", "done")}, hooks=[stop])
    result = either(team, "go")
    assert (result.stop_reason, result.resumable) == ("over", False)
    with pytest.raises(NotHaltedError, match="halted for good"):
        resumed(team, either)
    assert either(team, "another").status is Status.COMPLETED


@pytest.mark.parametrize("event_type", [AfterMultiAgentInvocationEvent, MultiAgentResultEvent])
def test_a_halt_inside_a_halt_is_an_error_and_the_first_one_stays(
    event_type: Any, either: TeamDoor, scripts: Scripts
) -> None:
    twice = [True]

    def halt_again(event: Any) -> HaltSignal | None:
        return HaltSignal("second") if twice and event.result.halts else None

    team = Graph({"a": scripts.agent("a", "done")}, plugins=[Pause(BeforeNodeCallEvent)])
    team.add_hook(halt_again, event_type)
    with pytest.raises(HaltedTwiceError, match=r"'second'.*'paused', plugin 'pause'"):
        either(team, "go")
    assert [halt.stop_reason for halt in team.halts] == ["paused"]
    twice.clear()
    assert resumed(team, either, "pause").status is Status.COMPLETED


def test_data_that_cannot_be_stored_is_refused_where_it_was_given(either: TeamDoor, scripts: Scripts) -> None:
    def stop(event: BeforeNodeCallEvent) -> None:
        raise HaltSignal("over", object())

    team = Graph({"a": scripts.agent("a", "done")}, hooks=[stop])
    with pytest.raises(UnserializableStateError, match=r"halts \('over'\) with data that cannot be stored"):
        either(team, "go")


@pytest.mark.parametrize("how", ["raised", "returned"])
def test_what_does_not_run_yet_cannot_be_halted(how: str, scripts: Scripts) -> None:
    signal = HaltSignal("early")

    class Early(MultiAgentPlugin):
        name = "early"

        def init_multi_agent(self, orchestrator: Any) -> Any:
            if how == "raised":
                raise signal
            return signal

    def stop(event: MultiAgentInitializedEvent) -> Any:
        if how == "raised":
            raise signal
        return signal

    with pytest.raises(RuntimeError, match=r"plugin 'early' halts \('early'\)"):
        Graph({"a": scripts.agent("a")}, plugins=[Early()])
    with pytest.raises(RuntimeError, match=r"halts \('early'\)"):
        Graph({"a": scripts.agent("a")}, hooks=[stop])


def test_an_agent_that_is_called_directly_as_a_tool_cannot_halt(scripts: Scripts) -> None:
    halting = scripts.agent("a", "done", plugins=[Gate("model hook")])
    boss = scripts.agent("boss", tools=[halting.as_tool(name="a")])
    with pytest.raises(RuntimeError, match="nobody would resume"):
        boss.tool.a(input="go")


class Raising(MultiAgentPlugin):
    """Raises in one of its methods."""

    name = "raising"

    def __init__(self, where: str) -> None:
        self.where = where

    def _maybe(self, where: str) -> None:
        if self.where == where:
            raise Broken(where)

    def init_multi_agent(self, orchestrator: Any) -> None:
        self._maybe("init_multi_agent")

    @hook
    def before(self, event: BeforeNodeCallEvent) -> None:
        self._maybe("before")


def test_what_a_plugin_raises_says_where_it_comes_from_and_the_turn_goes_on(
    either: TeamDoor, sqlite: Storage, scripts: Scripts
) -> None:
    def build(where: str) -> Graph:
        nodes = {"a": scripts.agent("a", "done")}
        return Graph(nodes, plugins=[Raising(where)], session_manager=sqlite.session)

    with pytest.raises(Broken) as caught:
        build("init_multi_agent")
    assert caught.value.__notes__ == ["raised by init_multi_agent of plugin 'raising'"]
    with pytest.raises(Broken) as caught:
        either(build("before"), "go")
    assert "a callback of BeforeNodeCallEvent" in caught.value.__notes__[0]
    assert (either(build("")).status, scripts.calls) == (Status.COMPLETED, {"a": 1})
