"""`LiveSaver`: the same rows as in memory, and a cost per run that does not grow with the thread."""

from __future__ import annotations

import operator
from copy import deepcopy
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphkit import START, StateGraph
from graphkit.errors import UnserializableStateError
from graphkit.types import RunnableConfig
from graphkit_checkpoint import live
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.live import LiveSaver
from graphkit_checkpoint.memory import InMemorySaver
from graphkit_checkpoint.ownership import forget_token, new_token
from graphkit_checkpoint.records import Checkpoint, Commit, Pending, Saved, Tip
from tests.conftest import Runner, graph_of
from tests.counts import counted

# --- The same rows ------------------------------------------------------------------------------------


class Scribe:
    """A run on one saver, step by step, with ids and times of its own."""

    def __init__(self, saver: BaseCheckpointSaver) -> None:
        self.saver = saver
        self.token = new_token()
        self.number = 0
        self.open()

    def open(self, at: str | None = None) -> None:
        """Begin another run, at the head or at an older checkpoint."""
        opening = self.saver.open("t", "", at)
        self.thread, self.claims = opening.thread, True
        self.tip = opening.saved.tip if opening.saved else Tip()
        self.values: dict[str, Any] = deepcopy(opening.saved.values) if opening.saved else {}
        self.at = opening.saved.checkpoint.id if opening.saved else None

    def commit(self, *points: Checkpoint, **fields: Any) -> None:
        acquire = self.thread if self.claims else None
        self.saver.commit(
            Commit("t", "", self.token, self.tip, self.claims, acquire, checkpoints=points, **fields)
        )
        self.claims = False
        if points:
            self.at = points[-1].id

    def point(self, parent: str | None, changed: dict[str, Any], **fields: Any) -> Checkpoint:
        self.number += 1
        self.values = {**self.values, **changed}
        for channel in fields.get("cleared", ()):
            self.values.pop(channel, None)
        return Checkpoint(f"{self.number:08}", parent, self.number, "loop", 1000.0, changed=changed, **fields)

    # What may happen

    def append(self, items: list[int]) -> None:
        value = [*self.values.get("log", []), *items]
        self.commit(self.point(self.at, {"log": value}, extended={"log": len(items)}))

    def append_twice(self, items: list[int]) -> None:
        """Two checkpoints in one commit, the first with what was given."""
        first = self.point(self.at, {}, given=[("log", items)])
        value = [*self.values.get("log", []), *items]
        second = self.point(first.id, {"log": value}, extended={"log": len(items)})
        third = self.point(second.id, {"log": [*value, 7]}, extended={"log": 1})
        self.commit(first, second, third)

    def apply_given(self, items: list[int]) -> None:
        """The second checkpoint has the very values that the first was given, some of them."""
        given = {"scalar": tuple(items), "log": [*items], "map": dict.fromkeys(items, 1), "other": str(items)}
        first = self.point(self.at, {}, given=list(given.items()))
        self.commit(first, self.point(first.id, {**given, "map": {}}, extended={"log": len(items)}))

    def change_in_place(self, items: list[int]) -> None:
        """More than the announcement says."""
        value = [{"in place": self.number}, *self.values.get("log", []), 1]
        self.commit(self.point(self.at, {"log": value}, extended={"log": 1}))

    def set_keys(self, items: list[int]) -> None:
        keys: dict[Any, Any] = {(str(item) if item % 2 else float(item)): item for item in items}
        value = {**self.values.get("map", {}), **keys}
        self.commit(self.point(self.at, {"map": value}, extended={"map": list(keys)}))

    def replace(self, items: list[int]) -> None:
        self.commit(self.point(self.at, {"log": items, "scalar": tuple(items)}, work={"sends": items}))

    def clear(self, items: list[int]) -> None:
        gone = [channel for channel in ("log", "scalar") if channel in self.values]
        self.commit(self.point(self.at, {}, cleared=gone, metadata={"n": len(items)}))

    def record(self, items: list[int]) -> None:
        records = [Pending(str(item), "output", "", [item, {"a": (item,)}]) for item in items]
        self.commit(at=self.at or "", pending=records)

    def forget(self, items: list[int]) -> None:
        self.commit(at=self.at or "", forget=[(str(item), "output", "") for item in items])

    def run_again(self, items: list[int]) -> None:
        self.commit(release=True)
        self.open()

    def fork(self, items: list[int]) -> None:
        if self.number > 1:
            self.commit(release=True)
            self.open("00000001")

    def refuse(self, items: list[int]) -> None:
        with pytest.raises(UnserializableStateError):
            self.saver.commit(
                Commit(
                    "t",
                    "",
                    self.token,
                    self.tip,
                    self.claims,
                    self.thread if self.claims else None,
                    checkpoints=[Checkpoint("x", self.at, 0, "loop", 0.0, changed={"log": [object()]})],
                )
            )

    def look(self, items: list[int]) -> None:
        """Only a look, which settles."""
        list(self.saver.history("t", limit=1))


DEEDS = [name for name, value in vars(Scribe).items() if callable(value) and name not in (
    "__init__", "open", "commit", "point")]  # fmt: skip


def everything(saver: Any) -> list[tuple[Any, ...]]:
    """All rows of a saver in memory."""
    with saver.reading() as tables:
        return [
            (name, part.head, sorted(part.checkpoints.items()), sorted(part.logs.items()), records_of(part))
            for thread in tables.threads.values()
            for name, part in thread.namespaces.items()
        ]


def records_of(part: Any) -> list[Any]:
    return sorted(record for records in part.pending.values() for record in records.values())


@given(st.lists(st.tuples(st.sampled_from(DEEDS), st.lists(st.integers(0, 9), max_size=4)), max_size=25))
def test_settled_rows_are_those_of_the_saver_in_memory(deeds: list[tuple[str, list[int]]]) -> None:
    alive, plain = Scribe(LiveSaver()), Scribe(InMemorySaver())
    try:
        for scribe in (alive, plain):
            scribe.commit(scribe.point(None, {"log": [0]}))
        for name, items in deeds:
            for scribe in (alive, plain):
                getattr(scribe, name)(items)
            assert alive.values == plain.values, name
        assert everything(alive.saver) == everything(plain.saver)
        opened = [scribe.saver.open("t", claims=False).saved for scribe in (alive, plain)]
        assert as_opened(opened[0]) == as_opened(opened[1])
    finally:
        forget_token(alive.token)
        forget_token(plain.token)


def as_opened(saved: Saved | None) -> Any:
    assert saved is not None
    point = saved.checkpoint
    beside = [(record.task_id, record.kind, record.key, record.value) for record in saved.pending]
    account = (point.id, point.parent_id, point.step, point.source, dict(point.metadata))
    return account, dict(point.control), point.work or None, point.given, saved.values, beside


# --- The cost -----------------------------------------------------------------------------------------


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    seen: Annotated[dict[str, int], operator.or_]


def talk(state: State) -> State:
    count = len(state.get("log", ()))
    return {"log": ["x" * 100], "seen": {str(count): count}}


def test_a_run_costs_the_same_however_long_the_thread_is(runner: Runner, config: RunnableConfig) -> None:
    graph = graph_of({"a": talk}, state=State, saver=LiveSaver())
    with counted() as counts:
        costs = []
        for _ in range(300):
            runner.invoke(graph, {"log": ["in"]}, config)
            costs.append(counts.taken())
        assert all(unpacked == 0 for _, unpacked in costs)
        assert 0 < costs[299][0] <= costs[10][0] + 20, "a number of three digits takes more than one of two"
        assert len(runner.get_state(graph, config).values["log"]) == 600
        assert counts.unpacked > 0, "what is looked at is read"


@pytest.mark.parametrize("turns", [1, 2])
def test_an_input_that_is_appended_is_packed_once(turns: int, config: RunnableConfig) -> None:
    saver = LiveSaver()
    graph = graph_of({"a": talk}, state=State, saver=saver)
    for turn in range(turns):
        graph.invoke({"log": [f"said {turn}"]}, config)
    (head,) = saver._tables.unsettled.values()
    packed = b"".join(draft.values for draft in head.laid_aside)
    assert [packed.count(b"said %d" % turn) for turn in range(turns)] == [1] * turns


def test_a_look_at_the_history_does_not_end_the_head(config: RunnableConfig) -> None:
    graph = graph_of({"a": talk}, state=State, saver=LiveSaver())
    for _ in range(10):
        graph.invoke({"log": ["in"]}, config)
        assert next(graph.get_state_history(config, limit=1)).values["log"]
    with counted() as counts:
        graph.invoke({"log": ["in"]}, config)
        assert counts.taken()[1] == 0


# --- What is live, and what is not --------------------------------------------------------------------


def test_the_next_run_is_given_the_objects_of_the_last(runner: Runner, config: RunnableConfig) -> None:
    seen: list[Any] = []

    def look(state: State) -> State:
        seen.append(state["log"][0])
        return {}

    graph = graph_of({"a": look}, state=State, saver=LiveSaver())
    thing = {"a": [1]}
    runner.invoke(graph, {"log": [thing]}, config)
    runner.invoke(graph, {"log": []}, config)
    assert seen[0] is seen[1] is thing


def test_what_is_changed_in_place_is_seen_by_the_next_run_and_not_in_history(
    runner: Runner, config: RunnableConfig
) -> None:
    def change(state: State) -> State:
        state["log"][0]["count"] += 1
        return {}

    graph = graph_of({"a": change}, state=State, saver=LiveSaver())
    for _ in range(3):
        result = runner.invoke(graph, {"log": [{"count": 0}]}, config)
    assert result["log"][0] == {"count": 3}
    assert runner.get_state(graph, config).values["log"][0] == {"count": 0}


def test_a_list_that_a_node_changed_in_place_is_stored_whole_with_the_next_write(
    runner: Runner, config: RunnableConfig
) -> None:
    def change(state: State) -> State:
        state["log"].append("in place")
        return {"log": ["returned"]}

    graph = graph_of({"a": change}, state=State, saver=LiveSaver())
    result = runner.invoke(graph, {"log": ["in"]}, config)
    assert result["log"] == ["in", "in place", "returned"]
    assert runner.get_state(graph, config).values == result


def test_what_is_loaded_may_be_changed(runner: Runner, config: RunnableConfig) -> None:
    graph = graph_of({"a": talk}, state=State, saver=LiveSaver())
    runner.invoke(graph, {"log": [["in"]]}, config)
    runner.get_state(graph, config).values["log"][0].append("changed")
    assert runner.invoke(graph, {"log": []}, config)["log"][0] == ["in"]


def test_a_value_that_cannot_be_stored_leaves_the_head_as_it_was(
    runner: Runner, config: RunnableConfig
) -> None:
    def answer(state: State) -> State:
        return {"log": [object() if state["log"][-1] == "bad" else "fine"]}

    saver = LiveSaver()
    graph = graph_of({"a": answer}, state=State, saver=saver)
    runner.invoke(graph, {"log": ["good"]}, config)
    with pytest.raises(UnserializableStateError, match="'log'"):
        runner.invoke(graph, {"log": ["bad"]}, config)
    assert runner.invoke(graph, {"log": ["good"]}, config)["log"] == ["good", "fine", "bad", "good", "fine"]


def test_a_run_that_loses_the_race_changes_nothing_for_the_one_that_won() -> None:
    saver = LiveSaver()
    winner, loser = Scribe(saver), Scribe(saver)
    winner.commit(winner.point(None, {"log": [0]}))
    winner.commit(release=True)
    winner.open()
    loser.open()
    loser.number = 100
    winner.append([1])
    with pytest.raises(RuntimeError, match="owned by run"):
        loser.append([2])
    with pytest.raises(RuntimeError, match="owned by run"):
        loser.replace([2])
    winner.append([3])
    winner.replace([4])
    winner.append([5])
    states = [saved.values["log"] for saved in saver.history("t")]
    assert states == [[4, 5], [4], [0, 1, 3], [0, 1], [0]]
    for scribe in (winner, loser):
        forget_token(scribe.token)


def test_a_commit_larger_than_one_value_may_be_is_judged_value_by_value(config: RunnableConfig) -> None:
    def write(state: State) -> Any:
        return {"log": ["x" * 600], "seen": {"y" * 600: 1}}

    graph = graph_of({"a": write}, state=State, saver=LiveSaver(max_value_bytes=1000))
    for _ in range(3):
        graph.invoke({"log": []}, config)
    with pytest.raises(ValueError, match="max_value_bytes is 1,000"):
        graph.invoke({"log": ["z" * 2000]}, config)
    assert len(graph.get_state(config).values["log"]) == 3


def test_a_thread_that_is_deleted_and_begun_anew_has_nothing_of_the_old_one(
    runner: Runner, config: RunnableConfig
) -> None:
    saver = LiveSaver()
    graph = graph_of({"a": talk}, state=State, saver=saver)
    runner.invoke(graph, {"log": ["old"]}, config)
    saver.delete_thread("t")
    assert runner.invoke(graph, {"log": ["new"]}, config)["log"][0] == "new"
    assert len(runner.history(graph, config)) == 3


def test_a_thread_whose_time_has_run_out_begins_anew(config: RunnableConfig) -> None:
    now = [0.0]
    graph = graph_of({"a": talk}, state=State, saver=LiveSaver(ttl=10.0, clock=lambda: now[0]))
    graph.invoke({"log": ["old"]}, config)
    now[0] = 11.0
    assert graph.invoke({"log": ["new"]}, config)["log"][0] == "new"
    assert graph.invoke({"log": ["more"]}, config)["log"][0] == "new"


def test_nested_graphs_have_heads_of_their_own(runner: Runner, config: RunnableConfig) -> None:
    inner = StateGraph(State).add_node("b", talk).add_edge(START, "b").compile(checkpointer=True)

    def outer(state: State) -> State:
        return {"log": [len(inner.invoke({"log": ["inner"]})["log"])]}

    async def aouter(state: State) -> State:
        return {"log": [len((await inner.ainvoke({"log": ["inner"]}))["log"])]}

    nodes = {"a": outer if runner.colour == "sync" else aouter}
    graph = graph_of(nodes, state=State, saver=LiveSaver())
    for _ in range(3):
        result = runner.invoke(graph, {"log": []}, config)
    assert result["log"] == [2, 4, 6]


def test_a_nested_graph_that_begins_settles_nothing(runner: Runner, config: RunnableConfig) -> None:
    saver = LiveSaver()
    unsettled: list[int] = []

    def look(state: Any) -> None:
        unsettled.append(len(saver._tables.unsettled))

    inner = graph_of({"look": look})
    nodes: dict[str, Any] = dict.fromkeys("abc", inner)
    edges = [(START, "a"), ("a", "b"), ("b", "c")]
    runner.invoke(graph_of(nodes, edges, saver=saver), {"log": []}, config)
    assert unsettled == [2, 3, 4]  # the root, and each of those that have begun


def test_the_module_keeps_no_head_of_a_thread_that_is_gone() -> None:
    saver = LiveSaver()
    graph = graph_of({"a": talk}, state=State, saver=saver)
    for number in range(5):
        graph.invoke({"log": []}, {"configurable": {"thread_id": str(number)}})
    assert len(saver._tables.heads) == 5
    for number in range(5):
        saver.delete_thread(str(number))
    assert not saver._tables.heads
    assert not saver._tables.unsettled
    assert isinstance(saver._tables, live._LiveTables)
