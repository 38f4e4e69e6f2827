"""Rows: what is damaged is noticed, whatever part of it; what a checkpoint lists does not grow with the state."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.errors import CheckpointCorruptError, ConcurrentUpdateError, LeaseLostError
from graphkit_checkpoint.layout import encode, seal
from graphkit_checkpoint.memory import InMemorySaver
from graphkit_checkpoint.ownership import forget_token, new_token
from graphkit_checkpoint.records import Checkpoint, Commit, Pending, Tip
from graphkit_checkpoint.sqlite import SqliteSaver


def point(number: int, **changed: Any) -> Checkpoint:
    parent = f"c{number - 1:04}" if number else None
    return Checkpoint(f"c{number:04}", parent, number, "loop", 1.5, {}, {"next": ["n"]}, None, changed)


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = InMemorySaver() if request.param == "memory" else SqliteSaver(tmp_path / "t.sqlite")
    yield made
    made.close()


class Writer:
    """One run's commits."""

    def __init__(self, saver: BaseCheckpointSaver, thread: str = "t") -> None:
        self.saver, self.thread, self.token, self.tip = saver, thread, new_token(), Tip()

    def commit(self, *points: Checkpoint, **options: Any) -> None:
        commit = Commit(self.thread, "", self.token, self.tip, checkpoints=points, **options)
        self.saver.commit(commit)


def test_every_checkpoint_of_a_long_history_is_read_as_it_was(saver: BaseCheckpointSaver) -> None:
    writer = Writer(saver)
    expected: dict[str, int] = {}
    for number in range(40):
        expected[f"k{number % 3}"] = number
        writer.commit(point(number, **{f"k{number % 3}": number}), claims=number == 0)
    for number in (0, 1, 7, 8, 9, 25, 39):
        found = saver.load("t", checkpoint_id=f"c{number:04}")
        assert found is not None
        assert found.values == {f"k{n % 3}": n for n in range(number + 1)}
    assert saver.checkpoint_ids("t") == [f"c{n:04}" for n in range(39, -1, -1)]


def test_a_fork_is_read_along_its_own_branch(saver: BaseCheckpointSaver) -> None:
    writer = Writer(saver)
    for number in range(6):
        writer.commit(point(number, k=number), claims=number == 0)
    old = saver.load("t", checkpoint_id="c0002")
    assert old is not None
    writer.tip = old.tip
    writer.commit(Checkpoint("c0009", "c0002", 3, "fork", 2.0, changed={"other": "x"}))
    head = saver.load("t")
    assert head is not None
    assert (head.checkpoint.id, head.values) == ("c0009", {"k": 2, "other": "x"})


def test_a_row_lists_what_changed_not_what_is_there() -> None:
    tip = Tip()
    wide = point(0, **{f"k{n}": n for n in range(1000)})
    first = encode(Commit("t", "", "w", tip, checkpoints=(wide,)), 1.0)
    second = encode(Commit("t", "", "w", tip, checkpoints=(point(1, k1="new"),)), 1.0)
    assert len(first.checkpoints[0].body) > 10_000
    assert len(second.checkpoints[0].body) < 100


def test_the_claim_goes_to_one_and_the_others_are_told(saver: BaseCheckpointSaver) -> None:
    Writer(saver).commit(point(0), claims=True, release=True)
    seen, _ = saver.find("t")
    winner, loser = Writer(saver), Writer(saver)
    winner.commit(point(1), claims=True, acquire=seen)
    with pytest.raises(ConcurrentUpdateError, match="'t'"):
        loser.commit(point(1), claims=True, acquire=seen)
    with pytest.raises(ConcurrentUpdateError, match="owned"):
        saver.open("t")
    winner.commit(point(2), release=True)
    assert saver.open("t").abandoned is False


def test_whoever_was_replaced_cannot_write(saver: BaseCheckpointSaver) -> None:
    stale, successor = Writer(saver), Writer(saver)
    stale.commit(point(0), claims=True)
    forget_token(stale.token)
    opening = saver.open("t")
    assert opening.abandoned
    successor.commit(claims=True, acquire=opening.thread)
    with pytest.raises(LeaseLostError, match="'t'"):
        stale.commit(point(1))
    found = saver.load("t")
    assert found is not None
    assert found.checkpoint.id == "c0000"


def test_pending_records_are_replaced_and_forgotten(saver: BaseCheckpointSaver) -> None:
    writer = Writer(saver)
    writer.commit(point(0), claims=True)
    for value in ("first", "second"):
        writer.commit(at="c0000", pending=[Pending("task", "question", "q", value)])
    writer.commit(at="c0000", pending=[Pending("task", "answer", "q", None)])
    assert [record.value for record in saver.find_pending("t", "question", "q")] == ["second"]
    writer.commit(at="c0000", forget=[("task", "answer", "q")])
    found = saver.load("t")
    assert found is not None
    assert [(record.kind, record.value) for record in found.pending] == [("question", "second")]


def test_a_deleted_thread_is_gone_and_a_running_one_stays(saver: BaseCheckpointSaver) -> None:
    other, writer = Writer(saver, "other"), Writer(saver)
    other.commit(point(0, k=1), claims=True, release=True)
    writer.commit(point(0, k=1), claims=True)
    with pytest.raises(ConcurrentUpdateError, match="'t'"):
        saver.delete_thread("t")
    writer.commit(release=True, at="c0000", pending=[Pending("task", "output", "", 1)])
    saver.delete_thread("t")
    saver.delete_thread("never there")
    assert (saver.find("t"), saver.checkpoint_ids("t")) == ((None, None), [])
    assert saver.checkpoint_ids("other") == ["c0000"]


def test_the_async_doors_lead_to_the_same_saver(saver: BaseCheckpointSaver) -> None:
    async def through() -> None:
        token = new_token()
        commit = Commit("t", "", token, Tip(), claims=True, release=True, checkpoints=(point(0, k="v"),))
        await saver.acommit(commit)
        assert await saver.acheckpoint_ids("t") == ["c0000"]
        state, found = await saver.afind("t")
        assert found is not None
        assert (state, found.values, await saver.aload("nobody")) == (found.thread, {"k": "v"}, None)
        await saver.adelete_thread("t")
        assert await saver.afind("t") == (None, None)

    asyncio.run(through())


def test_every_flipped_bit_changes_the_seal() -> None:
    body = b"some stored value"
    right = seal(body, "thread", "", "channel", 7, None)
    for index in range(len(body) * 8):
        damaged = bytearray(body)
        damaged[index // 8] ^= 1 << index % 8
        assert seal(bytes(damaged), "thread", "", "channel", 7, None) != right
    for key in (
        ("threa", "d", "channel", 7, None),
        ("thread", "", "channel", 8, None),
        ("thread", "", "channel", 7),
    ):
        assert seal(body, *key) != right


TABLES = {
    "graphkit_checkpoint": ["parent_id", "base_id", "step", "body", "checksum"],
    "graphkit_value": ["channel", "version", "body", "checksum"],
    "graphkit_write": ["task_id", "kind", "key", "body", "checksum"],
}


def damaged(value: Any) -> Any:
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:]
    if isinstance(value, str):
        return chr(ord(value[0]) ^ 1) + value[1:]
    return 1 if value is None else value ^ 1


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table in TABLES for column in TABLES[table]]
)
def test_damage_anywhere_in_a_file_is_an_error_with_thread_and_checkpoint(
    tmp_path: Path, table: str, column: str
) -> None:
    path = tmp_path / "t.sqlite"
    saver = SqliteSaver(path)
    writer = Writer(saver)
    writer.commit(point(0, k="v"), claims=True)
    writer.commit(point(1, k="w"), at="c0001", pending=[Pending("task", "output", "x", [1])])
    saver.close()
    with sqlite3.connect(path) as database:
        newest = {
            "graphkit_checkpoint": "id",
            "graphkit_value": "version",
            "graphkit_write": "checkpoint_id",
        }[table]
        row = f"{newest} = (SELECT max({newest}) FROM {table})"
        (value,) = database.execute(f"SELECT {column} FROM {table} WHERE {row}").fetchone()
        database.execute(f"UPDATE {table} SET {column} = ? WHERE {row}", (damaged(value),))
    database.close()
    again = SqliteSaver(path)
    with pytest.raises(CheckpointCorruptError, match=r"'c0001'.*'t'"):
        again.load("t")
    again.close()
