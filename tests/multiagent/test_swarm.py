"""Agents that hand a task over to each other: who is next, what it is told, and when the turn ends."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.errors import InvalidPromptError
from graphkit.hooks import (
    AfterModelCallEvent,
    AfterToolCallEvent,
    BeforeMultiAgentInvocationEvent,
    BeforeNodeCallEvent,
    BeforeToolCallEvent,
    HookableEvent,
    MultiAgentHandoffEvent,
    NodeStreamUpdateEvent,
)
from graphkit.models import ScriptedModel, ToolCall
from graphkit.multiagent import GraphBuilder, Status, Swarm
from tests.multiagent.teams import Scripts, Storage, TeamDoor, answers, order, statuses


def to(name: Any, message: Any = "go on", **context: Any) -> ToolCall:
    """A call that hands over."""
    given = {"agent_name": name, "message": message}
    return ToolCall("handoff_to_agent", {**given, "context": context} if context else given)


def errors(model: ScriptedModel, call: int = -1) -> list[str]:
    """The error results that a model was given last."""
    blocks = model.requests[call].messages[-1]["content"]
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    return [result["content"][0]["text"] for result in results if result["status"] == "error"]


# --- Handing over -----------------------------------------------------------------------------------------


def test_agents_hand_over_until_one_does_not(door: TeamDoor, scripts: Scripts) -> None:
    swarm = Swarm(
        [
            scripts.agent("a", [to("b", "look at line 3", line=3)], "a has looked", name="a"),
            scripts.agent(
                "b", [to("c", "check it", fix="x")], "b has fixed it", name="b", description="Fixes."
            ),
            scripts.agent("c", "c is content", name="c"),
        ]
    )
    result = door(swarm, "mend it")
    assert result.status is Status.COMPLETED
    assert order(result) == [node.node_id for node in result.node_history] == ["a", "b", "c"]
    assert statuses(result) == dict.fromkeys("abc", "completed")
    assert str(result) == "a: a has looked\nb: b has fixed it\nc: c is content"
    assert result.execution_count == 3
    assert result.accumulated_usage["totalTokens"] == sum(scripts.calls.values()) * 15
    assert result.results["c"].result.message["content"] == [{"text": "c is content"}]
    assert scripts.calls == {"a": 2, "b": 2, "c": 1}


def test_what_each_is_told(scripts: Scripts) -> None:
    swarm = Swarm(
        [
            scripts.agent("a", [to("b", "look at line 3", line=3)], "ok", [to("c")], "ok", name="a"),
            scripts.agent(
                "b", [to("a", "back to you", why="not mine")], "ok", name="b", description="Fixes."
            ),
            scripts.agent("c", "done", name="c"),
        ]
    )
    swarm("mend it")
    [first] = scripts.prompt("a")
    assert "mend it" in first and "- b: Fixes." in first and "- c" in first and "- a" not in first
    [second] = scripts.prompt("b")
    assert second.index("look at line 3") < second.index("mend it") < second.index("{'line': 3}")
    [third] = scripts.prompt("c")
    assert "a (2 times), b" in third and "- a: {'line': 3}" in third and "- b: {'why': 'not mine'}" in third
    assert "handoff_to_agent" in first and "go on" in third


def test_where_a_turn_stands_as_strands_says_it(door: TeamDoor, scripts: Scripts) -> None:
    seen: list[Any] = []

    def look(event: BeforeNodeCallEvent) -> None:
        state = event.source.state
        assert event.node_id == state.current_node.node_id
        seen.append(
            (
                [node.node_id for node in state.node_history],
                state.completion_status.value,
                state.shared_context.context,
                event.source.shared_context.context,
            )
        )

    a = scripts.agent("a", [to("b", line=3)], "ok", name="a")
    b = scripts.agent("b", [to("c", fix={"x": 1})], "ok", name="b")
    swarm = Swarm([b, a, scripts.agent("c", "done", name="c")], entry_point=a, hooks=[look])
    door(swarm, "mend it", thread_id="elsewhere")
    known: list[Any] = [{}, {"a": {"line": 3}}, {"a": {"line": 3}, "b": {"fix": {"x": 1}}}]
    assert seen == [
        ([], "executing", known[0], known[0]),
        (["a"], "executing", known[1], known[1]),
        (["a", "b"], "executing", known[2], known[2]),
    ]
    assert swarm.shared_context.context == {}  # of its own thread
    state: Any = swarm.thread("elsewhere").state
    assert (state.current_node.node_id, state.completion_status) == ("c", Status.COMPLETED)
    assert state.shared_context.context == known[2]


def test_a_task_of_several_blocks_follows_the_text(scripts: Scripts) -> None:
    swarm = Swarm([scripts.agent("a", "seen", name="a")])
    image: Any = {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}
    swarm([{"text": "what is this?"}, image])
    blocks = scripts.models["a"].requests[0].messages[0]["content"]
    assert blocks[1:] == [{"text": "what is this?"}, image]
    assert "The other agents" not in blocks[0]["text"]


def test_every_execution_begins_with_what_the_agent_was_made_with(scripts: Scripts) -> None:
    beginning: Any = [{"role": "user", "content": [{"text": "before"}]}]
    a = scripts.agent("a", [to("b")], "x", "the end", "again", name="a", messages=beginning)
    swarm = Swarm([a, scripts.agent("b", [to("a")], "y", name="b")])
    swarm("first")
    swarm("second")
    requests = scripts.models["a"].requests
    assert [len(request.messages) for request in requests] == [2, 4, 2, 2]
    assert a.messages == beginning  # its own conversation is another one
    assert "handoff_to_agent" not in a.tool_names


# --- Several handoffs in one turn -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "turns",
    [
        [[to("b", "first", x=1), to("c", "second", y=2)]],
        [[to("b", "first", x=1)], [to("c", "second", y=2)]],
        [[to("c", "zero", y=0), to("b", "first", x=1), to("c", "second", y=2), to("d")]],
    ],
)
def test_the_last_one_asked_for_counts_and_all_is_shared(either: TeamDoor, turns: Any) -> None:
    scripts = Scripts()
    a = scripts.agent("a", *turns, "done", name="a")
    swarm = Swarm([a, scripts.agent("b", "no", name="b"), scripts.agent("c", "yes", name="c")])
    result = either(swarm, "go")
    assert order(result) == ["a", "c"]
    [told] = scripts.prompt("c")
    assert ("second" in told and "- a: {'y': 2, 'x': 1}" in told) or "- a: {'x': 1, 'y': 2}" in told


def test_the_order_of_calls_counts_not_that_of_their_ends(scripts: Scripts) -> None:
    ends: list[str] = []

    async def run() -> Any:
        second_has_ended = asyncio.Event()

        async def delay(event: AfterToolCallEvent) -> None:
            target = event.tool_use["input"]["agent_name"]
            if target == "b":
                await asyncio.wait_for(second_has_ended.wait(), 10)
            ends.append(target)
            second_has_ended.set()

        a = scripts.agent("a", [to("b"), to("c")], "x", name="a", hooks=[delay])
        members = [a, scripts.agent("b", "no", name="b"), scripts.agent("c", "yes", name="c")]
        return await Swarm(members).invoke_async("go")

    assert order(asyncio.run(run())) == ["a", "c"]
    assert ends == ["c", "b"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (to("nobody"), "there is no agent 'nobody'; the others are: b"),
        (to("a"), "you are 'a' yourself"),
        (to("b", ""), "must say what"),
        (to("b", 3), "must say what"),
        (to(None), "there is no agent None"),
        (ToolCall("handoff_to_agent", {"agent_name": "b", "message": "m", "context": "x"}), "'context'"),
        (ToolCall("handoff_to_agent", {"agent_name": "b", "message": "m", "context": {" ": 1}}), "'context'"),
        (ToolCall("handoff_to_agent", {}), "there is no agent"),
    ],
)
def test_a_handoff_that_cannot_be_is_an_error_for_the_model(
    either: TeamDoor, scripts: Scripts, call: ToolCall, told: str
) -> None:
    swarm = Swarm(
        [scripts.agent("a", [call], "then I do it", name="a"), scripts.agent("b", "never", name="b")]
    )
    result = either(swarm, "go")
    assert result.status is Status.COMPLETED and order(result) == ["a"]
    [error] = errors(scripts.models["a"])
    assert told in error


def test_what_hooks_leave_of_a_handoff_counts(scripts: Scripts) -> None:
    def change(event: BeforeToolCallEvent) -> None:
        if event.tool_use["input"]["agent_name"] == "b":
            event.tool_use["input"]["agent_name"] = "c"
        else:
            event.cancel_tool = "not him"

    a = scripts.agent("a", [to("b"), to("d")], "x", name="a", hooks=[change])
    members = [a, *(scripts.agent(name, "yes", name=name) for name in "bcd")]
    assert order(Swarm(members)("go")) == ["a", "c"]


# --- Limits -----------------------------------------------------------------------------------------------


def ring(scripts: Scripts, names: str = "ab", **options: Any) -> Swarm:
    """Agents that hand over in a circle and never end."""
    agents = []
    for name, following in zip(names, names[1:] + names[0], strict=True):
        model = ScriptedModel([[to(following)], "ok"], repeat=True)
        scripts.models[name] = model
        agents.append(scripts.agent(name, name=name))
    return Swarm(agents, **options)


@pytest.mark.parametrize(
    ("options", "executed", "reason"),
    [
        ({}, 20, "max_iterations reached: 20"),
        ({"max_handoffs": 3}, 4, "max_handoffs reached: 3"),
        ({"max_handoffs": 0}, 1, "max_handoffs reached: 0"),
        ({"max_iterations": 5}, 5, "max_iterations reached: 5"),
        (
            {"repetitive_handoff_detection_window": 6, "repetitive_handoff_min_unique_agents": 3},
            6,
            "only 2 different nodes in the last 6",
        ),
    ],
)
def test_a_limit_ends_the_turn_with_a_result(
    either: TeamDoor, scripts: Scripts, options: Any, executed: int, reason: str
) -> None:
    result = either(ring(scripts, **options), "go")
    assert result.status is Status.FAILED and reason in result.reason
    assert len(result.execution_order) == executed
    assert statuses(result) == dict.fromkeys("ab"[:executed], "completed")


def test_handoffs_that_are_various_enough_go_on(scripts: Scripts) -> None:
    window = {"repetitive_handoff_detection_window": 4, "repetitive_handoff_min_unique_agents": 3}
    result = ring(scripts, "abc", max_iterations=9, **window)("go")
    assert result.reason == "max_iterations reached: 9"


@pytest.mark.parametrize("limit", ["node_timeout", "execution_timeout"])
def test_an_agent_that_takes_too_long_ends_the_turn(either: TeamDoor, scripts: Scripts, limit: str) -> None:
    released = threading.Event()
    options: Any = {limit: 0.2}

    @tool
    def wait() -> str:
        """Wait."""
        released.wait(30)
        return "late"

    a = scripts.agent("a", [to("b")], "a is done", name="a")
    b = scripts.agent("b", [ToolCall("wait", {})], "never", name="b", tools=[wait])
    try:
        result = either(Swarm([a, b], **options), "go")
    finally:
        released.set()
    assert result.status is Status.FAILED and result.reason
    assert statuses(result) == {"a": "completed", "b": "failed"}
    assert scripts.calls == {"a": 2, "b": 1}


# --- Questions --------------------------------------------------------------------------------------------


class Team:
    """A swarm of three; `again` makes it anew, as another process would. b hands over and works, which is asked for."""

    def __init__(self, storage: Storage, hooks: Sequence[Any] = ()) -> None:
        self.storage, self.hooks = storage, hooks
        self.scripts = Scripts()
        self.done: list[str] = []

    def swarm(self) -> Swarm:
        @tool
        def work() -> str:
            """Work."""
            self.done.append("work")
            return "worked"

        def ask(event: BeforeToolCallEvent) -> None:
            if event.tool_use["name"] == "work" and event.interrupt("sure", reason="work?") != "y":
                event.cancel_tool = "no"

        scripts = self.scripts
        calls = [to("c", "all yours", found="it"), ToolCall("work", {})]
        return Swarm(
            [
                scripts.agent("a", [to("b")], "a is done", name="a"),
                scripts.agent("b", calls, "b is done", name="b", tools=[work], hooks=[ask]),
                scripts.agent("c", "c is done", name="c"),
            ],
            hooks=self.hooks,
            session_manager=self.storage.session,
        )


def test_a_question_in_an_agent_keeps_its_handoff(either: TeamDoor, storage: Storage) -> None:
    team = Team(storage)
    asked = either(team.swarm(), "go")
    assert asked.status is Status.INTERRUPTED
    assert [(question.name, question.reason) for question in asked.interrupts] == [("sure", "work?")]
    assert statuses(asked) == {"a": "completed", "b": "interrupted"}
    assert team.scripts.calls == {"a": 2, "b": 1} and not team.done

    result = either(team.swarm(), answers(asked))
    assert result.status is Status.COMPLETED and order(result) == ["a", "b", "c"]
    assert team.scripts.calls == {"a": 2, "b": 2, "c": 1} and team.done == ["work"]
    [told] = team.scripts.prompt("c")
    assert "all yours" in told and "{'found': 'it'}" in told
    assert result.accumulated_usage["totalTokens"] == 5 * 15
    assert team.swarm().thread().result.status is Status.COMPLETED


class Approval:
    """Asks before the nodes of these names."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def register_hooks(self, registry: Any) -> None:
        registry.add_callback(BeforeNodeCallEvent, self.approve)

    def approve(self, event: BeforeNodeCallEvent) -> None:
        if event.node_id in self.names and event.interrupt("approval", reason=event.node_id) != "y":
            event.cancel_node = f"{event.node_id} was denied"


def test_a_question_before_each_node(either: TeamDoor, storage: Storage) -> None:
    team = Team(storage, [Approval("a", "b", "c")])
    result = either(team.swarm(), "go")
    asked = []
    while result.status is Status.INTERRUPTED:
        asked += [(question.name, question.reason) for question in result.interrupts]
        result = either(team.swarm(), answers(result))
    assert asked == [("approval", "a"), ("approval", "b"), ("sure", "work?"), ("approval", "c")]
    assert order(result) == ["a", "b", "c"]
    assert team.scripts.calls == {"a": 2, "b": 2, "c": 1}


def test_a_node_that_is_denied_has_a_result_and_the_turn_ends(either: TeamDoor, storage: Storage) -> None:
    team = Team(storage, [Approval("b")])
    result = either(team.swarm(), answers(either(team.swarm(), "go"), "n"))
    assert statuses(result) == {"a": "completed", "b": "cancelled"}
    assert result.results["b"].result.message["content"] == [{"text": "b was denied"}]
    assert team.scripts.calls == {"a": 2} and result.status is not Status.INTERRUPTED


def test_hooks_of_one_event_may_all_ask(scripts: Scripts) -> None:
    def two(event: BeforeNodeCallEvent) -> None:
        event.interrupt("one")
        event.interrupt("two")

    def three(event: BeforeNodeCallEvent) -> None:
        event.interrupt("three")

    swarm = Swarm([scripts.agent("a", "done", name="a")], hooks=[two, three])
    names = []
    result = swarm("go")
    while result.status is Status.INTERRUPTED:
        names.append([question.name for question in result.interrupts])
        result = swarm(answers(result))
    assert names == [["one", "three"], ["two"]]
    assert scripts.calls == {"a": 1}


def test_a_new_task_while_a_question_is_open_is_refused(storage: Storage) -> None:
    team = Team(storage)
    asked = team.swarm()("go")
    with pytest.raises(InvalidPromptError, match=asked.interrupts[0].id):
        team.swarm()("something else")
    assert team.swarm()(None).interrupts == asked.interrupts
    assert team.scripts.calls == {"a": 2, "b": 1}


# --- Failing ----------------------------------------------------------------------------------------------


def test_an_agent_that_fails_goes_on_where_it_was(either: TeamDoor, storage: Storage) -> None:
    scripts = Scripts()
    broken = [RuntimeError("no line")]

    def answer(request: Any) -> Any:
        if broken:
            raise broken.pop()
        return "b is done"

    def swarm() -> Swarm:
        return Swarm(
            [
                scripts.agent("a", [to("b")], "a is done", name="a"),
                scripts.agent("b", [to("c")], answer, answer, name="b"),
                scripts.agent("c", "c is done", name="c"),
            ],
            session_manager=storage.session,
        )

    with pytest.raises(RuntimeError, match="no line"):
        either(swarm(), "go")
    failed = swarm().thread().state
    assert {key: result.status for key, result in failed.results.items()} == {
        "a": Status.COMPLETED,
        "b": Status.FAILED,
    }
    result = either(swarm(), None)
    assert order(result) == ["a", "b", "c"] and result.status is Status.COMPLETED
    assert scripts.calls == {"a": 2, "b": 3, "c": 1}


# --- Teams in teams ---------------------------------------------------------------------------------------


def test_a_graph_inside_a_swarm_inside_a_graph(either: TeamDoor, storage: Storage) -> None:
    scripts = Scripts()
    done: list[str] = []

    def whole() -> Any:
        @tool
        def work() -> str:
            """Work."""
            done.append("work")
            return "worked"

        def ask(event: BeforeToolCallEvent) -> None:
            event.interrupt("sure")

        inner = GraphBuilder()
        worker = scripts.agent("worker", [ToolCall("work", {})], "worked", tools=[work], hooks=[ask])
        inner.add_node(worker, "worker")
        inner.add_node(scripts.agent("beside", "beside"), "beside")
        inner.set_entry_point("worker")
        inner.set_entry_point("beside")
        swarm = Swarm(
            {"chief": scripts.agent("chief", [to("crew")], "chief is done"), "crew": inner.build()},
            hooks=[Approval("crew")],
        )
        outer = GraphBuilder()
        outer.add_node(scripts.agent("first", "first"), "first")
        outer.add_node(swarm, "swarm")
        outer.add_node(scripts.agent("last", "last"), "last")
        outer.add_edge("first", "swarm")
        outer.add_edge("swarm", "last")
        outer.set_entry_point("first")
        outer.set_session_manager(storage.session)
        return outer.build()

    result = either(whole(), "go")
    asked = []
    while result.status is Status.INTERRUPTED:
        assert statuses(result) == {"first": "completed", "swarm": "interrupted"}
        asked += [question.name for question in result.interrupts]
        result = either(whole(), answers(result))
    assert asked == ["approval", "sure"]
    assert result.status is Status.COMPLETED and order(result) == ["first", "swarm", "last"]
    assert done == ["work"]
    assert scripts.calls == {"first": 1, "chief": 2, "worker": 2, "beside": 1, "last": 1}
    assert result.accumulated_usage["totalTokens"] == 7 * 15


# --- Events and what is shared ----------------------------------------------------------------------------


def test_the_events_of_a_turn_in_order(scripts: Scripts) -> None:
    heard: list[Any] = []

    class All:
        def register_hooks(self, registry: Any) -> None:
            registry.add_callback(HookableEvent, heard.append)

    swarm = Swarm(
        [scripts.agent("a", [to("b", "yours")], "x", name="a"), scripts.agent("b", "y", name="b")],
        hooks=[All()],
    )
    shown = list(swarm.stream("go"))
    names = [type(event).__name__ for event in heard if not isinstance(event, NodeStreamUpdateEvent)]
    node = ["BeforeNodeCallEvent", "AfterNodeCallEvent", "NodeResultEvent"]
    assert names == [
        "MultiAgentInitializedEvent",
        "BeforeMultiAgentInvocationEvent",
        *node,
        "MultiAgentHandoffEvent",
        *node,
        "AfterMultiAgentInvocationEvent",
        "MultiAgentResultEvent",
    ]
    assert shown == heard[1:]
    [handoff] = [event for event in heard if isinstance(event, MultiAgentHandoffEvent)]
    assert (handoff.sources, handoff.targets, handoff.message) == (["a"], ["b"], "yours")
    assert {type(event.source).__name__ for event in heard} == {"Swarm"}
    assert {event.source for event in heard} == {swarm}


def test_the_invocation_state_is_one_object_for_all(door: TeamDoor, scripts: Scripts) -> None:
    seen: list[Any] = []

    def see(event: Any) -> None:
        seen.append(event.invocation_state)

    agents = [scripts.agent("a", [to("b")], "x", name="a"), scripts.agent("b", "y", name="b")]
    for agent in agents:
        agent.add_hook(see, AfterModelCallEvent)
    swarm = Swarm(agents)
    swarm.add_hook(see, [BeforeMultiAgentInvocationEvent, BeforeNodeCallEvent])
    given = {"connection": object()}
    result = door(swarm, "go", invocation_state=given)
    assert len(seen) == 6 and all(each is given for each in seen)
    assert result.invocation_state is given


def test_one_swarm_serves_many_threads_at_the_same_time() -> None:
    a = Agent(ScriptedModel([[to("b")], "a"], per_thread=True), name="a", callback_handler=None)
    b = Agent(
        ScriptedModel([lambda request: request.messages[0]["content"][0]["text"]], per_thread=True),
        name="b",
        callback_handler=None,
    )
    swarm = Swarm([a, b])
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: swarm(f"task {number}.", thread_id=f"t{number}"), range(24)))
    for number, result in enumerate(results):
        assert f"task {number}." in str(result.results["b"])


def test_looking_back_and_answering_otherwise(storage: Storage) -> None:
    """Fork from where a question was open, and answer it differently: what was there before does not run again."""
    team = Team(storage)
    swarm = team.swarm()
    swarm(answers(swarm("go")))
    config = swarm.thread().config
    history = list(swarm.graph.get_state_history(config))
    at_b = next(snapshot for snapshot in history if snapshot.next == ("b",))
    calls = dict(team.scripts.calls)
    team.scripts.models["b"].turns += [[to("c", "other"), ToolCall("work", {})], "b again"]
    team.scripts.models["c"].turns += ["c again"]
    swarm.graph.invoke(None, at_b.config)
    open_now = swarm.interrupts
    assert [question.name for question in open_now] == ["sure"]
    result = swarm([{"interruptResponse": {"interruptId": open_now[0].id, "response": "n"}}])
    assert order(result) == ["a", "b", "c"] and str(result.results["c"]) == "c again\n"
    assert team.scripts.calls == {**calls, "b": calls["b"] + 2, "c": calls["c"] + 1}
    assert team.done == ["work"]  # of the first answer alone


# --- Bad input --------------------------------------------------------------------------------------------


def named(name: str, **options: Any) -> Agent:
    return Agent(ScriptedModel(["x"]), name=name, callback_handler=None, **options)


HANDOFF = tool(name="handoff_to_agent", description="Mine.")(lambda: "x")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Swarm([]), "needs a list of agents"),
        (lambda: Swarm(named("a")), "needs a list of agents"),  # type: ignore[arg-type]
        (lambda: Swarm([named("a"), named("a")]), "a node 'a' already"),
        (lambda: Swarm([one := named("a"), one]), "is node 'a' already"),
        (lambda: Swarm({"a": (one := named("a")), "b": one}), "node 'a' already, and cannot be 'b' too"),
        (lambda: Swarm([named("a")], entry_point="b"), "entry point 'b' is none of the nodes: a"),
        (lambda: Swarm([named("a")], entry_point=named("b")), "entry point 'b' is none of the nodes: a"),
        (lambda: Swarm([named("a", tools=[HANDOFF])]), "agent 'a' has a tool 'handoff_to_agent'"),
        (lambda: Swarm([named("a|b")]), "'a|b'"),
        (lambda: Swarm([named("a")], max_handoffs=-1), "max_handoffs"),
        (lambda: Swarm([named("a")], max_iterations=0), "max_iterations"),
        (lambda: Swarm([named("a")], max_iterations=True), "max_iterations"),
        (lambda: Swarm([named("a")], repetitive_handoff_detection_window=1.5), "window"),  # type: ignore[arg-type]
        (lambda: Swarm([named("a")], node_timeout=0), "node_timeout"),
    ],
)
def test_what_cannot_be_a_swarm(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(ValueError, match=told.replace("|", r"\|")):
        make()


def test_a_function_is_no_member() -> None:
    with pytest.raises(TypeError, match="not functions"):
        Swarm([lambda text: "x"])


@pytest.mark.parametrize("entry", ["b", None])
def test_who_begins(entry: str | None) -> None:
    agents = [named("a"), named("b")]
    assert order(Swarm(agents, entry_point=entry)("go")) == [entry or "a"]
    assert order(Swarm([named("a"), last := named("b")], entry_point=last)("go")) == ["b"]


def test_agents_without_names_have_ids_of_their_own() -> None:
    agents = [Agent(ScriptedModel(["x"]), callback_handler=None, **given) for given in ({}, {"id": "x"})]  # type: ignore[arg-type]
    assert list(Swarm(agents).nodes) == ["node_0", "x"]
