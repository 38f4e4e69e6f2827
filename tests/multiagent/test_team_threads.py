"""Threads and sessions of an orchestrator: many at a time, in another process, and every superstep to look at, to fork
from and to answer otherwise."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphkit import Agent, AgentResult, tool
from graphkit.errors import InvalidPromptError
from graphkit.hooks import BeforeModelCallEvent, BeforeNodeCallEvent, MultiAgentResultEvent
from graphkit.models import ScriptedModel, ToolCall
from graphkit.multiagent import Graph, GraphBuilder, MultiAgentResult, Status
from graphkit.multiagent.base import NodeResult
from graphkit.plugins import HaltSignal, MultiAgentPlugin, hook
from graphkit.session import FileSessionManager
from graphkit.types import Command, interrupt
from graphkit.types.tools import ToolContext
from tests.conftest import Runner, response
from tests.multiagent.teams import Scripts, Storage, TeamDoor, answers, order, statuses


def test_one_orchestrator_serves_many_threads_at_the_same_time(either: TeamDoor) -> None:
    """N13: agents, questions and results of different threads do not mix."""

    def ask(event: BeforeNodeCallEvent) -> None:
        if event.node_id == "b":
            event.interrupt("ok", reason=str(event.state.task))

    agents = {name: Agent(ScriptedModel([name], repeat=True), callback_handler=None) for name in "ab"}
    team = Graph(agents, [("a", "b")], hooks=[ask])
    names = [f"thread {number}" for number in range(6)]

    def work(name: str) -> Any:
        asked = either(team, f"task of {name}", thread_id=name)
        assert [question.reason for question in asked.interrupts] == [f"task of {name}"]
        return either(team, answers(asked), thread_id=name)

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(work, names))
    assert [order(result) for result in results] == [["a", "b"]] * 6
    assert [team.thread(name).state.task for name in names] == [f"task of {name}" for name in names]


def test_threads_of_one_loop(scripts: Scripts) -> None:
    async def wait(task: Any) -> str:
        await asyncio.sleep(0)
        return str(task[0]["text"])

    team = Graph({"a": wait})

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(
            *(team.invoke_async(f"task {number}", thread_id=f"t{number}") for number in range(8))
        )

    results = asyncio.run(all_of_them())
    assert [str(result) for result in results] == [f"a: task {number}" for number in range(8)]


@pytest.mark.parametrize("call", ["call", "invoke", "invoke_async", "stream", "astream", "stream_async"])
def test_a_thread_has_the_same_calls(call: str) -> None:
    """A handle is as good as `thread_id=`: the task, and what is shared with the nodes, arrive on that thread."""

    def told(task: Any, invocation_state: dict[str, Any]) -> str:
        return f"{task[0]['text']} for {invocation_state['user']}"

    async def shown(stream: Any) -> Any:
        return [each async for each in stream][-1]

    team = Graph({"a": told})
    thread = team.thread("other")
    for number in (1, 2):
        task, state = f"task {number}", {"user": "ada"}
        if call in ("call", "invoke"):
            result = (thread if call == "call" else thread.invoke)(task, state)
        elif call == "invoke_async":
            result = asyncio.run(thread.invoke_async(task, state))
        elif call == "stream":
            result = next(
                e.result for e in thread.stream(task, state) if isinstance(e, MultiAgentResultEvent)
            )
        elif call == "astream":
            result = asyncio.run(shown(thread.astream(task, state))).result
        else:
            result = asyncio.run(shown(thread.stream_async(task, state)))["result"]
        assert str(result) == str(thread.result) == f"a: task {number} for ada"
    assert (thread.state.task, team.state.task) == ("task 2", "")


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_thread_is_resumed(colour: str) -> None:
    class Pause(MultiAgentPlugin):
        name = "pause"

        @hook
        def halt(self, event: BeforeNodeCallEvent) -> None:
            if event.source.get_plugin_state("pause") is None:
                raise HaltSignal("waiting")

        def on_resume(self, orchestrator: Any, data: Any) -> None:
            orchestrator.set_plugin_state("pause", data)

    team = Graph({"a": lambda task: "done"}, plugins=[Pause()])
    thread = team.thread("other")
    assert thread("go").stop_reason == "waiting"
    resumed = thread.resume("pause", 7) if colour == "sync" else asyncio.run(thread.resume_async("pause", 7))
    assert (resumed.status, str(resumed)) == (Status.COMPLETED, "a: done")


def test_a_result_is_plain_data_and_made_of_it_again(either: TeamDoor, scripts: Scripts) -> None:
    def ask(task: Any) -> str:
        return f"told {interrupt('what?', name='which')}"

    team = Graph({"a": scripts.agent("a", "one"), "ask": ask}, [("a", "ask")])
    asked = either(team, "go")
    for result in (asked, either(team, answers(asked, "this"))):
        again = MultiAgentResult.from_dict(json.loads(json.dumps(result.to_dict())))
        assert (str(again), again.status) == (str(result), result.status)
        assert statuses(again) == statuses(result)
        assert [one.id for one in again.interrupts] == [one.id for one in result.interrupts]
        assert again.accumulated_usage == result.accumulated_usage
        assert (list(again.halts), list(result.halts)) == ([], [])
    for kind, data in (
        (MultiAgentResult, {"type": "agent_result"}),
        (NodeResult, {}),
        (NodeResult, {"result": 3}),
    ):
        with pytest.raises(TypeError, match=r"from_dict\(\) was given"):
            kind.from_dict(data)


def test_a_result_keeps_its_halts_as_plain_data(scripts: Scripts) -> None:
    def halt(event: Any) -> HaltSignal:
        return HaltSignal("waiting", {"for": "Ada"}, resumable=False, plugin="pause")

    agent = scripts.agent("a", "one")
    agent.add_hook(halt, BeforeModelCallEvent)
    halted = Graph({"a": agent})("go")
    again = MultiAgentResult.from_dict(json.loads(json.dumps(halted.to_dict())))
    assert list(again.halts) == list(halted.halts) != []
    assert (again.stop_reason, again.data, again.plugin) == ("waiting", {"for": "Ada"}, "pause")
    inner, given = again.results["a"].result, halted.results["a"].result
    assert isinstance(inner, AgentResult) and isinstance(given, AgentResult)
    assert list(inner.halts) == list(given.halts) and inner.data == {"for": "Ada"}


def test_bytes_in_a_result_are_plain_data_and_come_back() -> None:
    image: Any = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    odd: Any = {"__bytes__": "no bytes", "more": {"__bytes__": "bm9uZQ=="}}
    call: Any = {
        "toolUse": {"toolUseId": "t", "name": "look", "input": {"__bytes__": odd, "odd": [odd["more"]]}}
    }
    result = AgentResult("end_turn", {"role": "assistant", "content": [image, {"text": "there"}, call]})
    again = AgentResult.from_dict(json.loads(json.dumps(result.to_dict())))
    assert (again.message, again.stop_reason) == (result.message, "end_turn")


def test_orchestrators_share_a_session_by_their_ids(tmp_path: Any, scripts: Scripts) -> None:
    def build(id: str) -> Graph:
        builder = GraphBuilder().set_graph_id(id).set_session_manager(FileSessionManager("s", tmp_path))
        builder.add_node(scripts.agent(id, f"{id} one", f"{id} two"), "a")
        return builder.build()

    build("x")("go")
    build("y")("go")
    build("x")("go on")
    assert [len(request.messages) for request in scripts.models["x"].requests] == [1, 3]
    assert [str(build(id).thread().result) for id in "xy"] == ["a: x two", "a: y one"]


def test_a_thread_shows_what_it_holds(either: TeamDoor, storage: Storage, scripts: Scripts) -> None:
    def ask(task: Any) -> str:
        return f"told {interrupt('what?')}"

    def build() -> Graph:
        nodes = {"a": scripts.agent("a", "one"), "ask": ask}
        return Graph(nodes, [("a", "ask")], session_manager=storage.session)

    asked = either(build(), "go")
    thread = build().thread()
    assert thread.interrupts == asked.interrupts and build().interrupts == asked.interrupts
    assert thread.result.status is Status.INTERRUPTED
    assert statuses(thread.result) == {"a": "completed", "ask": "interrupted"}
    assert (thread.state.task, thread.state.status) == ("go", Status.INTERRUPTED)
    done = either(build(), answers(asked, "this"))
    shown = build().thread().result
    assert str(shown) == str(done) == "a: one\nask: told this"
    assert (shown.accumulated_usage, shown.status) == (done.accumulated_usage, done.status)
    thread.delete()
    assert build().thread().interrupts == [] and build().state.results == {}


def test_a_thread_says_how_its_last_turn_stands(either: TeamDoor, storage: Storage) -> None:
    """Also in another process, and as its result would say it."""
    seen: list[Status] = []

    def fail(task: Any) -> str:
        seen.append(build().state.status)
        if len(seen) == 1:
            raise OSError("no line")
        return "done"

    def build() -> Graph:
        return Graph({"a": fail}, session_manager=storage.session)

    team = build()
    assert team.state.status is Status.PENDING
    with pytest.raises(OSError, match="no line"):
        either(team, "go")
    for each in (team, build()):
        assert each.state.status is each.thread().result.status is Status.FAILED
        assert [node.node_id for node in each.state.failed_nodes] == ["a"]
    either(team)
    assert build().state.status is Status.COMPLETED


def test_conversations_of_members_are_seen_from_the_graph(either: TeamDoor, scripts: Scripts) -> None:
    inside = Graph({"deep": scripts.agent("deep", "found")}, id="inside")
    team = Graph({"a": scripts.agent("a", "one"), "team": inside}, [("a", "team")])
    either(team, "go")
    config = team.thread().config
    namespaces = team.saver.namespaces(team.thread().id, "")
    deep = next(name for name in namespaces if "|" in name)
    place: Any = {"configurable": {**config["configurable"], "checkpoint_ns": deep}}
    messages = team.graph.get_state(place).values["messages"]
    assert messages[-1]["content"] == [{"text": "found"}]


class Team:
    """Three agents in a row, the second of which pays by what it is told."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.paid: list[Any] = []
        self.models = {
            "first": ScriptedModel(["planned"], per_thread=True),
            "payer": ScriptedModel([[ToolCall("pay", {})], "settled"], per_thread=True),
            "last": ScriptedModel(["thanked"], per_thread=True),
        }

    def build(self) -> Graph:
        paid = self.paid

        @tool(context=True)
        def pay(tool_context: ToolContext) -> str:
            """Pay."""
            paid.append(tool_context.interrupt("how"))
            return f"by {paid[-1]}"

        agents = {
            name: Agent(model, callback_handler=None, tools=[pay] if name == "payer" else [])
            for name, model in self.models.items()
        }
        edges = [("first", "payer"), ("payer", "last")]
        return Graph(agents, edges, session_manager=self.storage.session)

    @property
    def calls(self) -> list[int]:
        return [len(model.requests) for model in self.models.values()]


def test_a_turn_is_run_again_with_another_answer(either: TeamDoor, storage: Storage) -> None:
    """Time travel over a whole team: from the superstep in which it asked, everything before stays."""
    made = Team(storage)
    either(made.build(), answers(either(made.build(), "go"), "card"))
    assert (made.paid, made.calls) == (["card"], [1, 2, 1])
    team = made.build()
    history = list(team.graph.get_state_history(team.thread().config))
    at = next(snapshot for snapshot in history if snapshot.next == ("payer",))
    assert [question.name for question in at.interrupts] == ["how"]
    assert list(at.values["results"]) == ["first"]

    again = team.graph.run(None, at.config)
    [question] = again.interrupts
    assert question.id != at.interrupts[0].id
    result = either(made.build(), [response(question, "cash")])
    assert result.status is Status.COMPLETED
    assert order(result) == ["first", "payer", "last"]
    assert made.paid == ["card", "cash"]
    assert made.calls[0] == 1 and made.calls[2] == 2


def test_a_conversation_is_looked_for_only_after_a_fork(storage: Storage, monkeypatch: Any) -> None:
    """A member goes on with its conversation: the one that the thread has behind it."""
    made = Team(storage)
    saver = storage.session.saver
    looked: list[str] = []
    find = type(saver).find_on_way

    def finds(self: Any, thread_id: str, namespace: str, *at: str) -> Any:
        looked.append(namespace.partition(":")[0])
        return find(self, thread_id, namespace, *at)

    monkeypatch.setattr(type(saver), "find_on_way", finds)
    for model in made.models.values():
        model.turns = ["one", "two", "three", "four"]
    for task in ("go", "go on"):
        made.build()(task)
    assert looked == []
    assert [len(request.messages) for request in made.models["last"].requests] == [1, 3]

    team = made.build()
    history = list(team.graph.get_state_history(team.thread().config))
    first_turn = next(point for point in reversed(history) if point.next == ("last",))
    team.graph.run(None, first_turn.config)
    assert looked == ["last"]
    assert len(made.models["last"].requests[-1].messages) == 1
    made.build()("and on")
    assert looked == ["last", "first", "payer"]
    assert [len(made.models[name].requests[-1].messages) for name in made.models] == [3, 3, 3]


@pytest.mark.parametrize("storage", ["live", "sqlite"], indirect=True)
def test_a_fork_before_the_first_visit_begins_with_what_the_member_was_made_with(
    either: TeamDoor, storage: Storage, scripts: Scripts
) -> None:
    known: Any = [{"role": "user", "content": [{"text": "known"}]}]
    seen: list[Any] = []

    def see(event: BeforeModelCallEvent) -> None:
        seen.append(event.agent.state.get("colour"))
        event.agent.state.set("colour", "red")

    def build() -> Graph:
        last = scripts.agent(
            "last", "one", "two", "three", messages=known, state={"colour": "blue"}, hooks=[see]
        )
        nodes = {"first": scripts.agent("first", "ready", "ready again"), "last": last}
        return Graph(nodes, [("first", "last")], session_manager=storage.session)

    either(build(), "go")
    team = build()
    history = list(team.graph.get_state_history(team.thread().config))
    before = next(point for point in history if point.next == ("last",))
    team.graph.run(None, before.config)
    either(build(), "go on")
    told = [
        [block["text"] for message in each.messages for block in message["content"]]
        for each in scripts.models["last"].requests
    ]
    assert told[0] == told[1] and told[0][0] == "known"
    assert told[2][: len(told[0])] == told[0] and told[2].count("known") == 1
    assert seen == ["blue", "blue", "red"]


def test_a_superstep_is_changed_and_gone_on_with(either: TeamDoor, storage: Storage) -> None:
    """What a node came to is another in a fork, and those after it run on that."""
    made = Team(storage)
    either(made.build(), answers(either(made.build(), "go"), "card"))
    team = made.build()
    history = list(team.graph.get_state_history(team.thread().config))
    at = next(snapshot for snapshot in history if snapshot.next == ("last",))
    changed = {**at.values["results"]["payer"]}
    changed["result"] = {
        **changed["result"],
        "message": {"role": "assistant", "content": [{"text": "later"}]},
    }
    ended = team.graph.run(Command(update={"results": {"payer": changed}}), at.config)
    assert ended.status == "completed"
    assert made.models["last"].requests[-1].messages[-1]["content"][-1]["text"] == "  - Agent: later\n"
    assert made.calls == [1, 2, 2]


def test_a_breakpoint_stops_before_a_member(storage: Storage, scripts: Scripts) -> None:
    team = Graph(
        {"a": scripts.agent("a", "one"), "b": scripts.agent("b", "two")},
        [("a", "b")],
        session_manager=storage.session,
    )
    config = team.thread().config
    paused = team.graph.run({"task": "go"}, config, interrupt_before=["b"])
    assert (paused.status, paused.next, scripts.calls) == ("paused", ("b",), {"a": 1})
    result = team()
    assert order(result) == ["a", "b"]
    assert scripts.calls == {"a": 1, "b": 1}


def test_its_graph_is_run_with_a_task(runner: Runner, storage: Storage, scripts: Scripts) -> None:
    members = {"a": scripts.agent("a", "one", "two"), "b": scripts.agent("b", "uno", "due")}
    team = Graph(members, [("a", "b")], session_manager=storage.session)
    config = team.thread().config
    with pytest.raises(InvalidPromptError, match="'task'"):
        runner.invoke(team.graph, {}, config)
    assert scripts.calls == {}
    for task in ("go", [{"text": "again"}]):
        runner.invoke(team.graph, {"task": task}, config)
        result = team.thread().result
        assert (result.status, order(result), team.state.task) == (Status.COMPLETED, ["a", "b"], task)
    assert str(result.results["b"]) == "due\n" and "again" in scripts.prompt("b", 1)
