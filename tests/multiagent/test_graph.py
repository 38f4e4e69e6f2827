"""`Graph`: who runs when, what each is given, and the ways of making one."""

from collections.abc import Callable
from typing import Any, assert_type

import pytest

from graphkit import Agent
from graphkit.hooks import AfterNodeCallEvent, BeforeNodeCallEvent
from graphkit.multiagent import Graph, GraphBuilder, GraphResult, MultiAgentState, Status, Swarm, SwarmResult
from graphkit.multiagent.graph import GraphEdge, GraphNode
from graphkit.plugins import MultiAgentPlugin
from graphkit.types import Command, Send
from graphkit_prebuilt.models.scripted import Turn
from tests.agents.conftest import agent_of
from tests.multiagent.teams import Scripts, TeamDoor, order, statuses


def says(word: str) -> Callable[[Any], str]:
    def say(task: Any) -> str:
        return word

    return say


def built(names: str, *edges: Any, all_of: str = "", entries: str = "", **limits: Any) -> Graph:
    """A graph of functions that say their names; those in `all_of` wait for all of their sources."""
    builder = GraphBuilder()
    for name in names:
        builder.add_node(says(name), name, join="all" if name in all_of else "any")
    for edge in edges:
        builder.add_edge(*edge)
    for name in entries:
        builder.set_entry_point(name)
    return builder.set_max_node_executions(limits.get("most", 50)).build()


def no(state: MultiAgentState) -> bool:
    return False


def test_a_turn_of_each_kind_has_a_result_of_its_type(scripts: Scripts) -> None:
    result = built("x")("go")
    assert_type(result, GraphResult)
    assert result.total_nodes == 1
    found = Swarm([scripts.agent("a", "done")])("go")
    assert_type(found, SwarmResult)
    assert len(found.node_history) == 1


def test_a_graph_of_nodes_and_edges_as_strands_has_them(door: TeamDoor) -> None:
    one, two, three = (GraphNode(node_id=name, executor=says(name)) for name in "abc")
    closed = GraphEdge(from_node=one, to_node=three, condition=no)
    team = Graph(
        nodes={"a": one, "b": two, "c": three},
        edges={closed, GraphEdge(from_node=one, to_node=two), GraphEdge("b", "c")},
        entry_points={one},
    )
    assert order(door(team, "go")) == ["a", "b", "c"]
    assert [(edge.from_node, edge.to_node) for edge in team.edges] == [(one, two), (one, three), (two, three)]
    assert order(door(Graph([one, two], [(one, two)]), "go")) == ["a", "b"]
    with pytest.raises(TypeError, match="is no agent, function or orchestrator"):
        GraphNode("d", 5)


def test_nodes_follow_edges_and_stand_in_the_order_in_which_they_were_added(door: TeamDoor) -> None:
    result = door(built("zyxw", "zx", "zy", "xw", "yw"), "go")
    assert result.status is Status.COMPLETED
    assert order(result) == ["z", "y", "x", "w"]
    assert list(result.results) == ["z", "y", "x", "w"]
    assert str(result) == "z: z\ny: y\nx: x\nw: w"
    assert [node.node_id for node in result.entry_points] == ["z"]
    assert [(one.node_id, other.node_id) for one, other in result.edges] == [
        *map(tuple, ["zx", "zy", "xw", "yw"])
    ]


def test_any_runs_for_each_step_in_which_a_source_ended_and_all_once(either: TeamDoor) -> None:
    """N11: a -> b -> d, a -> d."""
    edges = ("ab", "bd", "ad")
    assert order(either(built("abd", *edges), "go")) == ["a", "b", "d", "d"]
    assert order(either(built("abd", *edges, all_of="d"), "go")) == ["a", "b", "d"]


@pytest.mark.parametrize("condition", [lambda state: True, no])
def test_all_does_not_wait_for_what_cannot_run(either: TeamDoor, condition: Any) -> None:
    """a -> b (perhaps) -> c -> e, a -> d -> e: e waits for c and d, and not for c if b is not entered."""
    team = built("abcde", ("a", "b", condition), "bc", "ce", "ad", "de", all_of="e")
    ran = order(either(team, "go"))
    assert ran == (["a", "b", "d", "c", "e"] if condition is not no else ["a", "d", "e"])


def test_all_needs_one_open_edge(either: TeamDoor) -> None:
    team = built("abc", ("a", "c", no), ("b", "c", no), all_of="c")
    assert order(either(team, "go")) == ["a", "b"]


@pytest.mark.parametrize(("skipped", "ran"), [("b", "acd"), ("bc", "a")])
def test_a_cancelled_source_counts_as_ended_for_all(either: TeamDoor, skipped: str, ran: str) -> None:
    team = built("abcd", "ab", "ac", "bd", "cd", all_of="d")

    def skip(event: BeforeNodeCallEvent) -> None:
        event.cancel_node = event.node_id in skipped

    team.add_hook(skip)
    result = either(team, "go")
    assert result.status is Status.COMPLETED
    assert [key for key, status in statuses(result).items() if status == "completed"] == list(ran)


def test_a_cycle_is_left_when_its_condition_fails(either: TeamDoor) -> None:
    def again(state: MultiAgentState) -> bool:
        return len(state.execution_order) < 5

    result = either(built("ab", "ab", ("b", "a", again), entries="a"), "go")
    assert order(result) == ["a", "b", "a", "b", "a", "b"]
    assert result.status is Status.COMPLETED


def test_a_condition_may_look_at_what_was_used(either: TeamDoor, scripts: Scripts) -> None:
    seen: list[Any] = []

    def again(state: MultiAgentState) -> bool:
        usage = state.accumulated_usage
        seen.append((state.execution_count, usage["totalTokens"], state.accumulated_metrics["latencyMs"]))
        return usage["totalTokens"] < 25

    usage = {"inputTokens": 6, "outputTokens": 4, "totalTokens": 10}
    agent = scripts.agent("a", *[Turn(text="more", usage=usage)] * 3)  # type: ignore[arg-type]
    result = either(Graph({"a": agent}, [("a", "a", again)], entry_points=["a"]), "go")
    assert seen == [(1, 10, 0), (2, 20, 0), (3, 30, 0)]
    assert result.accumulated_usage["totalTokens"] == 30 and result.execution_count == 3


def test_a_condition_may_ask_the_graph_where_the_turn_stands(either: TeamDoor) -> None:
    """Also on a thread that is not the graph's own."""
    seen: list[Any] = []

    def look(event: AfterNodeCallEvent) -> None:
        state = event.source.state
        seen.append(([node.node_id for node in state.execution_order], state.total_nodes, state.task))
        assert state.execution_time >= 0

    team = built("ab", "ab")
    team.add_hook(look)
    either(team, "go", thread_id="elsewhere")
    assert seen == [([], 2, "go"), (["a"], 2, "go")]
    assert team.state.execution_order == [] and team.state.execution_time == 0


def test_all_in_a_cycle_waits_anew_each_time_round(either: TeamDoor) -> None:
    def again(state: MultiAgentState) -> bool:
        return len(state.execution_order) < 5

    team = built("abcd", "ab", "ac", "bd", "cd", ("d", "a", again), all_of="d", entries="a")
    assert order(either(team, "go")) == ["a", "b", "c", "d"] * 2


def test_conditions_see_everything_that_ended_in_the_step(either: TeamDoor) -> None:
    seen: list[Any] = []

    def look(state: MultiAgentState, *, invocation_state: dict[str, Any]) -> bool:
        seen.append((state.task, [str(one) for one in state.results.values()], invocation_state["flag"]))
        return bool(invocation_state["flag"])

    async def waits(state: MultiAgentState) -> bool:
        return [node.node_id for node in state.completed_nodes] == ["a", "b"]

    team = built("abcd", ("a", "c", look), ("b", "d", waits))
    assert order(either(team, "go", invocation_state={"flag": False})) == ["a", "b", "d"]
    assert seen == [("go", ["a\n", "b\n"], False)]


def test_what_a_node_is_given(door: TeamDoor, scripts: Scripts) -> None:
    """The task, and what the nodes before it said (form: Strands')."""
    team = Graph(
        {name: scripts.agent(name, f"{name} said") for name in "abc"}, [("a", "c"), ("b", "c")], id="team"
    )
    door(team, "the task")
    assert scripts.prompt("a") == ["the task"]
    assert scripts.prompt("c") == [
        "Original Task: the task",
        "\nInputs from previous nodes:",
        "\nFrom a:",
        "  - Agent: a said\n",
        "\nFrom b:",
        "  - Agent: b said\n",
    ]


def test_a_task_may_be_content_blocks(either: TeamDoor, scripts: Scripts) -> None:
    image = {"image": {"format": "png", "source": {"bytes": b"png"}}}
    team = Graph({"a": scripts.agent("a", "seen"), "b": scripts.agent("b", "too")}, [("a", "b")])
    either(team, [{"text": "look"}, image])
    assert scripts.models["a"].requests[0].messages[-1]["content"] == [{"text": "look"}, image]
    assert scripts.models["b"].requests[0].messages[-1]["content"][:3] == [
        {"text": "Original Task:"},
        {"text": "look"},
        image,
    ]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_member_that_runs_again_goes_on_with_its_conversation_or_begins_anew(
    either: TeamDoor, scripts: Scripts, fresh: bool
) -> None:
    beginning: Any = [{"role": "user", "content": [{"text": "before"}]}]
    agent = scripts.agent("a", "one", "two", "three", "four", messages=beginning, state={"kept": 1})
    builder = GraphBuilder()
    builder.add_node(agent, "a")
    builder.add_edge("a", "a", lambda state: len(state.execution_order) < 2)
    team = builder.set_entry_point("a").reset_on_revisit(fresh).build()
    either(team, "go")
    lengths = [len(request.messages) for request in scripts.models["a"].requests]
    assert lengths == ([2, 2] if fresh else [2, 4])
    # the next turn goes on with the first visit's conversation
    either(team, "and on")
    assert len(scripts.models["a"].requests[2].messages) == (4 if fresh else 6)
    assert agent.messages == beginning  # the agent's own conversation is another one


# --- Functions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("text", "text"),
        ([{"text": "block"}], "block"),
        ({"text": "block"}, "block"),
        ({"role": "assistant", "content": [{"text": "message"}]}, "message"),
        (None, None),
    ],
)
def test_what_a_function_may_return(door: TeamDoor, returned: Any, text: str | None) -> None:
    result = door(Graph({"a": lambda task: returned}), "go").results["a"].result
    assert result.message == {"role": "assistant", "content": [] if text is None else [{"text": text}]}


def test_a_function_may_call_an_agent_and_return_its_result(either: TeamDoor) -> None:
    def ask(task: Any) -> Any:
        return agent_of("found")(task)

    assert str(either(Graph({"a": ask}), "go")) == "a: found"


@pytest.mark.parametrize("returned", [3, object(), {"a": 1}, b"bytes", [1, 2], Command(resume=1)])
def test_what_a_function_may_not_return(either: TeamDoor, returned: Any) -> None:
    with pytest.raises(ValueError, match=r"orchestrator|'a' of 'default_graph' returned"):
        either(Graph({"a": lambda task: returned}), "go")


def test_a_function_takes_what_it_names(door: TeamDoor) -> None:
    async def look(task: Any, state: MultiAgentState, *, invocation_state: dict[str, Any]) -> str:
        state.app.set("seen", [block["text"] for block in task])
        invocation_state["count"] += 1
        return f"{state.results['a']}"

    team = Graph({"a": says("one"), "b": look}, [("a", "b")])
    shared = {"count": 0}
    assert str(door(team, "go", invocation_state=shared).results["b"]).strip() == "one"
    assert shared == {"count": 1}
    assert team.state.app.get("seen")[0] == "Original Task: go"


@pytest.mark.parametrize(
    "look",
    [lambda state: state.task, lambda *, invocation_state, state: state.task, lambda: "go"],
    ids=["first", "named", "none"],
)
def test_a_function_need_not_take_its_input(either: TeamDoor, look: Any) -> None:
    assert str(either(Graph({"a": look}), "go")) == "a: go"


def test_a_planner_fans_out_over_as_many_workers_as_it_likes(door: TeamDoor, scripts: Scripts) -> None:
    """Each has a conversation of its own, and all of them are one step."""

    def plan(task: Any) -> list[Send]:
        return [Send("worker", f"part {number}") for number in range(5)]

    def work(task: Any) -> str:
        return f"did {task[0]['text']}"

    team = Graph(
        {"plan": plan, "worker": work, "sum": scripts.agent("sum", "all done")},
        [("worker", "sum")],
        entry_points=["plan"],
    )
    result = door(team, "go")
    workers = [f"worker[{number}]" for number in range(5)]
    assert list(result.results) == ["plan", *workers, "sum"]
    assert order(result) == ["plan", *["worker"] * 5, "sum"]
    assert [str(result.results[key]) for key in workers] == [f"did part {number}\n" for number in range(5)]
    assert "\nFrom worker[3]:" in scripts.prompt("sum")
    assert scripts.calls == {"sum": 1}


def test_one_agent_works_for_several_sends_at_once(either: TeamDoor, scripts: Scripts) -> None:
    def plan(task: Any) -> Command[Any]:
        return Command(update="a plan", goto=[Send("worker", f"part {number}") for number in range(3)])

    team = Graph({"plan": plan, "worker": scripts.agent("worker", "a", "b", "c")}, entry_points=["plan"])
    result = either(team, "go")
    assert str(result.results["plan"]) == "a plan\n"
    assert sorted(str(result.results[f"worker[{number}]"]) for number in range(3)) == ["a\n", "b\n", "c\n"]
    prompts = [request.messages for request in scripts.models["worker"].requests]
    assert sorted(messages[0]["content"][0]["text"] for messages in prompts) == ["part 0", "part 1", "part 2"]
    assert all(len(messages) == 1 for messages in prompts)


def test_a_send_to_nobody_is_an_error(either: TeamDoor) -> None:
    with pytest.raises(ValueError, match=r"'plan'.*sends to 'nobody'"):
        either(Graph({"plan": lambda task: Send("nobody", "x")}), "go")


# --- Making one -------------------------------------------------------------------------------------------


def test_the_constructor_takes_lists_and_dicts(either: TeamDoor) -> None:
    """S65, S66."""
    one, two = agent_of("one", id="researcher"), agent_of("two", name="writer")
    team = Graph(nodes=[one, two], edges=[("researcher", "writer")])
    assert order(either(team, "go")) == ["researcher", "writer"]
    assert list(Graph(agents={"agent1": agent_of("x"), "agent2": agent_of("y")}).nodes) == [
        "agent1",
        "agent2",
    ]
    # without edges every node is an entry
    both = Graph(agents={"agent1": agent_of("x"), "agent2": agent_of("y")})
    assert order(either(both, "go")) == ["agent1", "agent2"]


def test_nodes_without_an_id_are_called_as_their_executors(either: TeamDoor) -> None:
    def check(task: Any) -> str:
        return "ok"

    builder = GraphBuilder()
    added = [
        builder.add_node(agent_of("x", id="by_id", name="name")),
        builder.add_node(agent_of("x", name="by name")),
        builder.add_node(agent_of("x")),
        builder.add_node(check),
        builder.add_node(lambda task: "x"),
        builder.add_node(Graph([check], id="team")),
    ]
    names = ["by_id", "by name", "node_2", "check", "node_4", "team"]
    assert [node.node_id for node in added] == names
    assert order(either(builder.build(), "go")) == names


def test_a_builder_takes_nodes_where_it_takes_ids() -> None:
    builder = GraphBuilder()
    one, two = builder.add_node(says("1"), "one"), builder.add_node(says("2"), "two")
    builder.add_edge(one, two)
    assert order(builder.set_entry_point(one).set_graph_id("mine").build()("go")) == ["one", "two"]


def test_it_is_drawn_as_it_was_built() -> None:
    team = built("abc", "ab", ("b", "c", no))
    edges = {(edge.source, edge.target) for edge in team.graph.get_graph().edges}
    assert edges == {("__start__", "a"), ("a", "b"), ("b", "c"), ("b", "__end__"), ("c", "__end__")}
    assert list(team.graph.get_graph().nodes) == ["__start__", "a", "b", "c", "__end__"]


def test_one_agent_may_be_in_several_orchestrators(scripts: Scripts) -> None:
    agent = scripts.agent("a", "one", "two")
    assert str(Graph({"x": agent})("go")) == "x: one"
    assert str(Graph({"y": agent})("go")) == "y: two"
    assert [len(request.messages) for request in scripts.models["a"].requests] == [1, 1]


def test_an_agent_cancelled_in_a_node_ends_its_branch(either: TeamDoor, scripts: Scripts) -> None:
    agent: Agent = scripts.agent("a", "one")
    agent.cancel("stopped")
    team = Graph({"a": agent, "b": says("b"), "c": says("c")}, [("a", "b")])
    result = either(team, "go")
    assert result.status is Status.COMPLETED
    assert statuses(result) == {"a": "cancelled", "c": "completed"}


class Fills(MultiAgentPlugin):
    name = "fills"

    def init_multi_agent(self, orchestrator: Any) -> None:
        orchestrator.add_hook(self.note, BeforeNodeCallEvent)

    def __init__(self) -> None:
        self.seen: list[str] = []

    def note(self, event: BeforeNodeCallEvent) -> None:
        self.seen.append(event.node_id)


def test_a_builder_hands_on_what_it_was_told() -> None:
    plugin = Fills()
    builder = GraphBuilder().set_node_timeout(30.0).set_execution_timeout(60.0).set_plugins([plugin])
    builder.add_node(says("a"), "a")
    graph = builder.build()
    assert (graph.node_timeout, graph.execution_timeout) == (30.0, 60.0)
    assert graph("go").status is Status.COMPLETED
    assert plugin.seen == ["a"]
