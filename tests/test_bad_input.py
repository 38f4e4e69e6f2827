"""Bad input (SEMANTICS 10): what is wrong is said by name, before any node runs, and nothing is lost."""

import importlib
import os
import re
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypedDict

import pytest

from graphkit import Command, Send
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import (
    EmptyInputError,
    InvalidThreadIdError,
    InvalidUpdateError,
    StorageBusyError,
    StorageCorruptError,
    UnknownTypeError,
    UnserializableStateError,
)
from graphkit.types import RunnableConfig, StateUpdate
from tests.conftest import EMPTY, Build, Runner, Saver, State, graph_of, in_a_row, says

WORKERS = str(Path(__file__).parent / "workers")


def thread(thread_id: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}


@pytest.fixture
def ran() -> list[Any]:
    """What `watched` nodes were given."""
    return []


@pytest.fixture
def watched(build: Build, ran: list[Any]) -> Any:
    """A graph of one node that keeps its input in `ran`."""
    return build({"node": ran.append})


# Thread ids

DOORS: dict[str, tuple[Any, ...]] = {
    "invoke": (EMPTY,),
    "run": (EMPTY,),
    "stream": (EMPTY,),
    "get_state": (),
    "history": (),
    "update_state": (EMPTY, "node"),
    "bulk_update_state": ([[StateUpdate(EMPTY, "node")]],),
}


def through(runner: Runner, door: str, graph: Any, config: Any) -> Any:
    """Make the call, with the config where it belongs."""
    arguments = DOORS[door]
    if door in ("invoke", "run", "stream"):
        return getattr(runner, door)(graph, *arguments, config)
    return getattr(runner, door)(graph, config, *arguments)


BAD_THREAD_IDS = [
    None,
    "",
    "x" * 256,
    "a\0b",
    "\ud800",
    "ok\udfff",
    0,
    1,
    1.0,
    True,
    False,
    b"bytes",
    ["t"],
    ("t",),
    {"t": 1},
    object(),
]


@pytest.mark.parametrize("door", DOORS)
def test_a_bad_thread_id_is_refused_at_every_door(
    runner: Runner, watched: Any, ran: list[Any], door: str
) -> None:
    for thread_id in BAD_THREAD_IDS:
        with pytest.raises(InvalidThreadIdError, match="thread_id"):
            through(runner, door, watched, thread(thread_id))
    assert ran == []


@pytest.mark.parametrize("door", DOORS)
def test_a_missing_thread_id_is_refused_at_every_door(
    runner: Runner, watched: Any, ran: list[Any], door: str
) -> None:
    configs: list[Any] = [None, {}, {"configurable": {}}, {"recursion_limit": 5}]
    for config in configs:
        with pytest.raises(InvalidThreadIdError, match="thread_id"):
            through(runner, door, watched, config)
    assert ran == []


@pytest.mark.parametrize(
    "thread_id", ["t", "x" * 255, "größe 😀", " ", "a/b|c:d", "None", "\n", "0"], ids=ascii
)
def test_any_other_text_is_a_thread_id(runner: Runner, build: Build, thread_id: str) -> None:
    graph = build({"node": says("ran")})
    runner.invoke(graph, EMPTY, thread(thread_id))
    state = runner.get_state(graph, thread(thread_id))
    assert state.values == {"log": ["ran"]}
    assert state.config["configurable"]["thread_id"] == thread_id


def test_thread_ids_that_look_alike_are_different_threads(runner: Runner, build: Build) -> None:
    graph = build({"node": says("ran")})
    alike = ["a", "A", "a ", "å", "a\u030a", "%", "_"]
    for count, thread_id in enumerate(alike, 1):
        for _ in range(count):
            runner.invoke(graph, EMPTY, thread(thread_id))
    counts = [len(runner.get_state(graph, thread(thread_id)).values["log"]) for thread_id in alike]
    assert counts == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("door", DOORS)
def test_a_uuid_is_taken_by_its_canonical_text(runner: Runner, build: Build, door: str) -> None:
    graph = build({"node": says("ran")})
    key = uuid.UUID("12345678-1234-5678-1234-567812345678")
    runner.invoke(graph, EMPTY, thread(str(key)))
    before = len(runner.history(graph, thread(str(key))))
    through(runner, door, graph, thread(key))
    after = len(runner.history(graph, thread(str(key))))
    assert (after > before) == (door not in ("get_state", "history"))
    assert runner.get_state(graph, thread(key)) == runner.get_state(graph, thread(str(key)))


# Options of a run


def test_an_unknown_option_of_a_run_is_refused(runner: Runner, build: Build, config: RunnableConfig) -> None:
    graph = build({"node": says("ran")})
    with pytest.raises(TypeError, match="'sometimes'"):
        runner.invoke(graph, EMPTY, config, sometimes=True)
    assert runner.history(graph, config) == []


@pytest.mark.parametrize("name", ["checkpoint_id", "checkpoint_ns"])
@pytest.mark.parametrize("value", [5, 0, False, b"x", ["x"]], ids=repr)
def test_what_addresses_a_checkpoint_is_a_text(
    runner: Runner, saver: Saver, config: RunnableConfig, name: str, value: Any
) -> None:
    graph = graph_of({"node": says("node")}, saver=saver)
    runner.invoke(graph, EMPTY, config)
    bad: Any = {"configurable": {**config["configurable"], name: value}}
    for wrong in (
        lambda: runner.invoke(graph, EMPTY, bad),
        lambda: runner.get_state(graph, bad),
        lambda: runner.update_state(graph, bad, EMPTY, as_node="node"),
        lambda: saver.get_tuple(bad),
    ):
        with pytest.raises(ValueError, match=rf"{name} .* is a {type(value).__name__}"):
            wrong()
    assert runner.get_state(graph, config).values == {"log": ["node"]}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"limit": "2"}, ValueError),
        ({"limit": 2.5}, ValueError),
        ({"limit": True}, ValueError),
        ({"filter": "source"}, TypeError),
        ({"filter": [("source", "loop")]}, TypeError),
        ({"before": {"configurable": {"checkpoint_id": 5}}}, ValueError),
    ],
)
def test_a_bad_search_of_history_is_refused_by_name(
    saver: Saver, config: RunnableConfig, options: dict[str, Any], error: type[Exception]
) -> None:
    graph = graph_of({"node": says("node")}, saver=saver)
    graph.invoke(EMPTY, config)
    name = "checkpoint_id" if "before" in options else next(iter(options))
    for search in (graph.get_state_history, saver.list):
        with pytest.raises(error, match=name):
            list(search(config, **options))


@pytest.mark.parametrize("limit", [0, -1, 1.5, 5.0, "5", float("inf")], ids=repr)
def test_a_bad_recursion_limit_is_refused_before_anything_happens(
    runner: Runner, watched: Any, ran: list[Any], config: RunnableConfig, limit: Any
) -> None:
    with pytest.raises(ValueError, match="recursion_limit"):
        runner.invoke(watched, EMPTY, {**config, "recursion_limit": limit})
    assert ran == []
    assert runner.history(watched, config) == []


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("t", "config must be a dict"),
        ({"configurable": "t"}, r"config\['configurable'\] must be a dict"),
        ({"configurable": {"thread_id": "t"}, "metadata": ["m"]}, r"config\['metadata'\] must be a dict"),
    ],
    ids=["config", "configurable", "metadata"],
)
def test_a_malformed_config_is_refused(
    runner: Runner, watched: Any, ran: list[Any], config: Any, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        runner.invoke(watched, EMPTY, config)
    assert ran == []


@pytest.mark.parametrize("names", [3, "ghost", ["node", "ghost"]], ids=repr)
@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
def test_breakpoints_that_are_no_list_of_nodes_are_refused(
    runner: Runner, build: Build, ran: list[Any], config: RunnableConfig, option: str, names: Any
) -> None:
    named = f"{option} (must be a list|names 'ghost')"
    with pytest.raises(ValueError, match=named):
        runner.invoke(build({"node": ran.append}), EMPTY, config, **{option: names})
    with pytest.raises(ValueError, match=named):
        build({"node": ran.append}, **{option: names})
    assert ran == []


@pytest.mark.parametrize("limit", [0, -1, 1.5, "5"], ids=repr)
def test_a_bad_recursion_limit_is_refused_without_a_saver_too(
    runner: Runner, ran: list[Any], limit: Any
) -> None:
    with pytest.raises(ValueError, match="recursion_limit"):
        runner.invoke(graph_of({"node": ran.append}), EMPTY, {"recursion_limit": limit})
    assert ran == []


# Input


@pytest.mark.parametrize("given", ["text", 3, 1.5, True, object()], ids=lambda value: type(value).__name__)
def test_input_that_is_no_update_is_refused(
    runner: Runner, watched: Any, ran: list[Any], config: RunnableConfig, given: Any
) -> None:
    with pytest.raises(InvalidUpdateError, match=type(given).__name__):
        runner.invoke(watched, given, config)
    assert ran == []
    assert runner.history(watched, config) == []


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (Command(graph="other", goto="node"), "for graph 'other'"),
        (Command(update=3), "update of type int"),
    ],
    ids=["graph", "update"],
)
def test_a_command_of_a_node_that_cannot_be_followed_is_refused(
    runner: Runner, build: Build, config: RunnableConfig, command: Command[Any], named: str
) -> None:
    with pytest.raises(InvalidUpdateError, match=f"'node' .*{named}"):
        runner.invoke(build({"node": lambda state: command}), EMPTY, config)


def test_a_command_from_outside_is_for_the_graph_it_is_given_to(
    runner: Runner, watched: Any, ran: list[Any], config: RunnableConfig
) -> None:
    with pytest.raises(InvalidUpdateError, match="leave out graph="):
        runner.invoke(watched, Command(graph=Command.PARENT, goto="node"), config)
    assert ran == []


def test_no_input_on_a_new_thread_is_refused(
    runner: Runner, watched: Any, ran: list[Any], config: RunnableConfig
) -> None:
    with pytest.raises(EmptyInputError):
        runner.invoke(watched, None, config)
    with pytest.raises(EmptyInputError):
        runner.invoke(graph_of({"node": ran.append}), None)
    assert ran == []
    assert runner.history(watched, config) == []


# Values that cannot be stored


class Holder(TypedDict, total=False):
    value: Any


class Unknown:
    """A type that nobody registered."""


def cycle() -> list[Any]:
    knot: list[Any] = []
    knot.append(knot)
    return knot


UNSTORABLE: dict[str, Callable[[], Any]] = {
    "object": Unknown,
    "lambda": lambda: lambda: None,
    "lock": threading.Lock,
    "iterator": lambda: iter([]),
    "module": lambda: os,
    "class": lambda: Unknown,
    "cycle": cycle,
}


def makes(value: Any, saver: Saver) -> Any:
    """A graph whose node `maker` returns the value, or whatever the list `value` was changed to."""
    nodes = {"before": lambda state: None, "maker": lambda state: {"value": value}}
    return graph_of(nodes, in_a_row("before", "maker"), saver=saver, state=Holder)


@pytest.mark.parametrize("kind", UNSTORABLE)
def test_an_output_that_cannot_be_stored_is_refused_by_node_channel_and_path(
    runner: Runner, saver: Saver, config: RunnableConfig, kind: str
) -> None:
    graph = makes({"deep": [0, ("here", UNSTORABLE[kind]())]}, saver)
    with pytest.raises(UnserializableStateError, match="maker") as caught:
        runner.invoke(graph, {"value": 1}, config)
    message = str(caught.value)
    assert "value" in message
    assert re.search(r"deep\W+1\W+1", message)
    state = runner.get_state(graph, config)
    assert (state.values, state.next) == ({"value": 1}, ("maker",))


def test_the_type_that_cannot_be_stored_is_named(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    with pytest.raises(UnserializableStateError, match="Unknown"):
        runner.invoke(makes(Unknown(), saver), {"value": 1}, config)


def test_a_run_goes_on_when_the_node_has_been_mended(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    with pytest.raises(UnserializableStateError):
        runner.invoke(makes(Unknown(), saver), {"value": 1}, config)
    assert runner.invoke(makes(2, saver), None, config) == {"value": 2}


def test_input_that_cannot_be_stored_is_refused_before_any_node_runs(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    ran: list[Any] = []
    graph = graph_of({"node": ran.append}, saver=saver, state=Holder)
    with pytest.raises(UnserializableStateError, match=r"value.*deep|deep.*value"):
        runner.invoke(graph, {"value": {"deep": Unknown()}}, config)
    assert ran == []
    assert runner.history(graph, config) == []


def test_an_update_that_cannot_be_stored_is_refused(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    graph = makes(2, saver)
    runner.invoke(graph, {"value": 1}, config)
    before = runner.history(graph, config)
    with pytest.raises(UnserializableStateError, match="value"):
        runner.update_state(graph, config, {"value": Unknown()}, as_node="before")
    assert runner.history(graph, config) == before


def test_what_is_sent_and_cannot_be_stored_is_refused(
    runner: Runner, saver: Saver, config: RunnableConfig
) -> None:
    ran: list[Any] = []
    nodes: dict[str, Any] = {
        "sender": lambda state: Command(goto=Send("receiver", {"deep": Unknown()})),
        "receiver": ran.append,
    }
    options = {"sender": {"destinations": ("receiver",)}}
    graph = graph_of(nodes, in_a_row("sender"), saver=saver, state=Holder, node_options=options)
    with pytest.raises(UnserializableStateError, match="deep"):
        runner.invoke(graph, {"value": 1}, config)
    assert ran == []
    assert runner.get_state(graph, config).next == ("sender",)


def test_without_a_saver_anything_may_be_in_the_state(runner: Runner) -> None:
    value = Unknown()
    assert runner.invoke(makes(value, None), {"value": 1})["value"] is value


def test_a_stored_type_that_is_unknown_here_is_an_error_until_it_is_registered(
    tmp_path: Path, config: RunnableConfig
) -> None:
    path = tmp_path / "billing.sqlite"
    program = f"import foreign_types; foreign_types.write({str(path)!r}, {config!r})"
    search = os.pathsep.join([WORKERS, *sys.path])
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": search})
    ran: list[Any] = []
    with closing(SqliteSaver(path)) as saver:
        graph = graph_of({"node": ran.append}, saver=saver, state=Holder)
        for colour in ("sync", "async"):
            with pytest.raises(UnknownTypeError, match="Invoice") as unknown:
                Runner(colour).get_state(graph, config)
            assert unknown.value.__notes__[0].endswith("of thread 't'")
            with pytest.raises(UnknownTypeError, match="Invoice"):
                Runner(colour).invoke(graph, {}, config)
        assert ran == []
        assert "foreign_types" not in sys.modules
        sys.path.insert(0, WORKERS)
        foreign = importlib.import_module("foreign_types")
        sys.path.remove(WORKERS)
        assert foreign.billing(saver).get_state(config).values == {"value": foreign.Invoice(7)}


# A database that is locked


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program holds the database's lock."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[tuple[SqliteSaver, Path]]:
    """A saver that waits for a lock for a moment only, and its file."""
    path = tmp_path / "locked.sqlite"
    with closing(SqliteSaver(path, timeout=0.1)) as saver:
        yield saver, path


def test_a_locked_database_refuses_a_run_before_it_begins_and_the_same_call_then_works(
    runner: Runner, hasty: tuple[SqliteSaver, Path], config: RunnableConfig
) -> None:
    saver, path = hasty
    graph = graph_of({"node": says("ran")}, saver=saver)
    for turn in (1, 2):
        given: State = {"log": [f"turn {turn}"]}
        told = f"{re.escape(path.name)}.*the same call again.*a process that was stopped while it wrote"
        with locked(path), pytest.raises(StorageBusyError, match=told):
            runner.invoke(graph, given, config)
        runner.invoke(graph, given, config)
    assert runner.get_state(graph, config).values == {"log": ["turn 1", "ran", "turn 2", "ran"]}


def test_no_node_runs_while_the_database_is_locked(
    runner: Runner, hasty: tuple[SqliteSaver, Path], config: RunnableConfig
) -> None:
    saver, path = hasty
    ran: list[Any] = []
    graph = graph_of({"node": ran.append}, saver=saver)
    with locked(path), pytest.raises(StorageBusyError):
        runner.invoke(graph, EMPTY, config)
    assert ran == []


def test_a_lock_in_the_middle_of_a_run_costs_the_superstep_in_flight_and_no_more(
    runner: Runner, hasty: tuple[SqliteSaver, Path], config: RunnableConfig
) -> None:
    saver, path = hasty
    runs: list[str] = []
    lock = locked(path)

    def node(name: str) -> Callable[[State], State]:
        def work(state: State) -> State:
            runs.append(name)
            if runs == ["a", "b"]:
                lock.__enter__()
            return {"log": [name]}

        return work

    graph = graph_of({name: node(name) for name in "abc"}, in_a_row(*"abc"), saver=saver)
    with pytest.raises(StorageBusyError):
        runner.invoke(graph, {"log": ["in"]}, config)
    assert runs == ["a", "b"]
    lock.__exit__(None, None, None)
    assert runner.get_state(graph, config).values == {"log": ["in", "a"]}
    assert runner.invoke(graph, None, config) == {"log": ["in", "a", "b", "c"]}
    assert runs == ["a", "b", "b", "c"]


def test_a_locked_database_refuses_an_update_that_then_works(
    runner: Runner, hasty: tuple[SqliteSaver, Path], config: RunnableConfig
) -> None:
    saver, path = hasty
    graph = graph_of({"node": says("ran")}, saver=saver)
    with locked(path), pytest.raises(StorageBusyError):
        runner.update_state(graph, config, {"log": ["u"]}, as_node="node")
    runner.update_state(graph, config, {"log": ["u"]}, as_node="node")
    assert runner.get_state(graph, config).values == {"log": ["u"]}


# A file that is no database of ours


def a_database(path: Path) -> None:
    """A sound one of several pages."""
    with closing(SqliteSaver(path)) as saver:
        graph = graph_of({"node": says("x" * 2000)}, saver=saver)
        for _ in range(10):
            graph.invoke(EMPTY, thread("t"))
    assert path.stat().st_size > 16384


def cut(path: Path, keep: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


def another_programs(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
        connection.commit()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "half of it": lambda path: cut(path, 0.5),
    "a tenth of it": lambda path: cut(path, 0.1),
    "the last byte gone": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "100 bytes": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "10 bytes": lambda path: path.write_bytes(path.read_bytes()[:10]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "zeros after the header": lambda path: path.write_bytes(
        path.read_bytes()[:100] + bytes(path.stat().st_size - 100)
    ),
    "text": lambda path: path.write_text("Dear Sir or Madam,\n" * 500),
    "another program's": another_programs,
}


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_or_foreign_file_is_an_error_that_names_it(
    runner: Runner, tmp_path: Path, damage: str, create: bool
) -> None:
    path = tmp_path / "threads.sqlite"
    a_database(path)
    DAMAGE[damage](path)
    damaged = path.read_bytes()
    with (
        pytest.raises(StorageCorruptError, match=re.escape(path.name)),
        closing(SqliteSaver(path, create=create)) as saver,
    ):
        graph = graph_of({"node": says("ran")}, saver=saver)
        runner.get_state(graph, thread("t"))
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("content", [None, b""], ids=["missing", "empty"])
def test_a_missing_or_empty_file_is_an_error_if_it_must_exist(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "threads.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StorageCorruptError, match=re.escape(path.name)):
        SqliteSaver(path, create=False)
    assert (path.read_bytes() if path.exists() else None) == content


@pytest.mark.parametrize("content", [None, b""], ids=["missing", "empty"])
def test_a_missing_or_empty_file_becomes_a_database_otherwise(
    runner: Runner, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "threads.sqlite"
    if content is not None:
        path.write_bytes(content)
    with closing(SqliteSaver(path)) as saver:
        assert runner.invoke(graph_of({"node": says("ran")}, saver=saver), EMPTY, thread("t")) == {
            "log": ["ran"]
        }
    with closing(SqliteSaver(path, create=False)) as saver:
        graph = graph_of({"node": says("ran")}, saver=saver)
        assert runner.get_state(graph, thread("t")).values == {"log": ["ran"]}


def test_an_unknown_synchronous_setting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="OFF"):
        SqliteSaver(tmp_path / "threads.sqlite", synchronous="OFF")  # type: ignore[arg-type]
