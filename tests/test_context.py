"""The context of a run: what fits its schema reaches the nodes, what does not is refused before anything runs."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import operator
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NotRequired, Protocol, TypedDict, TypeVar

import pydantic
import pytest
from pydantic.dataclasses import dataclass as pydantic_dataclass

from graphkit import START, Command, StateGraph, interrupt
from graphkit.errors import GraphkitError, InvalidContextError
from graphkit.runtime import Runtime, get_runtime
from graphkit.types import RetryPolicy, RunnableConfig
from tests.conftest import Runner, Saver

if TYPE_CHECKING:
    from somewhere import Session  # type: ignore[import-not-found]


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


class Connection:
    """What only lives in this process."""


class Colour(enum.StrEnum):
    RED = "red"


class Address(TypedDict):
    street: str


class Speaks(Protocol):
    def speak(self) -> str: ...


class Model(pydantic.BaseModel):
    user: str
    limit: int = 3


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    user: str = pydantic.Field(alias="userName")


@dataclasses.dataclass
class Data:
    user: str
    limit: int = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    user: str
    limit: int = 3


@pydantic_dataclass
class Checked:
    user: str
    limit: int = 3


class Dict(TypedDict):
    user: str
    limit: NotRequired[int]


class Loose(TypedDict, total=False):
    user: str


SCHEMAS: dict[str, Any] = {
    "model": Model, "dataclass": Data, "frozen": Frozen, "pydantic dataclass": Checked, "TypedDict": Dict
}  # fmt: skip
OBJECTS = [schema for schema in SCHEMAS.values() if schema is not Dict]


@pytest.fixture
def ran() -> list[Any]:
    return []


def graph_of(schema: Any, ran: list[Any] | None = None, saver: Saver = None, **options: Any) -> Any:
    """A graph that notes the contexts it sees."""

    def node(state: State, runtime: Runtime[Any]) -> State:
        if ran is not None:
            ran.append(runtime.context)
        return {"log": ["ran"]}

    builder = StateGraph(State, schema).add_node("node", node).add_edge(START, "node")
    return builder.compile(checkpointer=saver, **options)


def seen(runner: Runner, schema: Any, context: Any) -> Any:
    ran: list[Any] = []
    runner.invoke(graph_of(schema, ran), {}, context=context)
    assert len(ran) == 1
    return ran[0]


# What fits


@pytest.mark.parametrize("schema", OBJECTS)
def test_an_instance_reaches_the_nodes_as_it_is(runner: Runner, schema: Any) -> None:
    context = schema(user="ada")
    assert seen(runner, schema, context) is context


@pytest.mark.parametrize("schema", OBJECTS)
def test_a_dict_becomes_an_instance(runner: Runner, schema: Any) -> None:
    assert seen(runner, schema, {"user": "ada", "limit": "4"}) == schema(user="ada", limit=4)


@pytest.mark.parametrize("schema", [Dict, Loose])
def test_the_dict_of_a_typed_dict_reaches_the_nodes_as_it_is(runner: Runner, schema: Any) -> None:
    context = {"user": "ada"}
    assert seen(runner, schema, context) is context


def test_an_instance_of_a_subclass_is_one(runner: Runner) -> None:
    @dataclasses.dataclass
    class More(Data):
        more: Any = None

    context = More("ada", more=1)
    assert seen(runner, Data, context) is context


def test_without_a_schema_anything_goes(runner: Runner) -> None:
    for context in (None, 7, {"any": "thing"}, Connection):
        assert seen(runner, None, context) is context


@dataclasses.dataclass
class Optional:
    limit: int = 3
    tags: list[str] = dataclasses.field(default_factory=list)


class OptionalModel(pydantic.BaseModel):
    limit: int = 3


@pytest.mark.parametrize(
    ("schema", "expected"), [(Optional, Optional()), (OptionalModel, OptionalModel()), (Loose, {})]
)
def test_no_context_is_one_without_fields(runner: Runner, schema: Any, expected: Any) -> None:
    assert seen(runner, schema, None) == expected


T = TypeVar("T")


@dataclasses.dataclass
class Everything(Generic[T]):
    """Fields as programs have them."""

    connection: Connection
    address: Address
    data: Data
    model: Model
    when: datetime.datetime
    amount: Decimal
    path: Path
    names: Sequence[str]
    call: Callable[[int], int]
    kind: Literal["a", "b"]
    generic: T
    number: float
    sloppy: str = None  # type: ignore[assignment]
    colour: str = Colour.RED
    speaker: Speaks | None = None
    session: Session | None = None
    extra: dataclasses.InitVar[int] = 0
    made: int = dataclasses.field(init=False, default=0)

    def __post_init__(self, extra: int) -> None:
        self.made = extra


EVERYTHING: dict[str, Any] = {
    "connection": Connection(),
    "address": {"street": "s"},
    "data": Data("ada"),
    "model": Model(user="ada"),
    "when": datetime.datetime(2026, 1, 1),
    "amount": Decimal(1),
    "path": Path("p"),
    "names": ["a"],
    "call": abs,
    "kind": "a",
    "generic": object(),
    "number": 1,
    "speaker": object(),
    "session": object(),
    "extra": 5,
}


@pytest.mark.parametrize("schema", [Everything, Everything[int]], ids=["plain", "generic"])
def test_fields_of_every_kind(runner: Runner, schema: Any) -> None:
    context = Everything(**EVERYTHING)
    assert seen(runner, schema, context) is context
    built = seen(runner, schema, EVERYTHING)
    assert built == context
    assert (built.made, built.connection) == (5, context.connection)


def test_a_dict_is_converted_as_pydantic_converts(runner: Runner) -> None:
    texts = {
        "when": "2026-01-01T00:00:00",
        "amount": "1",
        "path": "p",
        "data": {"user": "ada"},
        "number": "1",
    }
    assert seen(runner, Everything, EVERYTHING | texts) == Everything(**EVERYTHING)


def test_a_model_keeps_to_its_own_config(runner: Runner) -> None:
    context = seen(runner, Aliased, {"userName": "ada", "more": 1})
    assert (context.user, context.more) == ("ada", 1)


# What does not


def refused(runner: Runner, schema: Any, context: Any, *said: str, **options: Any) -> str:
    """The refusal, which came before anything ran and says all of this."""
    ran: list[Any] = []
    graph = graph_of(schema, ran, name="orders", **options)
    with pytest.raises(InvalidContextError) as caught:
        runner.invoke(graph, {}, context=context)
    assert ran == []
    message = str(caught.value)
    for part in ("graph 'orders'", *said):
        assert part in message
    return message


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_missing_field_is_named(runner: Runner, schema: Any) -> None:
    refused(runner, schema, {"limit": 1}, schema.__name__, "user: ", "'limit'")


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_no_context_where_fields_are_required_is_refused(runner: Runner, schema: Any) -> None:
    refused(runner, schema, None, schema.__name__, "none", "user: ")


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_wrong_type_is_named_with_what_was_given(runner: Runner, schema: Any) -> None:
    message = refused(runner, schema, {"user": "secret", "limit": "not int"}, "limit: ", "'not int'")
    assert "secret" not in message


@pytest.mark.parametrize("schema", [Data, Frozen, Dict])
def test_an_unknown_field_is_named(runner: Runner, schema: Any) -> None:
    refused(runner, schema, {"user": "ada", "nope": 1}, "nope: ")


@pytest.mark.parametrize("schema", [Data, Frozen])
@pytest.mark.parametrize("limit", ["not int", "3", 1.5, None])
def test_an_instance_with_a_wrong_field_is_refused(runner: Runner, schema: Any, limit: Any) -> None:
    refused(runner, schema, schema(user="ada", limit=limit), "limit: ", repr(limit))


def test_a_dict_that_is_handed_on_is_not_converted(runner: Runner) -> None:
    refused(runner, Dict, {"user": "ada", "limit": "3"}, "limit: ", "'3'")


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize(
    "context",
    [Connection(), "ada", 7, [("user", "ada")], Data],
    ids=["connection", "text", "number", "pairs", "class"],
)
def test_an_instance_of_another_class_is_refused(runner: Runner, schema: Any, context: Any) -> None:
    refused(runner, schema, context, schema.__name__, type(context).__name__)


@pytest.mark.parametrize(
    ("schema", "context"), [(Data, Model(user="a")), (Model, Data("a")), (Dict, Data("a"))]
)
def test_an_instance_with_the_same_fields_is_another_class(runner: Runner, schema: Any, context: Any) -> None:
    refused(runner, schema, context, schema.__name__, type(context).__name__)


def test_a_schema_without_fields_wants_an_instance(runner: Runner) -> None:
    connection, refusing = Connection(), {"user": "ada"}
    assert seen(runner, Connection, connection) is connection
    assert seen(runner, Connection, None) is None
    assert seen(runner, dict, refusing) is refusing
    assert seen(runner, Speaks, connection) is connection  # nothing can tell whether it is one
    refused(runner, Connection, refusing, "Connection", "'user'")
    refused(runner, dict, connection, "dict", "Connection")


def test_what_the_class_itself_refuses(runner: Runner) -> None:
    @dataclasses.dataclass
    class Positive:
        limit: int

        def __post_init__(self) -> None:
            if self.limit < 1:
                raise ValueError("limit must be positive")

    refused(runner, Positive, {"limit": 0}, "limit must be positive")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("connection", 1), ("address", {}), ("data", {"user": "ada"}), ("model", {}), ("when", "2026"),
        ("names", [1]), ("call", 1), ("kind", "c"), ("number", "1"), ("made", "x"),
    ],
)  # fmt: skip
def test_every_field_of_an_instance_is_looked_at(runner: Runner, field: str, value: Any) -> None:
    context = Everything(**EVERYTHING)
    setattr(context, field, value)
    refused(runner, Everything, context, f"{field}")


def test_the_refusal_is_a_value_error_of_ours() -> None:
    assert issubclass(InvalidContextError, ValueError)
    assert issubclass(InvalidContextError, GraphkitError)


def test_nothing_is_stored_of_a_refused_run(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    graph = graph_of(Data, saver=saver)
    with pytest.raises(InvalidContextError):
        runner.invoke(graph, {"log": ["in"]}, config, context={})
    assert runner.history(graph, config) == []
    with pytest.raises(InvalidContextError):
        runner.stream(graph, {"log": ["in"]}, config, context={})
    assert runner.invoke(graph, {}, config, context={"user": "ada"})["log"] == ["ran"]


def test_going_on_needs_the_context_again(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    def ask(state: State, runtime: Runtime[Data]) -> State:
        return {"log": [interrupt("?"), runtime.context.user]}

    builder = StateGraph(State, Data).add_node("ask", ask).add_edge(START, "ask")
    graph = builder.compile(checkpointer=saver)
    runner.invoke(graph, {}, config, context=Data("ada"))
    with pytest.raises(InvalidContextError):
        runner.invoke(graph, Command(resume="yes"), config)
    assert "__interrupt__" in runner.invoke(graph, None, config, context=Data("bob"))
    assert runner.invoke(graph, Command(resume="yes"), config, context=Data("eve"))["log"] == ["yes", "eve"]


def test_editing_a_thread_needs_no_context(runner: Runner, saver: Saver, config: RunnableConfig) -> None:
    graph = graph_of(Data, saver=saver)
    runner.invoke(graph, {}, config, context=Data("ada"))
    runner.update_state(graph, config, {"log": ["edited"]})
    assert runner.get_state(graph, config).values["log"] == ["ran", "edited"]


# Graphs below


class Wider(TypedDict):
    user: str
    limit: int
    tenant: str


@dataclasses.dataclass
class WiderData:
    tenant: str
    user: str
    limit: int = 3


class WiderModel(pydantic.BaseModel):
    tenant: str
    user: str


WIDER = [
    (Wider, {"user": "ada", "limit": 3, "tenant": "t"}),
    (WiderData, WiderData("t", "ada")),
    (WiderModel, WiderModel(tenant="t", user="ada")),
]


@pytest.mark.parametrize("around, context", WIDER, ids=["dict", "dataclass", "model"])
@pytest.mark.parametrize("below", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("kind", ["node", "call"])
def test_a_graph_below_takes_of_an_inherited_context_what_it_knows(
    runner: Runner, ran: list[Any], kind: str, below: Any, around: Any, context: Any
) -> None:
    """It needs no more than it declares, and LangGraph gives it all."""
    child = graph_of(below, ran)
    builder = StateGraph(State, around)
    builder.add_node("c", child if kind == "node" else lambda state: child.invoke({}))
    runner.invoke(builder.add_edge(START, "c").compile(), {}, context=context)
    (found,) = ran
    if below is not Dict:
        assert found == below(user="ada", limit=3)
    elif isinstance(context, dict):
        assert found is context
    else:
        assert found in ({"user": "ada", "limit": 3}, {"user": "ada"})


def test_a_field_that_an_inherited_context_has_otherwise_is_refused(runner: Runner, ran: list[Any]) -> None:
    class Other(TypedDict):
        user: int
        tenant: str

    for below in SCHEMAS.values():
        child = graph_of(below, ran, name="child")
        graph = StateGraph(State, Other).add_node("c", child).add_edge(START, "c").compile()
        with pytest.raises(InvalidContextError, match=r"'child'.*inherits.*user"):
            runner.invoke(graph, {}, context={"user": 5, "tenant": "t"})
    assert ran == []


@dataclasses.dataclass
class Nobody:
    tenant: str = "t"


def test_an_inherited_context_must_fit_the_graph_below(runner: Runner, ran: list[Any]) -> None:
    child = graph_of(Model, ran, name="child")
    graph = StateGraph(State, Nobody).add_node("c", child).add_edge(START, "c").compile()
    with pytest.raises(InvalidContextError, match=r"'child'.*Model.*inherits.*Nobody.*user") as caught:
        runner.invoke(graph, {}, context=Nobody())
    assert ran == []
    assert any("'c'" in note for note in caught.value.__notes__)


def test_a_context_that_does_not_fit_is_not_tried_again(runner: Runner, ran: list[Any]) -> None:
    child = graph_of(Model, name="child")

    def call(state: State) -> State:
        ran.append("call")
        child.invoke({})
        return {}

    builder = StateGraph(State, Nobody).add_node(call, retry_policy=RetryPolicy(initial_interval=0.01))
    with pytest.raises(InvalidContextError):
        runner.invoke(builder.add_edge(START, "call").compile(), {}, context=Nobody())
    assert ran == ["call"]


def test_an_inherited_dict_becomes_what_the_graph_below_wants(runner: Runner, ran: list[Any]) -> None:
    child = graph_of(Model, ran)
    graph = StateGraph(State).add_node("c", child).add_edge(START, "c").compile()
    runner.invoke(graph, {}, context={"user": "ada"})
    with pytest.raises(InvalidContextError, match="none"):
        runner.invoke(graph, {})
    assert ran == [Model(user="ada")]


def test_a_graph_below_may_be_given_a_context_of_its_own(runner: Runner, ran: list[Any]) -> None:
    child = graph_of(Model, ran)
    grandchild = graph_of(None, ran)

    def call(state: State) -> State:
        context = get_runtime(Data).context
        child.invoke({}, context=Model(user=context.user))
        child.invoke({}, context={"user": context.user})
        grandchild.invoke({})
        return {}

    graph = StateGraph(State, Data).add_node(call).add_edge(START, "call").compile()
    context = Data("ada")
    runner.invoke(graph, {}, context=context)
    assert ran == [Model(user="ada"), Model(user="ada"), context]
    assert ran[2] is context


# What it costs


def test_without_a_schema_pydantic_is_not_loaded() -> None:
    import subprocess

    program = (
        "import sys; from typing import TypedDict; from graphkit import START, StateGraph\n"
        "class State(TypedDict, total=False):\n    x: int\n"
        "graph = StateGraph(State).add_node('n', lambda state: {'x': 1}).add_edge(START, 'n').compile()\n"
        "graph.invoke({'x': 0}, context={'user': 'ada'}); print('pydantic' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=240
    )
    assert ran.stdout == "False\n"
