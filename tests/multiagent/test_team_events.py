"""The events of an orchestrator: which fire, in which order, with what, and that streams show what hooks hear."""

import asyncio
from typing import Any

import pytest

from graphkit import Plugin, tool
from graphkit.hooks import (
    AfterMultiAgentInvocationEvent,
    AfterNodeCallEvent,
    BaseHookEvent,
    BeforeMultiAgentInvocationEvent,
    BeforeNodeCallEvent,
    BeforeToolCallEvent,
    HookEvent,
    HookProvider,
    HookRegistry,
    InterruptEvent,
    MultiAgentEvent,
    MultiAgentHandoffEvent,
    MultiAgentInitializedEvent,
    MultiAgentResultEvent,
    NodeCancelEvent,
    NodeEvent,
    NodeResultEvent,
    NodeStreamUpdateEvent,
)
from graphkit.models import ToolCall
from graphkit.multiagent import Graph, MultiAgentState, Status
from graphkit.plugins import hook
from graphkit.types.tools import ToolContext
from tests.agents.conftest import agent_of
from tests.multiagent.teams import Scripts, TeamDoor, answers, statuses

PYTHON = (
    BeforeMultiAgentInvocationEvent,
    BeforeNodeCallEvent,
    AfterNodeCallEvent,
    AfterMultiAgentInvocationEvent,
)
"""The events of the diagram for Python; that for TypeScript has all."""


def told(events: list[BaseHookEvent]) -> list[str]:
    """The events by name, with their node; those from inside a node once, however many there are."""
    found: list[str] = []
    for event in events:
        name = type(event).__name__.removesuffix("Event")
        shown = f"{name} {event.node_id}" if isinstance(event, NodeEvent) else name
        if not (isinstance(event, NodeStreamUpdateEvent) and found[-1] == shown):
            found.append(shown)
    return found


def in_a_row() -> Graph:
    return Graph({"a": agent_of("one"), "b": agent_of("two")}, [("a", "b")])


def test_the_order_of_the_python_diagram(door: TeamDoor) -> None:
    """S101."""
    team, heard = in_a_row(), list[BaseHookEvent]()
    team.add_hook(heard.append, list(PYTHON))
    door(team, "go")
    assert told(heard) == [
        "BeforeMultiAgentInvocation",
        "BeforeNodeCall a",
        "AfterNodeCall a",
        "BeforeNodeCall b",
        "AfterNodeCall b",
        "AfterMultiAgentInvocation",
    ]


ALL = [
    "BeforeMultiAgentInvocation",
    "BeforeNodeCall a",
    "NodeStreamUpdate a",
    "AfterNodeCall a",
    "NodeResult a",
    "MultiAgentHandoff",
    "BeforeNodeCall b",
    "NodeStreamUpdate b",
    "AfterNodeCall b",
    "NodeResult b",
    "AfterMultiAgentInvocation",
    "MultiAgentResult",
]


def test_the_order_of_the_typescript_diagram(door: TeamDoor) -> None:
    """S101."""
    team, heard = in_a_row(), list[BaseHookEvent]()
    team.add_hook(heard.append, MultiAgentEvent)
    door(team, "go")
    assert told(heard) == ALL


def test_a_stream_shows_what_a_hook_of_all_events_hears() -> None:
    """S98: the very same objects."""
    team, heard = in_a_row(), list[BaseHookEvent]()
    team.add_hook(heard.append, BaseHookEvent)
    assert list(team.stream("go")) == heard

    async def shown() -> list[BaseHookEvent]:
        return [event async for event in team.astream("go")]

    team, heard = in_a_row(), list[BaseHookEvent]()
    team.add_hook(heard.append, BaseHookEvent)
    assert asyncio.run(shown()) == heard
    assert told(heard) == ALL


def test_nodes_begin_in_the_order_in_which_they_were_added(door: TeamDoor, scripts: Scripts) -> None:
    names = [f"n{number}" for number in range(5)]
    team, begun = Graph({name: scripts.agent(name, *["x"] * 10) for name in names}), list[str]()
    team.add_hook(lambda event: begun.append(event.node_id), BeforeNodeCallEvent)
    for _ in range(10):
        door(team, "go")
    assert begun == names * 10


def test_what_happens_in_a_node_is_shown_with_its_identity(scripts: Scripts) -> None:
    """S93: an agent's events inside a node, at any depth."""
    agent = scripts.agent("a", "one")
    own: list[Any] = []
    agent.add_hook(own.append, HookEvent)
    inside = Graph({"deep": agent}, id="inside")
    heard = list(Graph({"team": inside}).stream("go"))
    updates = [event for event in heard if isinstance(event, NodeStreamUpdateEvent)]
    assert {event.node_id for event in updates} == {"team"}
    inner = [event.event for event in updates]
    assert {event.source for event in inner if isinstance(event, MultiAgentEvent)} == {inside}
    deepest = [event.event for event in inner if isinstance(event, NodeStreamUpdateEvent)]
    assert deepest == own


def test_dicts_are_those_of_strands() -> None:
    async def shown() -> list[dict[str, Any]]:
        return [each async for each in in_a_row().stream_async("go")]

    found = asyncio.run(shown())
    kinds = [each["type"].removeprefix("multiagent_") for each in found]
    inside = [each["event"] for each in found if each["type"] == "multiagent_node_stream"]
    assert [kind for kind in kinds if kind != "node_stream"] == [
        "node_start",
        "node_stop",
        "handoff",
        "node_start",
        "node_stop",
        "result",
    ]
    assert "".join(each["data"] for each in inside if "data" in each) == "onetwo"
    assert [str(each["result"]) for each in inside if "result" in each] == ["one\n", "two\n"]
    assert found[0] == {"type": "multiagent_node_start", "node_id": "a", "node_type": "agent"}
    [handoff] = [each for each in found if each["type"] == "multiagent_handoff"]
    assert (handoff["from_node_ids"], handoff["to_node_ids"]) == (["a"], ["b"])


def test_what_events_carry(door: TeamDoor) -> None:
    """S126: the orchestrator under both names, the node, the shared state by identity, where the turn stands."""
    team, heard = in_a_row(), list[Any]()
    team.add_hook(heard.append, MultiAgentEvent)
    shared = {"connection": object()}
    result = door(team, "go", invocation_state=shared)
    assert result.invocation_state is shared
    assert all(event.source is team and event.orchestrator is team for event in heard)
    assert all(event.invocation_state is shared for event in heard)
    assert all(isinstance(event.state, MultiAgentState) for event in heard)
    nodes = [event for event in heard if isinstance(event, BeforeNodeCallEvent)]
    assert [(event.node_id, list(event.state.results)) for event in nodes] == [("a", []), ("b", ["a"])]
    assert [event.result.status for event in heard if isinstance(event, NodeResultEvent)] == [
        Status.COMPLETED,
        Status.COMPLETED,
    ]
    [handoff] = [event for event in heard if isinstance(event, MultiAgentHandoffEvent)]
    assert (handoff.sources, handoff.targets) == (["a"], ["b"])
    [last] = [event for event in heard if isinstance(event, MultiAgentResultEvent)]
    assert last.result.status is Status.COMPLETED


def test_hooks_keep_what_they_like_beside_a_turn(door: TeamDoor) -> None:
    """S126: `state.app` goes from node to node and from turn to turn."""
    team = Graph({"a": agent_of("one", "three"), "b": agent_of("two", "four")}, [("a", "b")])

    def note(event: BeforeNodeCallEvent) -> None:
        event.state.app.set("begun", [*(event.state.app.get("begun") or []), event.node_id])

    team.add_hook(note)
    door(team, "go")
    assert team.state.app.get("begun") == ["a", "b"]
    door(team, "go on")
    assert team.state.app.get("begun") == ["a", "b", "a", "b"]


def test_the_invocation_state_is_shared_with_everything_below(either: TeamDoor) -> None:
    """S127: hooks of all levels, tools, functions and orchestrators inside have the very same object."""
    seen: list[Any] = []

    @tool(context=True)
    def look(tool_context: ToolContext) -> str:
        """Look."""
        seen.append(tool_context.invocation_state)
        return "seen"

    def function(task: Any, invocation_state: dict[str, Any]) -> str:
        seen.append(invocation_state)
        return "seen"

    def hear(event: BeforeToolCallEvent | BeforeNodeCallEvent) -> None:
        seen.append(event.invocation_state)

    agent = agent_of([ToolCall("look", {})], "done", tools=[look], hooks=[hear])
    team = Graph({"team": Graph({"a": agent, "f": function}, hooks=[hear], id="inside")}, hooks=[hear])
    shared = {"connection": object()}
    result = either(team, "go", invocation_state=shared)
    inside = result.results["team"].result
    assert inside.invocation_state is shared and inside.results["a"].result.invocation_state is shared
    assert len(seen) == 6 and all(one is shared for one in seen)


def test_keywords_of_a_call_are_part_of_the_invocation_state(either: TeamDoor) -> None:
    """As with agents: what was given as `invocation_state` wins, and is added to in place."""
    given = {"user": "ada"}
    seen: list[dict[str, Any]] = []

    def look(task: Any, invocation_state: dict[str, Any]) -> str:
        seen.append({**invocation_state})
        return "x"

    either(Graph({"a": look}), "go", invocation_state=given, user="bob", ticket=7)
    either(Graph({"a": look}), "go", ticket=8)
    assert seen == [{"user": "ada", "ticket": 7}, {"ticket": 8}]
    assert given == {"user": "ada", "ticket": 7}


def test_only_what_may_be_written_can_be(either: TeamDoor) -> None:
    """S102, S115."""
    refused: list[str] = []

    def write(event: MultiAgentEvent) -> None:
        for name in ("source", "node_id", "state", "invocation_state", "result"):
            with pytest.raises(AttributeError, match="cannot be written"):
                setattr(event, name, None)
        refused.append(type(event).__name__)

    either(Graph({"a": agent_of("one")}, hooks=[write]), "go")
    assert "AfterNodeCallEvent" in refused and len(refused) > 5


@pytest.mark.parametrize("attribute", ["cancel", "cancel_node"])
@pytest.mark.parametrize(
    ("given", "text"), [("not now", "not now"), (True, "The node was cancelled by a hook")]
)
def test_a_hook_cancels_a_node(door: TeamDoor, attribute: str, given: Any, text: str) -> None:
    """S47, S94, N11: it is skipped, and the run goes on."""
    team = Graph(
        {"a": agent_of("one"), "b": agent_of("two"), "c": agent_of("three"), "d": agent_of("four")},
        [("a", "b"), ("b", "c"), ("a", "d")],
    )
    heard: list[NodeCancelEvent] = []
    team.add_hook(heard.append, NodeCancelEvent)

    def skip(event: BeforeNodeCallEvent) -> None:
        if event.node_id == "b":
            setattr(event, attribute, given)

    team.add_hook(skip)
    result = door(team, "go")
    assert result.status is Status.COMPLETED
    assert statuses(result) == {"a": "completed", "b": "cancelled", "d": "completed"}
    assert result.results["b"].result.message == {"role": "assistant", "content": [{"text": text}]}
    assert [(event.node_id, event.message) for event in heard] == [("b", text)]
    assert (result.completed_nodes, result.cancelled_nodes, result.total_nodes) == (2, 1, 4)


def test_callbacks_may_be_async_and_run_in_their_order(either: TeamDoor) -> None:
    """S67, S117-S122 for orchestrators."""
    said: list[str] = []
    team = Graph({"a": agent_of("one")})

    async def waits(event: BeforeNodeCallEvent | AfterNodeCallEvent | MultiAgentInitializedEvent) -> None:
        await asyncio.sleep(0)
        said.append("waits")

    def first(event: BeforeNodeCallEvent | AfterNodeCallEvent) -> None:
        said.append("first")

    team.add_hook(waits)
    team.add_hook(first, order=-1)
    team.hooks.add_callback(BeforeNodeCallEvent, lambda event: said.append("plain"))
    team.hooks.add_callback(AfterNodeCallEvent, lambda event: said.append("plain"))
    either(team, "go")
    assert said == ["first", "waits", "plain", "first", "plain", "waits"]


def test_the_constructor_fires_that_it_is_complete() -> None:
    """S88; what is async is waited for."""
    heard: list[Any] = []

    class Watch(HookProvider):
        def register_hooks(self, registry: HookRegistry) -> None:
            registry.add_callback(MultiAgentInitializedEvent, self.note)
            registry.add_callback(MultiAgentInitializedEvent, heard.append)

        async def note(self, event: MultiAgentInitializedEvent) -> None:
            await asyncio.sleep(0)
            heard.append(list(event.source.nodes))

    team = Graph({"a": agent_of("one")}, hooks=[Watch()])
    assert heard[0] == ["a"] and heard[1].source is team


def test_hooks_of_agents_and_of_the_orchestrator_both_fire(either: TeamDoor) -> None:
    """S130; and a callback of both kinds of events."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    said: list[str] = []

    def hear(event: BeforeToolCallEvent | BeforeNodeCallEvent) -> None:
        said.append(type(event).__name__)

    agent = agent_of([ToolCall("look", {})], "done", tools=[look], hooks=[hear])
    either(Graph({"a": agent}, hooks=[hear]), "go")
    assert said == ["BeforeNodeCallEvent", "BeforeToolCallEvent"]


def test_a_plugin_serves_agents_and_orchestrators(either: TeamDoor) -> None:
    """S129, S155."""

    class Observing(Plugin):
        name = "observing"

        def __init__(self) -> None:
            self.hosts: list[Any] = []
            self.said: list[str] = []

        def init_agent(self, agent: Any) -> None:
            self.hosts.append(agent)

        async def init_multi_agent(self, orchestrator: Any) -> None:
            self.hosts.append(orchestrator)
            orchestrator.add_hook(lambda event: self.said.append("own"), AfterMultiAgentInvocationEvent)

        @hook
        def on_node(self, event: BeforeNodeCallEvent) -> None:
            self.said.append(event.node_id)

    plugin = Observing()
    agent = agent_of("one", plugins=[plugin])
    team = Graph({"a": agent}, plugins=[plugin])
    either(team, "go")
    assert plugin.hosts == [agent, team]
    assert plugin.said == ["a", "own"]
    with pytest.raises(ValueError, match="two plugins"):
        Graph({"a": agent_of("one")}, plugins=[plugin, plugin])
    with pytest.raises(TypeError, match="no MultiAgentPlugin"):
        Graph({"a": agent_of("one")}, plugins=["x"])


def test_what_fires_at_a_pause_and_when_it_goes_on(door: TeamDoor) -> None:
    """A pause is an end of the call: After fires for it, and Before for the one that goes on; not for what is done."""

    def ask(event: BeforeNodeCallEvent) -> None:
        if event.node_id == "b":
            event.interrupt("ok")

    team, heard = in_a_row(), list[BaseHookEvent]()
    team.add_hook(heard.append, [*PYTHON, MultiAgentResultEvent])
    team.add_hook(ask)
    asked = door(team, "go")
    assert told(heard) == [
        "BeforeMultiAgentInvocation",
        "BeforeNodeCall a",
        "AfterNodeCall a",
        "BeforeNodeCall b",
        "AfterMultiAgentInvocation",
        "MultiAgentResult",
    ]
    heard.clear()
    door(team, answers(asked))
    assert told(heard) == [
        "BeforeMultiAgentInvocation",
        "BeforeNodeCall b",
        "AfterNodeCall b",
        "AfterMultiAgentInvocation",
        "MultiAgentResult",
    ]


def test_a_question_below_does_not_fire_again_what_was_heard(door: TeamDoor, scripts: Scripts) -> None:
    """N10: the node goes on where it was."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    def ask(event: BeforeToolCallEvent) -> None:
        event.interrupt("ok")

    agent = scripts.agent("a", [ToolCall("look", {})], "done", tools=[look], hooks=[ask])
    team, heard = Graph({"a": agent}), list[BaseHookEvent]()
    team.add_hook(heard.append, list(PYTHON))
    door(team, answers(door(team, "go")))
    assert told(heard) == [
        "BeforeMultiAgentInvocation",
        "BeforeNodeCall a",
        "AfterMultiAgentInvocation",
        "BeforeMultiAgentInvocation",
        "AfterNodeCall a",
        "AfterMultiAgentInvocation",
    ]


ASKING = [
    BeforeMultiAgentInvocationEvent,
    BeforeNodeCallEvent,
    AfterNodeCallEvent,
    MultiAgentHandoffEvent,
    AfterMultiAgentInvocationEvent,
]


@pytest.mark.parametrize("event_type", ASKING)
def test_every_event_that_may_asks_once(door: TeamDoor, scripts: Scripts, event_type: Any) -> None:
    """N9, S50, S53: all callbacks run and may ask, one after another, and nothing runs twice for it."""
    got: list[Any] = []

    def one(event: Any) -> None:
        if getattr(event, "node_id", "a") == "a":
            got.append((event.interrupt("one"), event.interrupt("then")))

    def other(event: Any) -> None:
        if getattr(event, "node_id", "a") == "a":
            got.append(event.interrupt("other"))

    team = Graph({"a": scripts.agent("a", "one"), "b": scripts.agent("b", "two")}, [("a", "b")])
    team.add_hook(one, event_type)
    team.add_hook(other, event_type)
    first = door(team, "go")
    turned = event_type.should_reverse_callbacks
    assert [question.name for question in first.interrupts] == (
        ["other", "one"] if turned else ["one", "other"]
    )
    second = door(team, answers(first, 1))
    assert [question.name for question in second.interrupts] == ["then"]
    result = door(team, answers(second, 2))
    while result.interrupts:  # the end of a call that goes on is another end
        result = door(team, answers(result, 2))
    assert result.status is Status.COMPLETED
    assert scripts.calls == {"a": 1, "b": 1}
    assert (1, 2) in got and 1 in got


def test_names_are_one_question_each_for_an_event(scripts: Scripts) -> None:
    """S15, S53: the same name twice on one event is an error, on two nodes it is two questions."""

    def ask(event: BeforeNodeCallEvent) -> None:
        event.interrupt("ok")

    team = Graph({"a": scripts.agent("a", "one"), "b": scripts.agent("b", "two")}, hooks=[ask])
    asked = team("go")
    assert [(question.name, question.path) for question in asked.interrupts] == [
        ("ok", ("a",)),
        ("ok", ("b",)),
    ]
    assert len({question.id for question in asked.interrupts}) == 2
    with pytest.raises(ValueError, match="'ok'"):
        Graph({"a": scripts.agent("a", "one")}, hooks=[ask, ask])("go")


def test_events_that_only_show_cannot_ask(scripts: Scripts) -> None:
    for event_type in (NodeStreamUpdateEvent, NodeResultEvent, NodeCancelEvent, MultiAgentResultEvent):
        assert not hasattr(event_type, "interrupt")


def test_interrupts_are_collected_from_inside(scripts: Scripts) -> None:
    """S144: a hook of the orchestrator sees the agent's `InterruptEvent`s."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    def ask(event: BeforeToolCallEvent) -> None:
        event.interrupt("ok", reason="look?")

    agent = scripts.agent("a", [ToolCall("look", {})], "done", tools=[look], hooks=[ask])
    found: list[Any] = []

    def collect(event: NodeStreamUpdateEvent) -> None:
        if isinstance(event.event, InterruptEvent):
            found.append((event.node_id, event.event.interrupt))

    team = Graph({"a": agent}, hooks=[collect])
    asked = team("go")
    assert found == [("a", asked.interrupts[0])]


def test_an_orchestrator_that_nobody_hears_makes_no_events(
    monkeypatch: pytest.MonkeyPatch, either: TeamDoor
) -> None:
    made: list[str] = []
    monkeypatch.setattr(
        MultiAgentEvent, "__post_init__", lambda event: made.append(type(event).__name__), raising=False
    )
    team = in_a_row()
    made.clear()
    either(team, "go")
    assert made == []
