"""Stored bytes that are hostile, damaged, odd or large: never a wrong value, never more space than needed.

Rows 10 to 13 of the safety table, as far as a saver can answer for them.
"""

from __future__ import annotations

import operator
import os
import random
import sqlite3
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict
from zlib import crc32
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from graphkit import Command, Send
from graphkit.errors import CheckpointCorruptError, ConcurrentUpdateError, GraphkitError, StateTooLargeError
from graphkit.types import Overwrite, RunnableConfig
from graphkit_checkpoint import codecs
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.errors import UnknownTypeError
from graphkit_checkpoint.layout import seal
from graphkit_checkpoint.memory import InMemorySaver
from graphkit_checkpoint.ownership import forget_token, new_token
from graphkit_checkpoint.records import Checkpoint, Commit, Pending, Saved, Tip
from graphkit_checkpoint.serde import pack, unpack
from graphkit_checkpoint.sqlite import SqliteSaver
from graphkit_checkpoint.statements import thread_table
from tests.checkpoint.storages import (
    TABLES,
    MemoryStorage,
    Row,
    SqliteStorage,
    SqlStorage,
    Storage,
    storage_of,
)
from tests.checkpoint.test_serde import EXAMPLES, HASHABLE, VALUES, exact, mutated
from tests.conftest import Build, Reopen, Runner, asks, graph_of, in_a_row, says

CHAOS = bool(os.environ.get("GRAPHKIT_CHAOS"))
CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}
IDS = ("0199c0de-000000-aaaa", "0199c0df-000001-aaaa", "0199c0e0-000002-aaaa")


class State(TypedDict, total=False):
    blob: Any
    log: Annotated[list[Any], operator.add]
    book: Annotated[dict[Any, Any], operator.or_]


LONG = "x" * 64
"""Begins a list that has rows of its own."""


def small_thread(saver: BaseCheckpointSaver) -> None:
    """Three checkpoints with a list, a dict, a value, an input and what runs next; beside the last two records. And one
    of a nested graph, with a record."""
    token, tip = new_token(), Tip()
    first = Checkpoint(IDS[0], None, -1, "input", 1.5, {"m": 1}, {"next": ["a"]}, given=[("log", [LONG])])
    second = Checkpoint(
        IDS[1], IDS[0], 0, "loop", 1.5, {"m": 1}, {"next": ["a", "b"]}, {"w": [1]},
        {"log": [LONG], "k": "v", "book": {"a": 1}},
    )  # fmt: skip
    third = Checkpoint(
        IDS[2], IDS[1], 1, "loop", 1.5, {"m": 1}, {"next": ["a", "b"]}, {"w": [1]},
        {"log": [LONG, "y"], "k": "w", "book": {"a": 1, "b": 2}}, extended={"log": 1, "book": ["b"]},
    )  # fmt: skip
    saver.commit(Commit("t", "", token, tip, True, None, False, (first, second)))
    nested = Checkpoint(IDS[2], None, 0, "loop", 1.5, {}, {"next": ["n"]}, None, {"k": "inner"})
    beside = [Pending("inner", "answer", "", "yes")]
    saver.commit(Commit("t", "sub", token, Tip(), False, None, False, (nested,), IDS[2], beside))
    records = [Pending("task1", "output", "", {"writes": ["z"]}), Pending("task2", "question", "q", "sure?")]
    saver.commit(Commit("t", "", token, tip, False, None, True, (third,), IDS[2], records))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def storage(request: pytest.FixtureRequest) -> Iterator[Storage]:
    made = storage_of(request.param, request)
    yield made
    made.close()


def view(saver: BaseCheckpointSaver) -> Any:
    """All that can be read of the thread, in a form that differs if anything does."""
    thread, head = saver.find("t")
    if thread is None or head is None:
        return None
    asked = [pack(vars_of(record)) for record in saver.find_pending("t", "question", "q")]
    _, nested = saver.find("t", "sub")
    inside = None if nested is None else shown(nested)
    return thread.head, shown(head), [shown(saved) for saved in saver.history("t")], asked, inside


def shown(saved: Saved) -> Any:
    checkpoint = saved.checkpoint
    fields = [getattr(checkpoint, name) for name in Checkpoint.__slots__ if name != "changed"]
    return pack([[list(field) if type(field) is tuple else field for field in fields], saved.values]), [
        pack(vars_of(record)) for record in saved.pending
    ]


def vars_of(record: Pending) -> list[Any]:
    return [record.task_id, record.kind, record.key, record.value]


# Row 10: bytes by somebody who means harm, and can make checksums


RUNS_CODE = frozenset(
    {"exec", "compile", "import", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen",
     "pickle.find_class", "ctypes.dlopen", "marshal.loads", "code.__new__", "function.__new__"}
)  # fmt: skip


class Watch:
    """Notes whatever would run code while it is on. A hook cannot be taken away again."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        if self.on and event in RUNS_CODE:
            self.seen.append(f"{event} {args!r:.100}")


@pytest.mark.parametrize(
    "key", ["Nowhere/City", "Europe", "../etc/passwd", "/etc/passwd", "a\0b", "os.path", ""]
)
def test_a_time_zone_that_is_not_known_is_refused_and_imports_nothing(key: str) -> None:
    """Where the system does not have a zone, `zoneinfo` imports a package that is named by it."""
    stored = pack(ZoneInfo("Europe/Berlin"))
    watch = Watch()
    unpack(stored)
    watch.on = True
    try:
        with pytest.raises((UnknownTypeError, CheckpointCorruptError), match="time zone"):
            codecs._zone(key)
    finally:
        watch.on = False
    assert [event for event in watch.seen if event.startswith("import")] == []


def test_hostile_rows_are_refused_or_read_and_run_nothing() -> None:
    rng = random.Random(10)
    storage = MemoryStorage()
    small_thread(storage.open())
    stored = {table: storage.rows(table) for table in TABLES}
    places = [(table, index) for table in TABLES for index in range(len(stored[table]))]
    bodies = [row["body"] for rows in stored.values() for row in rows]
    blobs = [blob for value in EXAMPLES if len(blob := pack(value)) < 500] + 5 * bodies
    outcomes: Counter[str] = Counter()
    watch, slowest = Watch(), 0.0
    view(storage.opened[0])
    for _ in range(20_000 if CHAOS else 5_000):
        table, index = rng.choice(places)
        row = stored[table][index]
        rows = [
            *stored[table][:index],
            resealed(row, mutated(row["body"], blobs, rng)),
            *stored[table][index + 1 :],
        ]
        storage.replace(table, rows)
        watch.on, start = True, time.monotonic()
        try:
            view(storage.opened[0])
        except GraphkitError as error:
            outcomes[type(error).__name__] += 1
        else:
            outcomes["read"] += 1
        finally:
            watch.on, slowest = False, max(slowest, time.monotonic() - start)
        storage.replace(table, stored[table])
    print(f"\nhostile rows: {dict(outcomes)}, slowest {1000 * slowest:.0f} ms")
    assert watch.seen == []
    assert outcomes["CheckpointCorruptError"] > 1000
    assert outcomes["read"] > 100


def resealed(row: Row, body: bytes) -> Row:
    place = tuple(cell for name, cell in row.items() if name not in ("body", "checksum"))
    return {**row, "body": body, "checksum": seal(crc32(body), place)}


@pytest.mark.parametrize("length", [-1, -(2**40), 0, 3, 2**32, 2**60])
def test_a_row_that_says_how_many_items_it_has_and_has_others_is_refused(length: int) -> None:
    storage = MemoryStorage()
    small_thread(storage.open())
    rows = storage.rows("value")
    index = max(range(len(rows)), key=lambda index: rows[index]["start"])
    forged = {**rows[index], "length": length}
    storage.replace("value", [*rows[:index], resealed(forged, forged["body"]), *rows[index + 1 :]])
    with pytest.raises(CheckpointCorruptError):
        storage.opened[0].load("t")


# Row 11: every single bit


class Flip(NamedTuple):
    table: str
    column: str
    row: int
    bit: int


class Flipper:
    """A small thread in an SQLite database in memory, whose cells are changed one bit at a time."""

    def __init__(self) -> None:
        self.database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self.saver = SqliteSaver(self.database)
        small_thread(self.saver)
        self.right = view(self.saver)
        self.columns = {
            table: [row[1] for row in self.database.execute(f"PRAGMA table_info(graphkit_{table})")]
            for table in ("checkpoint", "value", "write", "thread")
        }
        self.rows = {table: self._read(table) for table in self.columns}

    def close(self) -> None:
        self.saver.close()
        self.database.close()

    def _read(self, table: str) -> list[list[Any]]:
        listed = ", ".join(self.columns[table])
        return [list(row) for row in self.database.execute(f"SELECT {listed} FROM graphkit_{table}")]

    def flips(self) -> Iterator[Flip]:
        for table, rows in self.rows.items():
            for number, row in enumerate(rows):
                for column, cell in zip(self.columns[table], row, strict=True):
                    for bit in range(8 * len(as_bytes(cell))):
                        yield Flip(table, column, number, bit)

    def outcome(self, flip: Flip) -> str:
        rows = [list(row) for row in self.rows[flip.table]]
        column = self.columns[flip.table].index(flip.column)
        rows[flip.row][column] = flipped(rows[flip.row][column], flip.bit)
        try:
            self._replace(flip.table, rows)
        except sqlite3.IntegrityError:  # the database itself would not have it
            return "refused"
        try:
            found = view(self.saver)
        except GraphkitError as error:
            return type(error).__name__
        return "same" if found == self.right else "wrong"

    def _replace(self, table: str, rows: list[list[Any]]) -> None:
        self.database.execute(f"DELETE FROM graphkit_{table}")
        for row in rows:
            marks = ", ".join("CAST(? AS TEXT)" if isinstance(cell, memoryview) else "?" for cell in row)
            self.database.execute(f"INSERT INTO graphkit_{table} VALUES ({marks})", row)

    def restore(self, table: str) -> None:
        self._replace(table, self.rows[table])


def as_bytes(cell: Any) -> bytes:
    if cell is None:
        return b""
    if isinstance(cell, int):
        return struct.pack(">q", cell)
    if isinstance(cell, float):
        return struct.pack(">d", cell)
    return cell if isinstance(cell, bytes) else str(cell).encode()


def flipped(cell: Any, bit: int) -> Any:
    """The cell with one bit changed; a text as a memoryview, since it may be none any more."""
    raw = bytearray(as_bytes(cell))
    raw[bit // 8] ^= 1 << bit % 8
    if isinstance(cell, (int, float)):
        return struct.unpack(">q" if isinstance(cell, int) else ">d", raw)[0]
    return bytes(raw) if isinstance(cell, bytes) else memoryview(raw)


@pytest.fixture
def flipper() -> Iterator[Flipper]:
    made = Flipper()
    yield made
    made.close()


def test_every_flipped_bit_of_every_cell_is_an_error_or_changes_nothing(flipper: Flipper) -> None:
    outcomes: dict[tuple[str, str], Counter[str]] = {}
    for flip in flipper.flips():
        outcomes.setdefault(flip[:2], Counter())[flipper.outcome(flip)] += 1
        flipper.restore(flip.table)
    total = sum(map(Counter.total, outcomes.values()))
    wrong = {cell: found["wrong"] for cell, found in outcomes.items() if found["wrong"]}
    harmless = {cell for cell, found in outcomes.items() if found["same"]}
    print(f"\n{total} flipped bits; unnoticed: {wrong}; no difference: {sorted(harmless)}")
    assert total > 5000
    assert view(flipper.saver) == flipper.right
    # The thread's row says who owns the thread and when, the count of records how many there are: none of it is state.
    count = {("write", name) for name in ("thread_id", "namespace", "checkpoint_id")}
    assert all(table == "thread" or (table, column) in count for table, column in harmless)
    assert wrong == {}


def test_records_of_a_writer_who_does_not_know_the_others_are_not_counted(storage: Storage) -> None:
    saver = storage.open()
    small_thread(saver)
    more = [Pending("task3", "output", "", 1)]
    seen = saver.open("t").thread
    saver.commit(Commit("t", "", new_token(), Tip(), True, seen, True, at=IDS[2], pending=more))
    found = saver.load("t")
    assert found is not None
    assert [record.task_id for record in found.pending] == ["task1", "task2", "task3"]


@pytest.mark.parametrize("storage", ["sqlite", "postgres"], indirect=True)
def test_a_thread_whose_row_is_lost_is_no_new_thread(storage: SqlStorage) -> None:
    saver = storage.open()
    graph = graph_of({"a": says("a")}, saver=saver)
    graph.invoke({"log": ["in"]}, CONFIG)
    with storage.engine.begin() as connection:
        connection.execute(delete(thread_table))
    calls: list[Callable[[], Any]] = [
        lambda: graph.get_state(CONFIG),
        lambda: list(graph.get_state_history(CONFIG)),
        lambda: graph.invoke({"log": ["again"]}, CONFIG),
    ]
    for call in calls:
        with pytest.raises(CheckpointCorruptError, match=r"'t'.*row is missing"):
            call()
    saver.delete_thread("t")
    assert graph.invoke({"log": ["anew"]}, CONFIG)["log"] == ["anew", "a"]


@pytest.mark.parametrize("owner", ["damaged", "host/pid/start/1"])
def test_a_damaged_owner_is_respected_while_its_lease_runs(flipper: Flipper, owner: str) -> None:
    token = new_token()
    forget_token(token)
    owner = owner.replace("host", token.rsplit("/", 3)[0])
    flipper.database.execute("UPDATE graphkit_thread SET owner = ?, lease = 9e9", (owner,))
    with pytest.raises(ConcurrentUpdateError, match="'t'"):
        flipper.saver.open("t")


@pytest.mark.parametrize("cell", ["x'ff'", "x''", "'zz'", "NULL", "5", "9e999"])
@pytest.mark.parametrize(
    "place", ["thread.owner", "thread.lease", "thread.head", "thread.namespace", "value.start"]
)
def test_cells_of_another_type_are_errors_of_ours_too(flipper: Flipper, place: str, cell: str) -> None:
    """SQLite's columns take anything, and one bit of a row tells texts from blobs."""
    table, column = place.split(".")
    lease = 9e9 if place == "thread.owner" else 0
    flipper.database.execute("UPDATE graphkit_thread SET owner = 'elsewhere/1/2/3', lease = ?", (lease,))
    with suppress(sqlite3.IntegrityError):  # the database itself would not have it
        flipper.database.execute(f"UPDATE graphkit_{table} SET {column} = {cell}")
    saver = flipper.saver
    for call in (
        lambda: view(saver),
        lambda: saver.open("t"),
        lambda: saver.usage("t"),
        lambda: saver.prune("t", keep_last=1),
        lambda: saver.copy_thread("t", "copy"),
        lambda: saver.delete_thread("t"),
    ):
        with suppress(GraphkitError):
            call()


def test_any_flipped_bit_of_a_file_is_an_error_of_ours_or_loses_all_records_of_a_checkpoint() -> None:
    """Also those of SQLite's own pages. What an index of SQLite's does not find any more cannot be missed."""
    source = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    source.execute("PRAGMA page_size = 512")
    with SqliteSaver(source) as saver:
        small_thread(saver)
        right, file = view(saver), source.serialize()
    source.close()
    bits = range(8 * len(file)) if CHAOS else random.Random(11).sample(range(8 * len(file)), 150)
    outcomes: Counter[str] = Counter()
    for bit in bits:
        database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        database.deserialize(flipped(file, bit))
        try:
            with SqliteSaver(database) as saver:
                found = view(saver)
            outcomes["same" if found == right else "lost" if without_records(found, right) else "wrong"] += 1
        except GraphkitError as error:
            outcomes[type(error).__name__] += 1
        finally:
            database.close()
    print(f"\n{len(bits)} of {8 * len(file)} bits of a file flipped: {dict(outcomes)}")
    assert outcomes["wrong"] == 0


def without_records(found: Any, right: Any) -> bool:
    """Whether it reads as it was but for checkpoints that have no record beside them any more."""
    if found is None:
        return False
    pairs = [(found[1], right[1]), (found[4], right[4]), *zip(found[2], right[2], strict=False)]
    return (found[0], len(found[2])) == (right[0], len(right[2])) and all(
        body == whole and beside in ([], records) for (body, beside), (whole, records) in pairs
    )


TABLE_COLUMNS = [
    *(("checkpoint", column) for column in ("parent_id", "base_id", "step", "body", "checksum")),
    *(("value", column) for column in ("log", "start", "length", "kind", "previous", "body", "checksum")),
    *(("write", column) for column in ("task_id", "kind", "key", "body", "checksum")),
]


def damaged(value: Any) -> Any:
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    if isinstance(value, str) and value:
        return chr(ord(value[0]) ^ 1) + value[1:]
    return value ^ 64 if isinstance(value, int) else "0"


def test_damage_in_any_column_is_an_error_with_thread_and_checkpoint(storage: Storage) -> None:
    small_thread(storage.open())
    for table, column in TABLE_COLUMNS:
        rows = storage.rows(table)
        for number, row in enumerate(rows):
            broken = {**row, column: damaged(row[column])}
            storage.replace(table, [*rows[:number], broken, *rows[number + 1 :]])
            with pytest.raises(CheckpointCorruptError, match=r"checkpoint '.*' of thread 't'"):
                view(storage.opened[0])
        storage.replace(table, rows)
    assert view(storage.opened[0]) is not None


# Row 12: any value, wherever it can be stored


def test_any_value_comes_back_from_wherever_it_is_stored(storage: Storage) -> None:
    saver = storage.open()

    @settings(max_examples=1000 if CHAOS else 50, suppress_health_check=list(HealthCheck))
    @given(st.lists(VALUES, min_size=1, max_size=4), st.lists(HASHABLE, max_size=3))
    def examine(values: list[Any], keys: list[Any]) -> None:
        token, tip = new_token(), Tip()
        book = dict.fromkeys(keys, values[0])
        state = {"log": values[:1], "book": {}, "bare": values[0], "nested": (values, {"in": values})}
        more = {"log": values, "book": book}
        metadata, work = {"m": values}, {"w": values}
        first = Checkpoint(IDS[0], None, -1, "input", 1.5, metadata, {}, work, {}, (), [("bare", values[-1])])
        second = Checkpoint(IDS[1], IDS[0], 0, "loop", 1.5, metadata, {}, work, state)
        third = Checkpoint(
            IDS[2],
            IDS[1],
            1,
            "loop",
            1.5,
            {},
            {},
            None,
            more,
            extended={"log": len(values) - 1, "book": list(book)},
        )
        pending = [Pending(str(number), "output", "", value) for number, value in enumerate(values)]
        saver.commit(Commit("t", "", token, tip, True, None, False, (first, second)))
        saver.commit(Commit("t", "", token, tip, False, None, True, (third,), IDS[2], pending))
        head, before, start = saver.history("t")
        assert exact(head.values) == exact({**state, **more})
        assert exact(before.values) == exact(state)
        assert exact(start.checkpoint.given[0][1]) == exact(values[-1])
        assert exact([record.value for record in head.pending]) == exact(values)
        assert exact([before.checkpoint.metadata, before.checkpoint.work]) == exact([metadata, work])
        saver.delete_thread("t")

    examine()


def test_a_value_that_cannot_be_stored_is_refused_by_node_and_key(
    runner: Runner, build: Build, config: RunnableConfig
) -> None:
    graph = build(
        {"a": says("a"), "odd": lambda state: {"book": {"x": object()}}}, in_a_row("a", "odd"), state=State
    )
    with pytest.raises(TypeError, match=r"thread 't', node 'odd' wrote to channel 'book'.*\['x'\]"):
        runner.invoke(graph, {"log": []}, config)
    assert runner.get_state(graph, config).values["log"] == ["a"]


# Row 13: large values


LARGE = (100 if CHAOS else 20) * 1_000_000
FOUR = {name: says(name) for name in "abcd"}


def large_input(blob: bytes) -> tuple[Any, Any]:
    return {"blob": blob, "log": []}, FOUR


def large_item(blob: bytes) -> tuple[Any, Any]:
    return {"log": [blob]}, FOUR


def large_entry(blob: bytes) -> tuple[Any, Any]:
    return {"log": [], "book": {"blob": blob}}, FOUR


def large_write(blob: bytes) -> tuple[Any, Any]:
    return {"log": []}, {**FOUR, "a": lambda state: {"blob": blob}}


def large_item_written(blob: bytes) -> tuple[Any, Any]:
    return {"log": ["x"]}, {**FOUR, "b": lambda state: {"log": [blob]}}


@pytest.mark.parametrize("case", [large_input, large_item, large_entry, large_write, large_item_written])
def test_a_large_value_takes_its_own_space_once(
    tmp_path: Path, case: Callable[[bytes], tuple[Any, Any]]
) -> None:
    blob = random.Random(13).randbytes(LARGE)
    storage = SqliteStorage(tmp_path / "t.sqlite")
    saver = storage.open(synchronous="NORMAL", max_value_bytes=2 * LARGE)
    given, nodes = case(blob)
    graph = graph_of(nodes, in_a_row(*FOUR), saver=saver, state=State)
    graph.invoke(given, CONFIG)
    state = graph.get_state(CONFIG)
    assert blob in (state.values.get("blob"), *state.values["log"], state.values["book"].get("blob"))
    usage, while_open = saver.usage("t").bytes, storage.size
    storage.close()
    print(
        f"\n{case.__name__}: {storage.size / LARGE:.3f} × the value, {while_open / LARGE:.3f} × while it is open"
    )
    assert usage <= 1.01 * LARGE
    assert storage.size <= 1.1 * LARGE


def test_the_limit_names_node_and_channel_and_loses_nothing(
    runner: Runner, limited: Callable[..., Any], config: RunnableConfig
) -> None:
    size = [5000]
    ran: list[str] = []

    def large(state: State) -> State:
        return {"blob": "x" * size[0]}

    def sibling(state: State) -> State:
        ran.append("sibling")
        return {"log": ["sibling"]}

    graph = limited(
        {"large": large, "sibling": sibling, "end": says("end")},
        [*in_a_row("large", "end"), ("__start__", "sibling")],
    )
    said = r"thread 't', node 'large' wrote to channel 'blob': the value takes 5,003 bytes .* max_value_bytes is 1,000"
    for _ in range(2):
        with pytest.raises(StateTooLargeError, match=said):
            runner.invoke(graph, {"log": ["in"]} if not ran else None, config)
    assert runner.get_state(graph, config).next == ("large",)
    size[0] = 900
    done = runner.invoke(graph, None, config)
    assert (done["log"], len(done["blob"]), ran) == (["in", "sibling", "end"], 900, ["sibling"])


@pytest.fixture
def limited(request: pytest.FixtureRequest, saver: Any) -> Callable[..., Any]:
    """`graph_of` on a saver that takes 1,000 bytes."""
    saver.layout.limit = 1000
    return lambda *args, **options: graph_of(*args, **{"saver": saver, "state": State, **options})


BIG = "x" * 5000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"blob": BIG}, "the input wrote to channel 'blob'"),
        ({"log": [BIG]}, "the input wrote to channel 'log'"),
        ({"book": {"k": BIG}}, "the input wrote to channel 'book'"),
    ],
)
def test_an_input_that_is_too_large_leaves_no_thread(
    runner: Runner, limited: Callable[..., Any], saver: Any, config: RunnableConfig, given: Any, said: str
) -> None:
    graph = limited({"a": says("a")})
    with pytest.raises(StateTooLargeError, match=said):
        runner.invoke(graph, given, config)
    assert saver.thread_ids() == []
    assert runner.invoke(graph, {"log": ["small"]}, config)["log"] == ["small", "a"]


def test_metadata_has_the_same_limit(runner: Runner, limited: Callable[..., Any], saver: Any) -> None:
    with pytest.raises(StateTooLargeError, match="'t'"):
        runner.invoke(limited({"a": says("a")}), {"log": []}, {**CONFIG, "metadata": {"m": BIG}})
    assert saver.thread_ids() == []


def test_an_answer_that_is_too_large_leaves_the_question_open(
    runner: Runner, limited: Callable[..., Any], config: RunnableConfig
) -> None:
    graph = limited({"a": asks("sure?")})
    [question] = runner.run(graph, {"log": []}, config).interrupts
    with pytest.raises(StateTooLargeError, match=f"the answer to question '{question.id}'"):
        runner.run(graph, Command(resume=BIG), config)
    assert runner.get_state(graph, config).interrupts == (question,)
    assert runner.run(graph, Command(resume="yes"), config).value["log"] == ["yes"]


def test_an_input_of_a_task_that_is_too_large_is_refused(
    runner: Runner, limited: Callable[..., Any], config: RunnableConfig
) -> None:
    size = [5000]
    graph = limited(
        {"a": says("a"), "work": lambda given: {"log": [len(given["x"])]}},
        [*in_a_row("a"), ("a", lambda state: [Send("work", {"x": "x" * size[0]})], ["work"])],
    )
    with pytest.raises(StateTooLargeError, match="'a'"):
        runner.invoke(graph, {"log": []}, config)
    size[0] = 500
    assert runner.invoke(graph, None, config)["log"] == ["a", 500]


def test_update_state_has_the_same_limit(
    runner: Runner, limited: Callable[..., Any], config: RunnableConfig
) -> None:
    graph = limited({"a": says("a")})
    runner.invoke(graph, {"log": []}, config)
    with pytest.raises(StateTooLargeError, match="channel 'blob'"):
        runner.update_state(graph, config, {"blob": BIG})
    assert runner.invoke(graph, {"log": []}, config)["log"] == ["a", "a"]


def test_a_list_may_grow_beyond_what_one_value_may_take(
    runner: Runner, limited: Callable[..., Any], config: RunnableConfig
) -> None:
    """What is stored is its items, a few at a time."""
    graph = limited({"a": says("y" * 100)})
    for _ in range(30):
        runner.invoke(graph, {"log": []}, config)
    assert runner.get_state(graph, config).values["log"] == ["y" * 100] * 30


def test_a_question_that_is_too_large_does_not_take_its_siblings_with_it(
    runner: Runner, limited: Callable[..., Any], config: RunnableConfig
) -> None:
    question, ran = [BIG], []

    def ask(state: State) -> State:
        return asks(question[0])(state)  # type: ignore[return-value]

    def sibling(state: State) -> State:
        ran.append("sibling")
        return {"log": ["sibling"]}

    graph = limited({"ask": ask, "sibling": sibling})
    with pytest.raises(StateTooLargeError, match="node 'ask'"):
        runner.run(graph, {"log": []}, config)
    question[0] = "sure?"
    assert runner.run(graph, None, config).status == "interrupted"
    assert runner.run(graph, Command(resume="yes"), config).value["log"] == ["yes", "sibling"]
    assert ran == ["sibling"]


def test_an_error_whose_text_is_too_large_is_still_the_error(
    runner: Runner, limited: Callable[..., Any], config: RunnableConfig
) -> None:
    def fail(state: State) -> State:
        raise ValueError(BIG)

    with pytest.raises(ValueError, match=r"^x+"):
        runner.invoke(limited({"fail": fail}), {"log": []}, config)


# What a thread was given


def inputs(saver: BaseCheckpointSaver) -> list[Any]:
    """The inputs of a thread, oldest first."""
    found = [saved.checkpoint.given for saved in saver.history("t")]
    return [given for given in reversed(found) if given is not None]


@pytest.mark.parametrize(
    "turns",
    [
        [{"blob": BIG, "log": [BIG, "y"], "book": {"k": BIG}}] * 3,
        [{"log": [BIG]}, {"log": []}, {"log": [BIG, BIG]}],
        [{"blob": [BIG]}, {"blob": [BIG, BIG]}, {"blob": {"k": BIG}}, {"blob": (BIG,)}],
        [{"book": {1: BIG, "k": 1}}, {"book": {"k": BIG, "l": BIG}}, {"book": {}}],
    ],
)
def test_an_input_is_stored_once_and_given_back(
    runner: Runner, build: Build, saver: Any, reopen: Reopen, config: RunnableConfig, turns: list[Any]
) -> None:
    graph = build({"a": says("a")}, state=State)
    for turn in turns:
        runner.invoke(graph, turn, config)
    given = sum(len(pack(turn)) for turn in turns)
    assert saver.usage("t").bytes < given + 700 * len(turns) + 3000
    found = inputs(reopen(saver))
    assert exact(found) == exact([list(turn.items()) for turn in turns])


def test_an_input_beside_pruning_and_copying(
    runner: Runner, build: Build, saver: Any, config: RunnableConfig
) -> None:
    graph = build({"a": says("a")}, state=State)
    turns = [{"blob": f"{number}{BIG}", "log": [number, BIG], "book": {number: BIG}} for number in range(4)]
    for turn in turns:
        runner.invoke(graph, turn, config)
    expected = [list(turn.items()) for turn in turns]
    saver.copy_thread("t", "copy")
    saver.delete_thread("t")
    saver.copy_thread("copy", "t")
    assert inputs(saver) == expected
    saver.prune("t", keep_last=5)
    assert inputs(saver) == expected[-1:] or inputs(saver) == expected[-2:]
    assert len(inputs(saver)) == sum(saved.checkpoint.source == "input" for saved in saver.history("t"))


def test_an_input_is_read_when_what_it_became_was_removed(saver: Any) -> None:
    """`delete_for_runs` may take the checkpoint that applied it."""
    token, tip = new_token(), Tip()
    given = [("blob", BIG), ("log", [BIG])]
    first = Checkpoint(IDS[0], None, -1, "input", 1.5, {"run_id": "1"}, given=given)
    changed = dict(given)
    second = Checkpoint(IDS[1], IDS[0], 0, "loop", 1.5, {"run_id": "2"}, changed=changed)
    third = Checkpoint(IDS[2], IDS[1], 1, "loop", 1.5, {"run_id": "3"}, changed={"blob": 1, "log": []})
    saver.commit(Commit("t", "", token, tip, True, None, True, (first, second, third)))
    once = saver.usage("t").bytes
    assert once < 2.2 * len(BIG)
    assert saver.delete_for_runs(["2"]) == 1
    assert inputs(saver) == [given]
    assert saver.delete_for_runs(["3"]) == 1
    [left] = saver.history("t")
    assert (left.values, left.checkpoint.given) == ({}, given)


def test_several_writes_to_one_channel_are_given_back_as_they_were(
    runner: Runner, build: Build, saver: Any, reopen: Reopen, config: RunnableConfig
) -> None:
    graph = build({"a": says("a")}, state=State)
    writes = [
        ("log", [BIG]),
        ("log", ["y", BIG]),
        ("book", {"k": 1}),
        ("book", {"k": 2}),
        ("book", {"l": BIG}),
    ]
    twice = [("book", {"k": 1}), ("book", {"k": 2})]
    turns: list[Any] = [Command(update=writes), Command(update=twice), {"log": Overwrite([BIG])}]
    for turn in turns:
        runner.invoke(graph, turn, config)
    values = runner.get_state(graph, config).values
    assert values["log"] == [BIG, "a"]
    assert values["book"] == {"k": 2, "l": BIG}
    assert inputs(reopen(saver)) == [writes, twice, [("log", Overwrite([BIG]))]]


def test_an_input_can_be_run_again(runner: Runner, build: Build, saver: Any, config: RunnableConfig) -> None:
    graph = build({"a": says("a")}, state=State)
    runner.invoke(graph, {"log": ["first", BIG], "blob": BIG}, config)
    runner.invoke(graph, {"log": ["second"]}, config)
    [start, *_] = reversed(runner.history(graph, config))
    again = runner.invoke(graph, None, start.config)
    assert again == {"log": ["first", BIG, "a"], "blob": BIG, "book": {}}
    assert inputs(saver)[-1] == [("log", ["first", BIG]), ("blob", BIG)]


def test_a_memory_saver_has_no_use_for_a_file() -> None:
    """So that the tests above speak of the same rows: all savers count the same bytes."""
    sizes = []
    for saver in (InMemorySaver(), SqliteSaver(":memory:")):
        with saver:
            small_thread(saver)
            sizes.append(saver.usage("t"))
    assert sizes[0] == sizes[1]
