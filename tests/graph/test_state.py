"""State schemas (L17): every form in which a state may be declared, and what nodes see and return of it."""

import operator
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired, Required, TypedDict, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from typing_extensions import ReadOnly, TypeAliasType

from graphkit import END, START, Command, Send, StateGraph
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import InvalidGraphError, InvalidUpdateError, UnknownChannelWarning
from graphkit.graph import MessagesState, add_messages
from graphkit.graph.message import REMOVE_ALL_MESSAGES, RemoveMessage
from graphkit.types import Overwrite, RunnableConfig
from tests.conftest import Reopen, Runner, Saver

Log = Annotated[list[str], operator.add]
Node = Callable[[Any], Any]


def chain(schema: type, *nodes: Node, saver: Saver = None, **schemas: Any) -> Any:
    """A graph of nodes in a row, named n0, n1, …"""
    builder: StateGraph[Any] = StateGraph(schema, **schemas)
    builder.add_sequence([(f"n{index}", node) for index, node in enumerate(nodes)])
    return builder.add_edge(START, "n0").compile(checkpointer=saver)


def spy(seen: list[Any], update: Any = None) -> Node:
    """A node that keeps what it is given and returns `update`."""

    def node(state: Any) -> Any:
        seen.append(state)
        return update

    return node


# TypedDict


class Order(TypedDict):
    item: Required[str]
    note: NotRequired[str]
    tags: NotRequired[Annotated[list[str], operator.add]]
    lines: Annotated[NotRequired[list[str]], operator.add]


def test_required_and_not_required_may_stand_around_or_inside_a_reducer(runner: Runner) -> None:
    seen: list[Any] = []
    graph = chain(Order, spy(seen, {"tags": ["b"], "lines": ["y"]}), spy(seen))
    result = runner.invoke(graph, {"item": "tea", "tags": ["a"], "lines": ["x"]})
    assert result == {"item": "tea", "tags": ["a", "b"], "lines": ["x", "y"]}
    assert seen == [{"item": "tea", "tags": ["a"], "lines": ["x"]}, result]


T = TypeVar("T")
Named = TypeAliasType("Named", Log)
Renamed = TypeAliasType("Renamed", Named)
Several = TypeAliasType("Several", Annotated[list[T], operator.add], type_params=(T,))


class Aliased(TypedDict):
    named: Named
    renamed: NotRequired[Renamed]
    several: Several[int]
    read_only: ReadOnly[Log]


def test_an_alias_of_the_type_statement_is_what_it_stands_for(runner: Runner) -> None:
    value: Any = {"named": ["a"], "renamed": ["a"], "several": [1], "read_only": ["a"]}
    assert runner.invoke(chain(Aliased, lambda state: value), value) == {
        "named": ["a", "a"],
        "renamed": ["a", "a"],
        "several": [1, 1],
        "read_only": ["a", "a"],
    }


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement is of Python 3.12")
def test_aliases_that_python_itself_makes() -> None:
    program = """
from typing import Literal
from graphkit.runtime import Runtime

type Item = str
type Items[Each] = Annotated[list[Each], operator.add]
type Tree = dict[str, Tree]
type Next = Literal["n1"]
type Found = Runtime[None]
type Missing = list[OnlyForTypeCheckers]

class Written(TypedDict):
    items: Items[Item]
    tree: Tree

def ask(state: Written, *, how: Found | None = None, more: Missing | None = None) -> Command[Next] | Tree:
    return Command(update={"items": [str(how is not None)]}, goto="n1")
"""
    names: dict[str, Any] = dict(globals())
    exec(program, names)
    graph = (
        StateGraph(names["Written"])
        .add_node("n0", names["ask"])
        .add_node("n1", lambda state: {"items": ["c"]})
    )
    done = graph.add_edge(START, "n0").compile().invoke({"items": ["a"], "tree": {}})
    assert done == {"items": ["a", "True", "c"], "tree": {}}
    names["Written"].__annotations__["missing"] = names["Missing"]
    with pytest.raises(InvalidGraphError, match="'OnlyForTypeCheckers' is not defined"):
        StateGraph(names["Written"])


def test_keys_without_a_value_are_absent_and_reduced_keys_start_empty(runner: Runner) -> None:
    seen: list[Any] = []
    runner.invoke(chain(Order, spy(seen)), {"item": "tea"})
    assert seen == [{"item": "tea", "tags": [], "lines": []}]


def test_an_update_of_one_key_leaves_the_others(runner: Runner) -> None:
    graph = chain(Order, lambda state: {"note": "hot"}, lambda state: None, lambda state: {})
    assert runner.invoke(graph, {"item": "tea"})["item"] == "tea"
    assert runner.invoke(graph, {"item": "tea"})["note"] == "hot"


def test_changing_the_state_in_place_writes_nothing(runner: Runner) -> None:
    def spoil(state: Any) -> None:
        state["item"] = "coffee"

    seen: list[Any] = []
    assert runner.invoke(chain(Order, spoil, spy(seen)), {"item": "tea"})["item"] == "tea"
    assert seen[0]["item"] == "tea"


# Reducers


def keep_longest(left: str, right: str) -> str:
    return max(left, right, key=len)


class Reduced(TypedDict, total=False):
    total: Annotated[int, operator.add]
    names: Annotated[set[str], operator.or_]
    by_key: Annotated[dict[str, int], lambda left, right: {**left, **right}]
    longest: Annotated[str, keep_longest]
    log: Annotated[list[str], "the history", operator.add]


def test_operators_lambdas_and_functions_reduce(runner: Runner) -> None:
    update = {"total": 2, "names": {"b"}, "by_key": {"b": 2}, "longest": "long", "log": ["b"]}
    graph = chain(Reduced, lambda state: update)
    given_first = {"total": 1, "names": {"a"}, "by_key": {"a": 1}, "longest": "tiny one", "log": ["a"]}
    assert runner.invoke(graph, given_first) == {
        "total": 3,
        "names": {"a", "b"},
        "by_key": {"a": 1, "b": 2},
        "longest": "tiny one",
        "log": ["a", "b"],
    }


def test_a_reducer_sees_the_value_first_and_the_writes_in_order(runner: Runner) -> None:
    class Nested(TypedDict, total=False):
        trace: Annotated[str, lambda left, right: f"({left}{right})"]

    builder: StateGraph[Any] = StateGraph(Nested)
    for name in "cab":
        builder.add_node(name, lambda state, name=name: {"trace": name}).add_edge(START, name)
    assert runner.invoke(builder.compile(), {"trace": "0"})["trace"] == "((((0)a)b)c)"


def test_input_goes_through_the_reducer_on_every_turn(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    graph = chain(Reduced, lambda state: {"total": 10}, saver=saver)
    assert [runner.invoke(graph, {"total": 1}, config)["total"] for _ in range(3)] == [11, 22, 33]


class Pair(NamedTuple):
    left: Any
    right: Any


class Mark:
    """Says something of a key to somebody else."""


class Annotations(TypedDict, total=False):
    most: Annotated[int, max]
    by_method: Annotated[int, int.__add__]
    by_class: Annotated[Any, Pair]
    marked: Annotated[int, Mark]
    described: Annotated[list[str], operator.add, "in words"]


def test_builtins_methods_and_classes_reduce_and_what_cannot_is_a_mark(runner: Runner) -> None:
    given = {"most": 3, "by_method": 3, "by_class": 3, "marked": 3, "described": ["given"]}
    graph = chain(Annotations, lambda state: {key: type(value)() for key, value in given.items()})
    assert runner.invoke(graph, given) == {
        "most": 3,
        "by_method": 3,
        "by_class": Pair(3, 0),
        "marked": 0,
        "described": [],
    }


@pytest.mark.parametrize("key", ["__interrupt__", "__start__"])
def test_a_reserved_key_is_refused_by_name(key: str) -> None:
    with pytest.raises(InvalidGraphError, match=f"'{key}' of Odd is reserved"):
        StateGraph(TypedDict("Odd", {key: int}))  # type: ignore[operator]


def test_a_reducer_that_does_not_take_two_arguments_is_refused() -> None:
    def lonely(value: list[str]) -> list[str]:
        return value

    class Wrong(TypedDict):
        log: Annotated[list[str], lonely]

    with pytest.raises(ValueError, match=r"(?i)log|lonely|reducer"):
        chain(Wrong, lambda state: None)


def test_overwrite_replaces_what_the_reducer_would_extend(runner: Runner) -> None:
    graph = chain(Reduced, lambda state: {"log": Overwrite(["new"])}, lambda state: {"log": ["more"]})
    assert runner.invoke(graph, {"log": ["old"]})["log"] == ["new", "more"]


def test_overwrite_wins_over_a_sibling_and_two_of_them_are_an_error(runner: Runner) -> None:
    def fan(left: Any, right: Any) -> Any:
        builder: StateGraph[Any] = StateGraph(Reduced)
        builder.add_node("left", lambda state: {"log": left}).add_node("right", lambda state: {"log": right})
        return builder.add_edge(START, "left").add_edge(START, "right").compile()

    assert runner.invoke(fan(["beside"], Overwrite(["new"])), {"log": ["old"]})["log"] == ["new"]
    with pytest.raises(InvalidUpdateError, match="log"):
        runner.invoke(fan(Overwrite(["a"]), Overwrite(["b"])), {"log": ["old"]})


# Dataclasses


@dataclass
class Visit:
    guest: str
    nights: int = 1
    log: Log = field(default_factory=list)


def test_a_dataclass_state_reaches_nodes_as_an_instance(runner: Runner) -> None:
    seen: list[Any] = []
    result = runner.invoke(chain(Visit, spy(seen, {"nights": 3, "log": ["a"]}), spy(seen)), {"guest": "Ada"})
    assert seen == [Visit("Ada"), Visit("Ada", 3, ["a"])]
    assert result == {"guest": "Ada", "nights": 3, "log": ["a"]}


def test_a_dataclass_instance_is_an_input_and_an_update(runner: Runner) -> None:
    graph = chain(Visit, lambda state: Visit(state.guest.upper(), state.nights + 1, ["a"]))
    result = runner.invoke(graph, Visit("Ada", 2, ["in"]))
    assert result == {"guest": "ADA", "nights": 3, "log": ["in", "a"]}


def test_a_dataclass_state_survives_the_saver(
    runner: Runner, saver: Saver, config: RunnableConfig, reopen: Reopen
) -> None:
    seen: list[Any] = []
    runner.invoke(chain(Visit, spy(seen, {"nights": 3}), saver=saver), {"guest": "Ada"}, config)
    again = chain(Visit, spy(seen, {"nights": 4}), saver=reopen(saver))
    runner.invoke(again, {"log": ["back"]}, config)
    assert seen == [Visit("Ada"), Visit("Ada", 3, ["back"])]


# Pydantic


class Booking(BaseModel):
    guest: str
    nights: int = 1
    log: Annotated[list[str], operator.add] = []


def test_a_pydantic_state_reaches_nodes_as_a_validated_instance(runner: Runner) -> None:
    seen: list[Any] = []
    graph = chain(Booking, spy(seen, {"nights": 3, "log": ["a"]}), spy(seen))
    result = runner.invoke(graph, {"guest": "Ada", "nights": "2"})
    assert seen == [Booking(guest="Ada", nights=2), Booking(guest="Ada", nights=3, log=["a"])]
    assert all(type(state) is Booking for state in seen)
    assert result == {"guest": "Ada", "nights": 3, "log": ["a"]}


@pytest.mark.parametrize("wrong", [{"guest": "Ada", "nights": "many"}, {"nights": 2}, {"guest": None}])
def test_input_that_does_not_fit_the_model_is_refused_before_any_node_runs(
    runner: Runner, wrong: Any
) -> None:
    seen: list[Any] = []
    with pytest.raises(ValidationError):
        runner.invoke(chain(Booking, spy(seen)), wrong)
    assert seen == []


def test_an_update_that_does_not_fit_the_model_is_refused_at_the_next_node(runner: Runner) -> None:
    seen: list[Any] = []
    with pytest.raises(ValidationError, match="nights"):
        runner.invoke(chain(Booking, lambda state: {"nights": "many"}, spy(seen)), {"guest": "Ada"})
    assert seen == []


def test_a_model_instance_is_an_input_and_an_update(runner: Runner) -> None:
    graph = chain(Booking, lambda state: Booking(guest=state.guest.upper(), nights=7, log=["a"]))
    result = runner.invoke(graph, Booking(guest="Ada", log=["in"]))
    assert result == {"guest": "ADA", "nights": 7, "log": ["in", "a"]}


def test_a_model_inside_the_state_keeps_its_type(
    runner: Runner, saver: Saver, config: RunnableConfig, reopen: Reopen
) -> None:
    class Holder(TypedDict, total=False):
        booking: Booking
        visit: Visit

    def graph(saver: Saver) -> Any:
        return chain(Holder, lambda state: {"visit": Visit("Bo", 2)}, saver=saver)

    runner.invoke(graph(saver), {"booking": Booking(guest="Ada")}, config)
    values = runner.get_state(graph(reopen(saver)), config).values
    assert values == {"booking": Booking(guest="Ada"), "visit": Visit("Bo", 2)}
    assert type(values["booking"]) is Booking


# Input, output and private schemas


class Question(TypedDict):
    question: str


class Answer(TypedDict):
    answer: str


class Talk(Question, Answer):
    draft: str


class Secret(TypedDict):
    secret: int


def test_input_and_output_schema_narrow_the_doors(runner: Runner) -> None:
    seen: list[Any] = []
    graph = chain(
        Talk,
        spy(seen, {"draft": "d", "answer": "a"}),
        input_schema=Question,
        output_schema=Answer,
    )
    result = runner.invoke(graph, {"question": "q", "answer": "smuggled in", "draft": "smuggled in"})
    assert result == {"answer": "a"}
    assert seen == [{"question": "q"}]


def test_a_private_schema_carries_keys_that_the_state_does_not_show(runner: Runner) -> None:
    seen: list[Any] = []

    def think(state: Talk) -> Secret:
        return {"secret": 42}

    def speak(state: Secret) -> Answer:
        seen.append(state)
        return {"answer": f"it is {state['secret']}"}

    def check(state: Talk) -> None:
        seen.append(state)

    result = runner.invoke(chain(Talk, think, speak, check), {"question": "q"})
    assert result == {"question": "q", "answer": "it is 42"}
    assert seen == [{"secret": 42}, result]


def test_a_send_may_carry_what_is_not_in_the_state(runner: Runner) -> None:
    seen: list[Any] = []
    builder: StateGraph[Any] = StateGraph(Talk).add_node("each", spy(seen))
    builder.set_conditional_entry_point(lambda state: [Send("each", {"page": n}) for n in (1, 2)], ["each"])
    runner.invoke(builder.compile(), {"question": "q"})
    assert sorted(state["page"] for state in seen) == [1, 2]


# Unknown keys


class Small(TypedDict, total=False):
    count: Annotated[int, operator.add]


def again_until(count: int) -> Callable[[Any], str]:
    return lambda state: END if state["count"] >= count else "looping"


def looping(node: Node, rounds: int = 3) -> Any:
    builder: StateGraph[Any] = StateGraph(Small).add_node("looping", node).add_edge(START, "looping")
    return builder.add_conditional_edges("looping", again_until(rounds), ["looping", END]).compile()


def test_a_key_that_is_no_channel_is_dropped_with_one_warning_per_node_and_key(runner: Runner) -> None:
    graph = looping(lambda state: {"count": 1, "cuont": 1, "typo": 2})
    with pytest.warns(UnknownChannelWarning) as caught:
        assert runner.invoke(graph, {"count": 0}) == {"count": 3}
    messages = sorted(str(warning.message) for warning in caught)
    assert all("looping" in message for message in messages)
    assert [("cuont" in message, "typo" in message) for message in messages] == [(True, False), (False, True)]


def test_the_same_unknown_key_from_two_nodes_is_two_warnings(runner: Runner) -> None:
    graph = chain(Small, lambda state: {"typo": 1}, lambda state: {"typo": 1})
    with pytest.warns(UnknownChannelWarning) as caught:
        runner.invoke(graph, {"count": 0})
    assert [name for w in caught for name in ("n0", "n1") if name in str(w.message)] == ["n0", "n1"]


def test_an_unknown_key_in_the_update_of_a_command_warns_too(runner: Runner) -> None:
    graph = chain(Small, lambda state: Command(update={"count": 1, "typo": 1}))
    with pytest.warns(UnknownChannelWarning, match="typo"):
        assert runner.invoke(graph, {"count": 0}) == {"count": 1}


def test_of_an_unknown_key_in_the_input_the_warning_says_so(runner: Runner) -> None:
    with pytest.warns(UnknownChannelWarning, match="^the input has the key 'typo', which is no channel"):
        runner.invoke(looping(lambda state: {"count": 1}), {"count": 0, "typo": 1})


def test_known_keys_do_not_warn(runner: Runner) -> None:
    assert runner.invoke(looping(lambda state: {"count": 1}), {"count": 0}) == {"count": 3}


@pytest.mark.filterwarnings("ignore::graphkit.errors.UnknownChannelWarning")
def test_input_keys_that_are_no_channel_are_not_stored(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    seen: list[Any] = []
    graph = chain(Small, spy(seen), saver=saver)
    assert runner.invoke(graph, {"count": 1, "typo": 2}, config) == {"count": 1}
    assert seen == [{"count": 1}]
    assert runner.get_state(graph, config).values == {"count": 1}


# Messages


def user(text: str, key: str) -> dict[str, str]:
    return {"role": "user", "content": text, "id": key}


def plain(messages: Any) -> list[tuple[Any, Any]]:
    """(id, content) of messages in any form."""
    return [
        (message["id"], message["content"]) if isinstance(message, dict) else (message.id, message.content)
        for message in messages
    ]


def test_add_messages_appends_and_replaces_by_id() -> None:
    merged = add_messages([user("one", "1"), user("two", "2")], [user("TWO", "2"), user("three", "3")])
    assert plain(merged) == [("1", "one"), ("2", "TWO"), ("3", "three")]


def test_add_messages_takes_a_single_message_on_either_side() -> None:
    assert plain(add_messages(user("one", "1"), user("two", "2"))) == [("1", "one"), ("2", "two")]


def test_add_messages_gives_every_message_an_id_of_its_own() -> None:
    given_messages = [{"role": "user", "content": text} for text in ("one", "one", "two")]
    ids = [key for key, _ in plain(add_messages([], given_messages))]
    assert len(set(ids)) == 3
    assert all(ids)


def test_add_messages_keeps_dicts_as_they_are() -> None:
    (message,) = add_messages([], [{"role": "user", "content": [{"text": "hi"}], "extra": 1}])
    assert isinstance(message, dict)
    assert {**message, "id": "x"} == {"role": "user", "content": [{"text": "hi"}], "extra": 1, "id": "x"}


def test_add_messages_keeps_foreign_objects_as_they_are() -> None:
    @dataclass
    class Note:
        content: str
        id: str | None = None

    note, replacement = Note("one", "1"), Note("ONE", "1")
    assert add_messages([], [note]) == [note]
    merged: Any = add_messages([note], [replacement])
    assert merged == [replacement]
    assert merged[0] is replacement


def test_add_messages_changes_neither_argument() -> None:
    left, right = [user("one", "1")], [user("ONE", "1"), {"role": "user", "content": "two"}]
    add_messages(left, right)
    assert left == [user("one", "1")]
    assert right == [user("ONE", "1"), {"role": "user", "content": "two"}]


def test_remove_message_removes_by_id() -> None:
    merged = add_messages([user("one", "1"), user("two", "2")], [RemoveMessage(id="1"), user("three", "3")])
    assert plain(merged) == [("2", "two"), ("3", "three")]


def test_removing_an_unknown_message_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="ghost"):
        add_messages([user("one", "1")], [RemoveMessage(id="ghost")])


def test_remove_all_messages_keeps_what_comes_after_it() -> None:
    writes = [user("two", "2"), RemoveMessage(id=REMOVE_ALL_MESSAGES), user("three", "3")]
    assert plain(add_messages([user("one", "1")], writes)) == [("3", "three")]


class Conversation(MessagesState):
    turns: Annotated[int, operator.add]


def test_messages_state_in_a_conversation(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    def answer(state: Any) -> Any:
        count = f"{len(state['messages'])} so far"
        return {"messages": [{"role": "assistant", "content": count}], "turns": 1}

    graph = chain(Conversation, answer, saver=saver)
    runner.invoke(graph, {"messages": [user("hi", "1")]}, config)
    result = runner.invoke(graph, {"messages": {"role": "user", "content": "and?"}}, config)
    assert [content for _, content in plain(result["messages"])] == ["hi", "1 so far", "and?", "3 so far"]
    assert result["turns"] == 2
    removed = runner.invoke(graph, {"messages": [RemoveMessage(id="1")]}, config)
    assert plain(removed["messages"])[0][1] == "1 so far"


# Round trips: a value comes back from a saver equal in value and in type (N15)


class Colour(Enum):
    RED = "red"
    GREEN = 2


class Point(NamedTuple):
    x: int
    y: int


class Anything(TypedDict, total=False):
    value: Any
    registers: tuple[Colour, Visit, Booking, Point]


texts = st.text(st.characters(), max_size=6)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**64),
    st.floats(allow_nan=False),
    texts,
    st.binary(max_size=6),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.dates(),
    st.datetimes(timezones=st.none() | st.just(UTC)),
    st.times(),
    st.timedeltas(),
    st.sampled_from(Colour),
    texts.map(lambda text: Path(text.replace("\0", "_") or ".")),
    st.builds(Visit, texts, st.integers()),
    st.builds(Booking, guest=st.text(max_size=6)),
)
keys = st.one_of(texts, st.integers(), st.tuples(texts, st.integers()), st.uuids(), st.dates())
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.sets(keys, max_size=3),
        st.frozensets(keys, max_size=3),
    ),
    max_leaves=8,
)


def same(left: Any, right: Any) -> bool:
    """Equal in value and type, all the way down; also the sign of zero and the order of keys."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        left, right = list(left.items()), list(right.items())
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, float | Decimal):
        return str(left) == str(right)
    return bool(left == right)


def round_trip(saver: Saver, thread: str, value: Any) -> Any:
    config = {"configurable": {"thread_id": thread}}
    chain(Anything, lambda state: {"value": value}, saver=saver).invoke({}, config)
    return chain(Anything, lambda state: None, saver=saver).get_state(config).values["value"]


@settings(max_examples=150, deadline=None)
@given(value=values)
def test_values_come_back_from_memory_equal_in_value_and_type(value: Any) -> None:
    assert same(round_trip(InMemorySaver(), "t", value), value)


@settings(max_examples=60, deadline=None)
@given(batch=st.lists(values, min_size=1, max_size=5))
def test_values_come_back_from_sqlite_equal_in_value_and_type(
    batch: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("round") / "threads.sqlite"
    saver, reader = SqliteSaver(str(path)), None
    try:
        for index, value in enumerate(batch):
            assert same(round_trip(saver, f"t{index}", value), value)
        reader = SqliteSaver(str(path))
        graph = chain(Anything, lambda state: None, saver=reader)
        for index, value in enumerate(batch):
            config = {"configurable": {"thread_id": f"t{index}"}}
            assert same(graph.get_state(config).values["value"], value)
    finally:
        saver.close()
        if reader is not None:
            reader.close()


@pytest.mark.parametrize(
    "value",
    [
        ("a", ("b",)),
        {"nul\0": "\0", "surrogate": "\ud800"},
        {1: "int", "1": "str", (1,): "tuple", None: "none"},
        2**200,
        -(2**70),
        float("inf"),
        -0.0,
        Decimal("1.10"),
        UUID(int=7),
        date(2024, 2, 29),
        datetime(2024, 1, 1, tzinfo=UTC),
        timedelta(microseconds=1),
        Colour.RED,
        {"nested": [Visit("Ada", 2, ["x"]), Booking(guest="Bo")]},
        frozenset({1, "a"}),
        b"\x00\xff",
        Path("/a/b"),
        deque([1, (2,)], maxlen=3),
        Point(1, 2),
        ZoneInfo("Europe/Berlin"),
        datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")),
        [[], {}, set(), (), ""],
    ],
    ids=lambda value: type(value).__name__,
)
def test_one_of_each(saver: Saver, value: Any) -> None:
    assert same(round_trip(saver, "t", value), value)


def test_nan_comes_back(saver: Saver) -> None:
    value = round_trip(saver, "t", [float("nan")])
    assert value[0] != value[0]


@pytest.mark.parametrize("value", [["a"], {"k": ["v"]}], ids=repr)
def test_what_a_run_keeps_is_not_changed_by_its_caller_afterwards(
    runner: Runner, saver: Saver, config: RunnableConfig, value: Any
) -> None:
    graph = chain(Anything, lambda state: {"value": value}, saver=saver)
    before = repr(value)
    result = runner.invoke(graph, {}, config)
    for spoiled in (value, result["value"]):
        spoiled.append("spoiled") if isinstance(spoiled, list) else spoiled.update(spoiled="spoiled")
    assert repr(runner.get_state(graph, config).values["value"]) == before
