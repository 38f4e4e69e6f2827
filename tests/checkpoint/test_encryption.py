"""Encryption at rest: no word of the user's in the database, no wrong value out of it, keys that come and go."""

from __future__ import annotations

import asyncio
import operator
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict
from zlib import crc32

import pytest

from graphkit import START, Command, Send, StateGraph, interrupt
from graphkit.checkpoint.serde.encrypted import EncryptedSerializer
from graphkit.errors import CheckpointCorruptError, EncryptionError, StorageError
from graphkit.types import RunnableConfig
from graphkit_checkpoint.encryption import NONCE_BYTES
from graphkit_checkpoint.layout import FOLD, seal
from tests.checkpoint.storages import TABLES, Row, Storage, storage_of
from tests.conftest import Runner, asks, graph_of, in_a_row, says

OLD, NEW = bytes(range(32)), bytes(range(100, 116))
CONTEXT = b"whose body it is"
SECRET = "s3cr3t-"
KINDS = {
    "amended", "answer", "error", "input", "key", "metadata", "nested", "nested-question", "question", "schema",
    "send", "value", "write",
}  # fmt: skip
CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def storage(request: pytest.FixtureRequest) -> Iterator[Storage]:
    made = storage_of(request.param, request)
    yield made
    made.close()


@pytest.fixture
def old() -> EncryptedSerializer:
    return EncryptedSerializer({"2024": OLD})


# What is stored: nothing that can be read


class Child(TypedDict, total=False):
    word: str


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    book: Annotated[dict[str, Any], operator.or_]
    note: str


def secret(kind: str) -> str:
    assert kind in KINDS
    return SECRET + kind


class Scenario:
    """A thread with everything that can be stored. Some task fails at first, others ask."""

    def __init__(self, saver: Any, runner: Runner) -> None:
        self.runner = runner
        self.fails = True
        child = StateGraph(Child).add_node("ask", self._ask_inside).add_edge(START, "ask").compile()
        nodes: dict[str, Any] = {
            "begin": self._begin,
            "work": self._work,
            "nested": child,
            "end": says("end"),
        }
        edges = [*in_a_row("begin"), ("begin", self._fan_out, ["work", "nested"]), ("work", "end")]
        self.graph = graph_of(nodes, edges, saver=saver, state=State)
        self.config: RunnableConfig = {**CONFIG, "metadata": {"who": secret("metadata")}}

    def _begin(self, state: State) -> State:
        return {"log": [3 * secret("value")], "book": {secret("key"): 1}}

    def _fan_out(self, state: State) -> list[Send]:
        parts = [
            Send("work", {"part": part, "secret": secret("send")}) for part in ("writes", "asks", "fails")
        ]
        return [*parts, Send("nested", {"word": secret("nested")})]

    def _work(self, given: dict[str, Any]) -> State:
        if given["part"] == "writes":
            return {"log": [secret("write")]}
        if given["part"] == "asks":
            schema = {"type": "string", "description": secret("schema")}
            return {"log": [interrupt(secret("question"), response_schema=schema)]}
        if self.fails:
            raise ValueError(secret("error"))
        return {"log": ["went well"]}

    def _ask_inside(self, state: Child) -> Child:
        return {"word": state["word"] + interrupt(secret("nested-question"))}

    def run(self) -> Iterator[None]:
        """Comes up for air after every call."""
        with pytest.raises(ValueError, match=secret("error")):
            self.runner.invoke(self.graph, {"log": [], "note": secret("input")}, self.config)
        yield
        self.fails = False
        asked = self.runner.run(self.graph, Command(update={"note": secret("amended")}), self.config)
        assert asked.status == "interrupted"
        yield
        answers = {question.id: secret("answer") for question in asked.interrupts}
        assert len(answers) == 2
        self.runner.invoke(self.graph, Command(resume=answers), self.config)
        yield


def found_in(dump: bytes) -> set[str]:
    return {kind for kind in KINDS if secret(kind).encode() in dump}


def everything_dumped(storage: Storage, runner: Runner, **options: Any) -> set[str]:
    scenario = Scenario(storage.open(**options), runner)
    return {kind for _ in scenario.run() for kind in found_in(storage.dump())}


def test_a_plain_saver_stores_each_of_these_words(storage: Storage, runner: Runner) -> None:
    """So that it means something that an encrypting one stores none."""
    assert everything_dumped(storage, runner) == KINDS


def test_an_encrypting_saver_stores_none_of_them(
    storage: Storage, runner: Runner, old: EncryptedSerializer
) -> None:
    assert everything_dumped(storage, runner, serde=old) == set()
    assert SECRET.encode() not in storage.dump()
    rows = [row for table in TABLES for row in storage.rows(table)]
    assert all(row["body"].startswith(b"\xc1\x01\x042024") for row in rows)
    assert {table: bool(storage.rows(table)) for table in TABLES} == dict.fromkeys(TABLES, True)


def test_what_is_put_from_outside_is_encrypted_too(
    storage: Storage, runner: Runner, old: EncryptedSerializer
) -> None:
    def put(saver: Any) -> bytes:
        words = [f"{SECRET}{number}" for number in range(6)]
        checkpoint = {
            "v": 4, "id": "1", "ts": "2025-01-01T00:00:00+00:00", "channel_versions": {"k": words[0]},
            "versions_seen": {"n": {"k": words[1]}}, "channel_values": {"k": words[2]}, "updated_channels": ["k"],
        }  # fmt: skip
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        made = saver.put(config, checkpoint, {"source": "input", "m": words[3]}, {"k": words[0]})
        saver.put_writes(made, [("k", words[4])], "task", words[5])
        assert saver.get_tuple(made).checkpoint["channel_values"] == {"k": words[2]}
        return storage.dump()

    assert SECRET.encode() not in put(storage.open(serde=old))
    storage.open(serde=old).delete_thread("t")
    assert all(f"{SECRET}{number}".encode() in put(storage.open()) for number in range(6))


def test_names_stay_readable_as_documented(
    storage: Storage, runner: Runner, old: EncryptedSerializer
) -> None:
    everything_dumped(storage, runner, serde=old)
    dump = storage.dump()
    assert all(name in dump for name in (b"log", b"nested"))
    assert "Readable stay the names" in (EncryptedSerializer.__doc__ or "")


def test_a_thread_goes_on_and_looks_the_same_in_another_saver(
    storage: Storage, runner: Runner, old: EncryptedSerializer
) -> None:
    def shown(serde: Any, thread: str) -> Any:
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        first = graph_of(
            {"a": asks("sure?"), "b": says("b")}, in_a_row("a", "b"), saver=storage.open(serde=serde)
        )
        assert runner.run(first, {"log": ["x"]}, config).status == "interrupted"
        again = graph_of(
            {"a": asks("sure?"), "b": says("b")}, in_a_row("a", "b"), saver=storage.open(serde=serde)
        )
        [question] = runner.get_state(again, config).interrupts
        assert question.value == "sure?"
        runner.invoke(again, Command(resume="yes"), config)
        return [(found.values, found.next) for found in runner.history(again, config)]

    plain = shown(None, "plain")
    assert plain[0] == ({"log": ["x", "yes", "b"]}, ())
    assert shown(old, "encrypted") == plain


# What does not open

LONG = "x" * 100
"""Begins a list that has rows of its own."""


def opened(saver: Any) -> Any:
    """All that the thread has to show."""
    return [(found.values, found.checkpoint.metadata, found.pending) for found in saver.history("t")]


def small_thread(storage: Storage, serde: Any, thread: str = "t") -> None:
    """Two supersteps and an open question."""
    config: RunnableConfig = {"configurable": {"thread_id": thread}, "metadata": {"who": "me"}}
    graph = graph_of(
        {"a": says("a"), "b": asks("sure?")}, in_a_row("a", "b"), saver=storage.open(serde=serde)
    )
    graph.invoke({"log": [LONG]}, config)


def read_with(storage: Storage, serde: Any) -> EncryptionError:
    with pytest.raises(EncryptionError) as caught:
        storage.open(serde=serde).load("t")
    message = str(caught.value)
    [head] = {row["checkpoint_id"] for row in storage.rows("write")}
    assert f"checkpoint {head!r} of thread 't' cannot be read" in message
    with pytest.raises(EncryptionError):
        graph_of(
            {"a": says("a"), "b": asks("sure?")}, in_a_row("a", "b"), saver=storage.open(serde=serde)
        ).invoke(Command(resume="yes"), CONFIG)
    return caught.value


def test_a_plain_thread_is_refused_by_a_saver_that_encrypts(
    storage: Storage, old: EncryptedSerializer
) -> None:
    small_thread(storage, None)
    assert "is not encrypted" in str(read_with(storage, old))
    assert storage.open().load("t").values["log"] == [LONG, "a"]


@pytest.mark.parametrize("table", TABLES)
def test_one_plain_row_is_refused(storage: Storage, old: EncryptedSerializer, table: str) -> None:
    small_thread(storage, None)
    plain = storage.rows(table)[0]["body"]
    storage.open().delete_thread("t")
    small_thread(storage, old)
    saver = storage.open(serde=old)
    for row in storage.rows(table):
        with_row(storage, table, row, sealed(row, plain))
        with pytest.raises(EncryptionError, match=r"'t'.* is not encrypted"):
            opened(saver)
        with_row(storage, table, sealed(row, plain), row)


def test_an_encrypted_thread_is_refused_by_a_plain_saver(storage: Storage, old: EncryptedSerializer) -> None:
    small_thread(storage, old)
    message = str(read_with(storage, None))
    assert "'2024'" in message
    assert "serde=EncryptedSerializer({'2024'" in message


def test_a_missing_key_is_named(storage: Storage, old: EncryptedSerializer) -> None:
    small_thread(storage, old)
    message = str(read_with(storage, EncryptedSerializer({"2025": NEW, "2026": OLD}, current="2025")))
    assert "key '2024'" in message
    assert "keys are '2025', '2026'" in message
    assert "current='2025'" in message


def test_another_key_under_the_same_id_is_noticed(storage: Storage, old: EncryptedSerializer) -> None:
    small_thread(storage, old)
    assert "does not open with key '2024'" in str(read_with(storage, EncryptedSerializer({"2024": NEW})))


def test_the_async_door_says_the_same(storage: Storage, old: EncryptedSerializer) -> None:
    small_thread(storage, old)

    async def through(serde: Any) -> Any:
        return await storage.open(serde=serde).aload("t")

    assert asyncio.run(through(old)).values["log"] == [LONG, "a"]
    with pytest.raises(EncryptionError, match="'t'"):
        asyncio.run(through(None))


# Rows that were changed: by an accident, and by somebody who can make checksums


def place(row: Row) -> Row:
    return {name: cell for name, cell in row.items() if name not in ("body", "checksum")}


def sealed(row: Row, body: bytes) -> Row:
    """The row with another body and the checksum that fits."""
    return {**row, "body": body, "checksum": seal(crc32(body), (*place(row).values(),))}


def rows_of(storage: Storage) -> list[tuple[str, Row]]:
    return [(table, row) for table in TABLES for row in storage.rows(table)]


def with_row(storage: Storage, table: str, old_row: Row, new_row: Row) -> None:
    storage.replace(table, [new_row if row == old_row else row for row in storage.rows(table)])


def test_a_row_moved_to_another_place_does_not_open(storage: Storage, old: EncryptedSerializer) -> None:
    small_thread(storage, old)
    small_thread(storage, old, "u")
    saver = storage.open(serde=old)
    moved = 0
    for table, row in rows_of(storage):
        if row["thread_id"] != "t":
            continue
        for other in storage.rows(table):
            if other != row:
                moved += 1
                with_row(storage, table, row, {**row, "body": other["body"], "checksum": other["checksum"]})
                with pytest.raises(CheckpointCorruptError, match="'t'"):
                    opened(saver)
                with_row(storage, table, {**row, "body": other["body"], "checksum": other["checksum"]}, row)
                with_row(storage, table, row, sealed(row, other["body"]))
                with pytest.raises(EncryptionError, match="'t'"):
                    opened(saver)
                with_row(storage, table, sealed(row, other["body"]), row)
    assert moved > 10
    assert opened(saver)[0][0]["log"] == [LONG, "a"]


def test_a_body_cut_off_anywhere_does_not_open(storage: Storage, old: EncryptedSerializer) -> None:
    small_thread(storage, old)
    saver = storage.open(serde=old)
    [row] = [row for row in storage.rows("value") if row["length"] == 1 and row["start"] == 1]
    for length in range(len(row["body"])):
        for damaged, error in (
            ({**row, "body": row["body"][:length]}, CheckpointCorruptError),
            (sealed(row, row["body"][:length]), EncryptionError),
        ):
            with_row(storage, "value", row, damaged)
            with pytest.raises(error, match=r"thread 't'.*channel 'log'"):
                opened(saver)
            with_row(storage, "value", damaged, row)


def flipped(body: bytes, bit: int) -> bytes:
    return body[: bit // 8] + bytes([body[bit // 8] ^ 1 << bit % 8]) + body[bit // 8 + 1 :]


@pytest.mark.parametrize("table", TABLES)
def test_every_flipped_bit_of_a_body_is_an_error(table: str, old: EncryptedSerializer) -> None:
    """The checksum finds it; where somebody made a new checksum, the tag does."""
    storage = storage_of("memory", None)
    small_thread(storage, old)
    saver = storage.open(serde=old)
    rows = storage.rows(table)
    row = min(rows, key=lambda row: len(row["body"]))
    others = [other for other in rows if other is not row]
    for bit in range(8 * len(row["body"])):
        body = flipped(row["body"], bit)
        storage.replace(table, [*others, {**row, "body": body}])
        with pytest.raises(CheckpointCorruptError, match="'t'"):
            opened(saver)
        storage.replace(table, [*others, sealed(row, body)])
        with pytest.raises(EncryptionError, match="'t'"):
            opened(saver)
    assert bit > 200


@pytest.mark.parametrize("table", TABLES)
def test_whoever_changes_what_a_row_says_of_itself_is_found_out(table: str, old: EncryptedSerializer) -> None:
    storage = storage_of("memory", None)
    small_thread(storage, old)
    saver = storage.open(serde=old)
    before = opened(saver)
    rows = storage.rows(table)
    changed = 0
    for row in rows:
        for column, cell in place(row).items():
            if column in ("thread_id", "namespace", "channel", "log", "checkpoint_id", "id") or cell is None:
                continue  # then the row is elsewhere and the old place is empty: another test
            other = {**row, column: cell + 1 if isinstance(cell, int) else f"{cell}0"}
            storage.replace(table, [*(same for same in rows if same is not row), sealed(other, row["body"])])
            changed += 1
            with pytest.raises(StorageError, match="'t'"):
                opened(saver)
    storage.replace(table, rows)
    assert changed >= 3
    assert len(opened(saver)) == len(before)


# Keys that come and go


def test_rows_of_an_old_key_are_read_and_new_ones_written_with_the_current(
    storage: Storage, runner: Runner, old: EncryptedSerializer
) -> None:
    nodes = {"a": asks("one?"), "b": asks("two?")}

    def go_on(serde: Any, given: Any) -> Any:
        return runner.invoke(
            graph_of(nodes, in_a_row("a", "b"), saver=storage.open(serde=serde)), given, CONFIG
        )

    go_on(old, {"log": ["x"]})
    before = {row["body"] for _, row in rows_of(storage)}
    both = EncryptedSerializer({"2024": OLD, "2025": NEW}, current="2025")
    go_on(both, Command(resume="first"))
    added = {row["body"] for _, row in rows_of(storage)} - before
    assert added
    assert all(body.startswith(b"\xc1\x01\x042025") for body in added)
    assert go_on(both, Command(resume="second")) == {"log": ["x", "first", "second"]}
    with pytest.raises(EncryptionError, match="'2024'"):
        go_on(EncryptedSerializer({"2025": NEW}), None)


def test_a_copied_thread_is_written_with_the_current_key(storage: Storage, old: EncryptedSerializer) -> None:
    small_thread(storage, old)
    both = storage.open(serde=EncryptedSerializer({"2024": OLD, "2025": NEW}, current="2025"))
    expected = opened(both)
    both.copy_thread("t", "copy")
    both.delete_thread("t")
    only = storage.open(serde=EncryptedSerializer({"2025": NEW}))
    only.copy_thread("copy", "t")
    assert [found[0] for found in opened(only)] == [found[0] for found in expected]
    graph = graph_of({"a": says("a"), "b": asks("sure?")}, in_a_row("a", "b"), saver=only)
    assert graph.invoke(Command(resume="yes"), CONFIG) == {"log": [LONG, "a", "yes"]}


def growing(saver: Any, supersteps: int) -> Any:
    """Appends one word per superstep, with a dict that grows beside it."""

    class Grows(TypedDict, total=False):
        log: Annotated[list[str], operator.add]
        book: Annotated[dict[str, int], operator.or_]

    def grow(state: Grows) -> Grows:
        size = len(state["log"])
        return {"log": [f"{SECRET}{size}"], "book": {f"{SECRET}{size % 10}": size}}

    return graph_of(
        {"grow": grow},
        [
            *in_a_row("grow"),
            ("grow", lambda state: "grow" if len(state["log"]) < supersteps else "__end__", None),
        ],
        saver=saver,
        state=Grows,
    )


@pytest.mark.parametrize("supersteps", [FOLD + 10])
def test_folded_lists_are_read_at_every_checkpoint(
    storage: Storage, runner: Runner, old: EncryptedSerializer, supersteps: int
) -> None:
    saver = storage.open(serde=old)
    config: RunnableConfig = {**CONFIG, "recursion_limit": 1000}
    runner.invoke(growing(saver, supersteps // 2), {"log": [f"{SECRET}0"], "book": {}}, config)
    again = storage.open(serde=old)
    runner.invoke(growing(again, supersteps), {"log": [], "book": {}}, config)
    kinds = [row["kind"] for row in storage.rows("value") if row["channel"] == "log"]
    assert len(kinds) < supersteps
    assert sum(kind >= 4 for kind in kinds) == 1
    for found in storage.open(serde=old).history("t"):
        log = found.values.get("log", [])
        assert log == [f"{SECRET}{number}" for number in range(len(log))]
        book = {f"{SECRET}{number % 10}": number for number in range(1, len(log))}
        assert found.values.get("book", {}) == book
    assert SECRET.encode() not in storage.dump()


def test_pruning_rewrites_what_is_left_encrypted(storage: Storage, old: EncryptedSerializer) -> None:
    config: RunnableConfig = {**CONFIG, "recursion_limit": 1000}
    saver = storage.open(serde=old)
    growing(saver, FOLD + 10).invoke({"log": [f"{SECRET}0"], "book": {}}, config)
    values = [found.values for found in saver.history("t")]
    both = storage.open(serde=EncryptedSerializer({"2024": OLD, "2025": NEW}, current="2025"))
    assert both.prune("t", keep_last=3) == len(values) - 3
    assert [found.values for found in both.history("t")] == values[:3]
    assert all(row["body"].startswith(b"\xc1") for _, row in rows_of(storage))
    assert SECRET.encode() not in b"".join(row["body"] for _, row in rows_of(storage))


# Keys and their ids


@pytest.mark.parametrize("length", [16, 24, 32])
def test_keys_of_these_lengths_are_taken(length: int) -> None:
    serde = EncryptedSerializer.from_aes(os.urandom(length))
    stored = serde.encrypt(b"body", CONTEXT)
    assert serde.decrypt(stored, CONTEXT) == b"body"
    assert stored.startswith(b"\xc1\x01\x07default")


def test_no_two_stored_forms_are_alike() -> None:
    serde = EncryptedSerializer.from_aes(OLD)
    forms = {serde.encrypt(b"", CONTEXT) for _ in range(1000)}
    assert len({form[10 : 10 + NONCE_BYTES] for form in forms}) == 1000


def test_a_form_of_the_future_is_refused() -> None:
    serde = EncryptedSerializer.from_aes(OLD)
    stored = serde.encrypt(b"body", CONTEXT)
    with pytest.raises(EncryptionError, match="in a form that this graphkit does not know"):
        serde.decrypt(b"\xc1\x02" + stored[2:], CONTEXT)


@pytest.mark.parametrize("length", [0, 1, 15, 17, 31, 33, 64])
def test_other_lengths_are_refused(length: int) -> None:
    with pytest.raises(ValueError, match=rf"key 'k' must have 16, 24 or 32 bytes and has {length}"):
        EncryptedSerializer({"k": bytes(length)})


def test_text_is_no_key() -> None:
    with pytest.raises(TypeError, match="key 'default' must be bytes, not str"):
        EncryptedSerializer.from_aes("0123456789abcdef")  # type: ignore[arg-type]


@pytest.mark.parametrize("key_id", ["", "a\n", "\0", "x" * 256, "\ud800"])
def test_odd_key_ids_are_refused(key_id: str) -> None:
    with pytest.raises(ValueError, match="key id"):
        EncryptedSerializer({key_id: OLD})


def test_the_key_ids_may_be_any_text_of_255_bytes() -> None:
    for key_id in ("schlüssel", "x" * 255):
        serde = EncryptedSerializer({key_id: OLD})
        assert serde.decrypt(serde.encrypt(b"body", CONTEXT), CONTEXT) == b"body"


@pytest.mark.parametrize("given", [object(), "key", b"0" * 32])
def test_what_is_no_cipher_is_refused_before_anything_is_stored(storage: Storage, given: Any) -> None:
    with pytest.raises(TypeError, match="EncryptedSerializer"):
        storage.open(serde=given)


def test_which_key_writes_must_be_clear() -> None:
    with pytest.raises(ValueError, match="keys is empty"):
        EncryptedSerializer({})
    with pytest.raises(ValueError, match=r"several keys \('a', 'b'\)"):
        EncryptedSerializer({"a": OLD, "b": NEW})
    with pytest.raises(ValueError, match=r"current='c' is not among the keys \('a', 'b'\)"):
        EncryptedSerializer({"a": OLD, "b": NEW}, current="c")


@pytest.mark.parametrize("make", [EncryptedSerializer.from_aes, EncryptedSerializer.from_pycryptodome_aes])
def test_the_key_may_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], EncryptedSerializer]
) -> None:
    monkeypatch.delenv("GRAPHKIT_AES_KEY", raising=False)
    monkeypatch.delenv("LANGGRAPH_AES_KEY", raising=False)
    with pytest.raises(ValueError, match="GRAPHKIT_AES_KEY"):
        make()
    monkeypatch.setenv("LANGGRAPH_AES_KEY", "0123456789abcdef")
    stored = make().encrypt(b"body", CONTEXT)
    assert EncryptedSerializer.from_aes(b"0123456789abcdef").decrypt(stored, CONTEXT) == b"body"
    monkeypatch.setenv("GRAPHKIT_AES_KEY", "too short")
    with pytest.raises(ValueError, match="GRAPHKIT_AES_KEY must have 16, 24 or 32 bytes and has 9"):
        make()
    monkeypatch.setenv("GRAPHKIT_AES_KEY", "f" * 32)
    with pytest.raises(EncryptionError, match="does not open with key 'default'"):
        make().decrypt(stored, CONTEXT)


def test_langgraphs_spelling_takes_its_options() -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=OLD, mode=9)
    assert EncryptedSerializer.from_aes(OLD).decrypt(serde.encrypt(b"body", CONTEXT), CONTEXT) == b"body"


def test_without_the_library_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from graphkit.checkpoint.serde.encrypted import EncryptedSerializer\n"
        "from graphkit.checkpoint.memory import InMemorySaver; InMemorySaver()\n"
        "try: EncryptedSerializer({'k': bytes(16)})\n"
        "except ImportError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 'pip install "graphkit-engine[encryption]"' in ran.stdout


def test_keys_do_not_show() -> None:
    serde = EncryptedSerializer({"k": b"0123456789abcdef"})
    assert "0123456789abcdef" not in repr(serde)


def test_threads_may_share_one() -> None:
    serde = EncryptedSerializer.from_aes(OLD)
    wrong: list[int] = []

    def hammer(number: int) -> None:
        for turn in range(500):
            body = f"{number}-{turn}".encode() * 50
            if serde.decrypt(serde.encrypt(body, CONTEXT), CONTEXT) != body:
                wrong.append(turn)

    threads = [threading.Thread(target=hammer, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# What it costs


def test_a_row_takes_the_same_few_bytes_more_whatever_is_in_it(
    storage: Storage, old: EncryptedSerializer
) -> None:
    small_thread(storage, None)
    plain = storage.open().usage("t")
    storage.open().delete_thread("t")
    small_thread(storage, old)
    encrypted = storage.open(serde=old).usage("t")
    rows = encrypted.checkpoints + encrypted.values + encrypted.pending
    header, tag = len(b"\xc1\x01\x042024"), 16
    assert encrypted.bytes - plain.bytes == rows * (header + NONCE_BYTES + tag)
