"""Channels (L18): each kind by itself, then as the annotation of a state key."""

import collections
import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphkit import START, StateGraph
from graphkit.channels import (
    MISSING,
    AnyValue,
    BaseChannel,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from graphkit.errors import EmptyChannelError, InvalidGraphError, InvalidUpdateError
from graphkit.graph.message import add_messages
from graphkit.types import Overwrite, RunnableConfig
from tests.conftest import Build, Runner, Saver

Log = Annotated[list[str], operator.add]


def value_of(channel: BaseChannel[Any]) -> Any:
    return channel.get() if channel.is_available() else None


def after(channel: BaseChannel[Any], *supersteps: Sequence[Any]) -> BaseChannel[Any]:
    for writes in supersteps:
        channel.update(writes)
    return channel


def reloaded(channel: BaseChannel[Any]) -> BaseChannel[Any]:
    return channel.from_checkpoint(channel.checkpoint())


KINDS: dict[str, Callable[[], BaseChannel[Any]]] = {
    "LastValue": lambda: LastValue(str),
    "AnyValue": lambda: AnyValue(str),
    "EphemeralValue": lambda: EphemeralValue(str),
    "UntrackedValue": lambda: UntrackedValue(str),
    "Topic": lambda: Topic(str),
    "NamedBarrierValue": lambda: NamedBarrierValue(str, {"a", "b"}),
    "LastValueAfterFinish": lambda: LastValueAfterFinish(str),
    "NamedBarrierValueAfterFinish": lambda: NamedBarrierValueAfterFinish(str, {"a", "b"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_channel_that_was_never_written_is_empty(kind: str) -> None:
    channel = KINDS[kind]()
    assert not channel.is_available()
    with pytest.raises(EmptyChannelError):
        channel.get()


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_channel_is_empty_again_after_reloading(kind: str) -> None:
    assert not reloaded(KINDS[kind]()).is_available()


@pytest.mark.parametrize("kind", KINDS)
def test_a_channel_made_from_a_checkpoint_does_not_share_state_with_its_source(kind: str) -> None:
    source = after(KINDS[kind](), ["a"])
    copy = reloaded(source)
    before = source.checkpoint()
    after(copy, ["b"])
    assert source.checkpoint() == before


@pytest.mark.parametrize("kind", ["LastValue", "AnyValue", "EphemeralValue", "UntrackedValue"])
@pytest.mark.parametrize("value", [None, False, 0, "", []])
def test_falsy_values_are_values(kind: str, value: Any) -> None:
    channel = KINDS[kind]()
    assert channel.update([value])
    assert channel.is_available()
    assert channel.get() == value


def test_a_kind_of_last_value_may_begin_with_one_and_have_more_to_be_made_with() -> None:
    class Latest(LastValue[int]):
        def __init__(self, typ: Any, least: int) -> None:
            super().__init__(typ)
            self.value = self.least = least

        def blank(self) -> "Latest":
            return Latest(self.typ, self.least)

    channel = Latest(int, 3)
    assert channel.copy().get() == channel.from_checkpoint(MISSING).get() == 3
    assert channel.from_checkpoint(5).get() == 5


def test_last_value_keeps_the_last_write_and_survives_quiet_supersteps() -> None:
    channel = after(LastValue(str), ["a"], ["b"])
    assert not channel.update([])
    assert channel.get() == "b"
    assert reloaded(channel).get() == "b"


@pytest.mark.parametrize("kind", ["LastValue", "EphemeralValue", "UntrackedValue"])
def test_one_write_per_superstep_or_an_error_that_names_the_key(kind: str) -> None:
    channel = KINDS[kind]()
    channel.key = "budget"
    with pytest.raises(InvalidUpdateError, match="budget"):
        channel.update(["a", "b"])
    assert not channel.is_available()


@pytest.mark.parametrize("kind", [EphemeralValue, UntrackedValue])
def test_without_guard_the_last_of_several_writes_wins(
    kind: type[EphemeralValue[str]] | type[UntrackedValue[str]],
) -> None:
    assert after(kind(str, guard=False), ["a", "b"]).get() == "b"


@pytest.mark.parametrize("kind", [EphemeralValue, UntrackedValue])
def test_guard_survives_reloading(kind: type[EphemeralValue[str]] | type[UntrackedValue[str]]) -> None:
    assert after(reloaded(kind(str, guard=False)), ["a", "b"]).get() == "b"
    with pytest.raises(InvalidUpdateError):
        reloaded(kind(str)).update(["a", "b"])


def test_any_value_takes_the_last_of_several_writes() -> None:
    assert after(AnyValue(str), ["a", "b"]).get() == "b"


@pytest.mark.parametrize("kind", ["AnyValue", "EphemeralValue", "Topic"])
def test_a_quiet_superstep_empties_a_passing_channel(kind: str) -> None:
    channel = after(KINDS[kind](), ["a"])
    assert channel.update([])
    assert not channel.is_available()
    assert not channel.update([])


def test_an_untracked_value_lasts_but_is_never_stored() -> None:
    channel = after(UntrackedValue(str), ["a"], [])
    assert channel.get() == "a"
    assert not reloaded(channel).is_available()


def test_an_aggregate_starts_empty_and_folds_each_write_in_order() -> None:
    channel: BaseChannel[Any] = BinaryOperatorAggregate(list, operator.add)
    assert channel.get() == []
    assert channel.update([["a"], ["b"]])
    assert channel.update([["c"]])
    assert not channel.update([])
    assert channel.get() == ["a", "b", "c"]


def test_an_aggregate_of_a_type_without_an_empty_value_starts_with_the_first_write() -> None:
    class Amount:
        def __init__(self, cents: int) -> None:
            self.cents = cents

    channel: BaseChannel[Any] = BinaryOperatorAggregate(
        Amount, lambda left, right: Amount(left.cents + right.cents)
    )
    assert not channel.is_available()
    assert after(channel, [Amount(3), Amount(4)]).get().cents == 7


def test_loading_an_aggregate_restores_its_value_without_calling_the_operator() -> None:
    def refuse(left: list[str], right: list[str]) -> list[str]:
        raise AssertionError("called")

    stored = after(BinaryOperatorAggregate(list, operator.add), [["a"], ["b"]]).checkpoint()
    channel: BaseChannel[Any] = BinaryOperatorAggregate(list, refuse).from_checkpoint(stored)
    assert channel.get() == ["a", "b"]


def test_overwrite_sets_an_aggregate_as_it_is() -> None:
    channel = after(BinaryOperatorAggregate(list, operator.add), [["old"]], [Overwrite(["new"])])
    assert channel.get() == ["new"]
    assert after(channel, [["more"]]).get() == ["new", "more"]


def test_writes_beside_an_overwrite_are_dropped_in_either_order() -> None:
    first = after(BinaryOperatorAggregate(list, operator.add), [Overwrite(["new"]), ["beside"]])
    last = after(BinaryOperatorAggregate(list, operator.add), [["beside"], Overwrite(["new"])])
    assert first.get() == last.get() == ["new"]


@pytest.mark.parametrize(
    "channel",
    [
        BinaryOperatorAggregate(list, operator.add),
        BinaryOperatorAggregate(list, add_messages),
        DeltaChannel(lambda value, writes: [*value, *writes]),
    ],
    ids=["add", "messages", "delta"],
)
@pytest.mark.parametrize("written", [Overwrite(["new"]), {"__overwrite__": ["new"]}], ids=["object", "json"])
def test_an_overwrite_may_be_written_as_json(channel: BaseChannel[Any], written: Any) -> None:
    """Source: LangGraph."""
    assert after(channel.copy(), [["old"]], [written]).get() == ["new"]


def test_a_dict_is_overwritten_so_too() -> None:
    channel: BaseChannel[Any] = BinaryOperatorAggregate(dict, operator.or_)
    assert after(channel, [{"a": 1}], [{"__overwrite__": {"b": 2}}]).get() == {"b": 2}
    assert after(channel, [{"__overwrite__": 1, "c": 3}]).get() == {"b": 2, "__overwrite__": 1, "c": 3}


def test_two_overwrites_in_one_superstep_are_an_error() -> None:
    with pytest.raises(InvalidUpdateError):
        BinaryOperatorAggregate(list, operator.add).update([Overwrite(["a"]), Overwrite(["b"])])


def together(value: list[str], writes: Sequence[list[str]]) -> list[str]:
    """All writes of a superstep at once."""
    return [*value, "+".join(word for write in writes for word in write)]


def test_a_delta_is_given_all_writes_of_a_superstep_at_once() -> None:
    channel = after(DeltaChannel(together), [["a"], ["b"]], [["c"]])
    assert channel.get() == ["a+b", "c"]
    assert after(reloaded(channel), [["d"]]).get() == ["a+b", "c", "d"]
    assert channel.get() == ["a+b", "c"]


def test_a_delta_starts_empty_or_with_the_first_write() -> None:
    assert DeltaChannel(together).get() == []
    longest: Callable[[str, Sequence[str]], str] = lambda value, writes: max([value, *writes], key=len)  # noqa: E731
    channel: DeltaChannel[str] = DeltaChannel(longest, str | None)
    assert not channel.is_available()
    assert after(channel, ["ab", "abcd", "abc"]).get() == "abcd"


def test_an_overwrite_of_a_delta_stands_alone() -> None:
    assert after(DeltaChannel(together), [["a"], Overwrite(["x"]), ["b"]]).get() == ["x"]
    with pytest.raises(InvalidUpdateError, match="2 Overwrite values"):
        DeltaChannel(together).update([Overwrite([]), Overwrite([])])


def test_how_often_a_delta_is_stored_as_a_whole_has_to_be_a_number_of_times() -> None:
    with pytest.raises(ValueError, match="snapshot_frequency"):
        DeltaChannel(together, snapshot_frequency=0)


def test_a_delta_as_an_annotation(runner: Runner, build: Build, config: RunnableConfig) -> None:
    class Summed(TypedDict, total=False):
        counts: Annotated[dict[str, int], DeltaChannel(summed, snapshot_frequency=5)]

    def summed_by(name: str) -> Callable[[Summed], Any]:
        return lambda state: {"counts": {name: 1, "all": 1}}

    graph = build({name: summed_by(name) for name in "ab"}, state=Summed)
    runner.invoke(graph, {"counts": {"all": 5}}, config)
    runner.invoke(graph, {}, config)
    state = runner.get_state(graph, config)
    assert state.values["counts"] == {"all": 9, "a": 2, "b": 2}


def test_schemas_that_fold_a_delta_by_different_functions_disagree() -> None:
    def latest(value: dict[str, int], writes: Sequence[dict[str, int]]) -> dict[str, int]:
        return writes[-1]

    class Summed(TypedDict, total=False):
        counts: Annotated[dict[str, int], DeltaChannel(summed)]

    class Latest(TypedDict, total=False):
        counts: Annotated[dict[str, int], DeltaChannel(latest)]

    with pytest.raises(InvalidGraphError, match="'counts'"):
        StateGraph(Summed).add_node("node", lambda state: {}, input_schema=Latest)


def summed(value: dict[str, int], writes: Sequence[dict[str, int]]) -> dict[str, int]:
    total = collections.Counter(value)
    for write in writes:
        total.update(write)
    return dict(total)


def test_a_topic_holds_what_one_superstep_published() -> None:
    channel = after(Topic(str), ["a", ["b", "c"]])
    assert list(channel.get()) == ["a", "b", "c"]
    assert list(reloaded(channel).get()) == ["a", "b", "c"]
    assert list(after(channel, ["d"]).get()) == ["d"]


def test_an_accumulating_topic_keeps_everything() -> None:
    channel = after(Topic(str, accumulate=True), ["a"], [], [["b", "a"]])
    assert list(channel.get()) == ["a", "b", "a"]
    assert list(after(reloaded(channel), ["c"]).get()) == ["a", "b", "a", "c"]


def test_what_a_topic_hands_out_is_not_its_own_list() -> None:
    channel = after(Topic(str), ["a"])
    list_of_reader = channel.get()
    if isinstance(list_of_reader, list):
        list_of_reader.append("smuggled")
    assert list(channel.get()) == ["a"]


def test_a_barrier_opens_when_every_name_was_written_and_closes_when_consumed() -> None:
    channel: BaseChannel[Any] = NamedBarrierValue(str, {"a", "b"})
    assert channel.update(["a"])
    assert not channel.update(["a"])
    assert not channel.is_available()
    assert not channel.consume()
    channel = reloaded(channel)
    assert channel.update(["b"])
    assert channel.is_available()
    assert channel.consume()
    assert not channel.is_available()


def test_a_barrier_refuses_a_name_that_it_does_not_wait_for() -> None:
    with pytest.raises(InvalidUpdateError, match="stranger"):
        NamedBarrierValue(str, {"a"}).update(["stranger"])


def test_a_deferred_value_shows_itself_when_all_else_is_done_and_only_once() -> None:
    channel = after(LastValueAfterFinish(str), ["a"], ["b"])
    assert not channel.is_available()
    assert not channel.consume()
    channel = reloaded(channel)
    assert channel.finish()
    assert not channel.finish()
    assert channel.get() == "b"
    assert reloaded(channel).get() == "b"
    assert channel.consume()
    assert not channel.is_available()
    assert not channel.finish()


def test_a_write_after_finish_waits_again() -> None:
    channel = after(LastValueAfterFinish(str), ["a"])
    channel.finish()
    assert not after(channel, ["b"]).is_available()


def test_a_deferred_barrier_needs_every_name_and_the_end_of_all_else() -> None:
    channel = after(NamedBarrierValueAfterFinish(str, {"a", "b"}), ["a"])
    assert not channel.finish()
    channel.update(["b"])
    assert not channel.is_available()
    assert channel.finish()
    assert channel.is_available()
    assert reloaded(channel).is_available()
    assert channel.consume()
    assert not channel.is_available()


STORED_KINDS = sorted(set(KINDS) - {"UntrackedValue"})
Step = list[str]


@given(
    kind=st.sampled_from(STORED_KINDS),
    before=st.lists(st.lists(st.sampled_from("ab"), max_size=1), max_size=4),
    finished=st.booleans(),
    later=st.lists(st.lists(st.sampled_from("ab"), max_size=1), max_size=4),
)
def test_a_reloaded_channel_behaves_as_the_original(
    kind: str, before: list[Step], finished: bool, later: list[Step]
) -> None:
    original = after(KINDS[kind](), *before)
    if finished:
        original.finish()
    copy = reloaded(original)
    for writes in [[], *later]:
        assert copy.is_available() == original.is_available()
        assert value_of(copy) == value_of(original)
        assert copy.update(writes) == original.update(writes)
        assert copy.consume() == original.consume()


# As annotations of state keys. Three nodes in a row report what they see of `passing`.


def reader(name: str) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"log": [f"{name} sees {state.get('passing')}"]}


def write_then_read_twice(schema: type, saver: Saver = None) -> Any:
    nodes = [
        ("write", lambda state: {"passing": "v", "log": [f"write sees {state.get('passing')}"]}),
        ("next", reader("next")),
        ("later", reader("later")),
    ]
    return StateGraph(schema).add_sequence(nodes).add_edge(START, "write").compile(checkpointer=saver)


class WithLast(TypedDict, total=False):
    passing: Annotated[str, LastValue]
    log: Log


class WithEphemeral(TypedDict, total=False):
    passing: Annotated[str, EphemeralValue]
    log: Log


class WithAny(TypedDict, total=False):
    passing: Annotated[str, AnyValue]
    log: Log


class WithUntracked(TypedDict, total=False):
    passing: Annotated[str, UntrackedValue]
    log: Log


class WithTopic(TypedDict, total=False):
    passing: Annotated[list[str], Topic(str)]
    log: Log


class WithAccumulatingTopic(TypedDict, total=False):
    passing: Annotated[list[str], Topic(str, accumulate=True)]
    log: Log


class WithTopicClass(TypedDict, total=False):
    passing: Annotated[list[str], Topic]
    log: Log


class WithUnguardedEphemeral(TypedDict, total=False):
    passing: Annotated[str, EphemeralValue(str, guard=False)]
    log: Log


class WithAggregate(TypedDict, total=False):
    passing: Annotated[str, BinaryOperatorAggregate(str, operator.add)]
    log: Log


@pytest.mark.parametrize(
    ("schema", "seen_next", "seen_later", "at_the_end"),
    [
        (WithLast, "v", "v", "v"),
        (WithEphemeral, "v", None, None),
        (WithAny, "v", None, None),
        (WithUntracked, "v", "v", "v"),
        (WithTopic, ["v"], None, None),
        (WithTopicClass, ["v"], None, None),
        (WithAccumulatingTopic, ["v"], ["v"], ["v"]),
        (WithUnguardedEphemeral, "v", None, None),
    ],
)
def test_how_long_a_value_is_seen(
    runner: Runner, schema: type, seen_next: Any, seen_later: Any, at_the_end: Any
) -> None:
    result = runner.invoke(write_then_read_twice(schema), {"log": []})
    assert result["log"] == ["write sees None", f"next sees {seen_next}", f"later sees {seen_later}"]
    assert result.get("passing") == at_the_end


def test_an_untracked_value_is_in_no_checkpoint(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    graph = write_then_read_twice(WithUntracked, saver)
    assert runner.invoke(graph, {"log": []}, config)["passing"] == "v"
    history = runner.history(graph, config)
    assert len(history) == 5
    assert all("passing" not in snapshot.values for snapshot in history)


def test_an_ephemeral_value_is_in_the_checkpoint_where_it_was_seen(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    graph = write_then_read_twice(WithEphemeral, saver)
    runner.invoke(graph, {"log": []}, config)
    seen = {snapshot.next: snapshot.values.get("passing") for snapshot in runner.history(graph, config)}
    assert seen == {(): None, ("later",): None, ("next",): "v", ("write",): None, ("__start__",): None}


def two_writers(schema: type) -> Any:
    builder: StateGraph[Any] = StateGraph(schema).add_node("collect", reader("collect"))
    for name in ("left", "right"):
        builder.add_node(name, lambda state, name=name: {"passing": name}).add_edge(START, name)
    return builder.add_edge(["left", "right"], "collect").compile()


@pytest.mark.parametrize(
    ("schema", "seen"),
    [
        (WithAny, "right"),
        (WithUnguardedEphemeral, "right"),
        (WithTopic, ["left", "right"]),
        (WithAccumulatingTopic, ["left", "right"]),
        (WithAggregate, "leftright"),
    ],
)
def test_two_writers_where_several_values_are_allowed(runner: Runner, schema: type, seen: Any) -> None:
    assert runner.invoke(two_writers(schema), {"log": []})["log"] == [f"collect sees {seen}"]


class Plain(TypedDict, total=False):
    passing: str
    log: Log


@pytest.mark.parametrize("schema", [Plain, WithLast, WithEphemeral, WithUntracked])
def test_two_writers_of_a_single_value_are_named_with_the_channel(runner: Runner, schema: type) -> None:
    with pytest.raises(InvalidUpdateError, match="passing") as caught:
        runner.invoke(two_writers(schema), {"log": []})
    assert "left" in str(caught.value)
    assert "right" in str(caught.value)


def test_after_a_collision_nothing_of_the_superstep_is_stored(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    builder: StateGraph[Any] = StateGraph(Plain)
    for name in ("left", "right"):
        builder.add_node(name, lambda state, name=name: {"passing": name, "log": [name]})
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError):
        runner.invoke(graph, {"log": ["in"]}, config)
    assert runner.get_state(graph, config).values == {"log": ["in"]}
