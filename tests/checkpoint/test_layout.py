"""Rows: every checkpoint is read as it was written, whatever became of the history around it, and what was
stored does not grow faster than what changed."""

from __future__ import annotations

import asyncio
import copy
import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphkit_checkpoint import reading, writing
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.drafts import drafted
from graphkit_checkpoint.errors import ConcurrentUpdateError, LeaseLostError
from graphkit_checkpoint.layout import FOLD, LOOSE_BYTES, MOST_FORKS, SMALL, SMALLEST_BASE, Layout, seal
from graphkit_checkpoint.live import LiveSaver
from graphkit_checkpoint.memory import InMemorySaver
from graphkit_checkpoint.ownership import forget_token, new_token
from graphkit_checkpoint.records import Checkpoint, Commit, Pending, Saved, ThreadState, Tip
from graphkit_checkpoint.serde import pack
from graphkit_checkpoint.writing import encode
from tests.checkpoint.storages import PostgresStorage, Storage, storage_of

Values: TypeAlias = dict[str, Any]


def point(number: int, **changed: Any) -> Checkpoint:
    parent = f"c{number - 1:04}" if number else None
    return Checkpoint(f"c{number:04}", parent, number, "loop", 1.5, {}, {"next": ["n"]}, None, changed)


def checkpoint_ids(saver: BaseCheckpointSaver, thread: str = "t") -> list[str]:
    return [found.checkpoint.id for found in saver.history(thread)]


def loaded(saver: BaseCheckpointSaver, checkpoint_id: str | None = None, thread: str = "t") -> Saved:
    found = saver.load(thread, checkpoint_id=checkpoint_id)
    assert found is not None
    return found


class Writer:
    """One run's commits."""

    def __init__(self, saver: BaseCheckpointSaver, thread: str = "t") -> None:
        self.saver, self.thread, self.token, self.tip = saver, thread, new_token(), Tip()

    def commit(self, *points: Checkpoint, **options: Any) -> None:
        commit = Commit(self.thread, "", self.token, self.tip, checkpoints=points, **options)
        self.saver.commit(commit)


# Checkpoints, claims, records


def test_every_checkpoint_of_a_long_history_is_read_as_it_was(saver: BaseCheckpointSaver) -> None:
    writer = Writer(saver)
    for number in range(40):
        writer.commit(point(number, **{f"k{number % 3}": number}), claims=number == 0)
    for number in (0, 1, 7, 8, 9, 25, 39):
        newest = range(max(0, number - 2), number + 1)
        assert loaded(saver, f"c{number:04}").values == {f"k{n % 3}": n for n in newest}
    assert checkpoint_ids(saver) == [f"c{n:04}" for n in range(39, -1, -1)]


def test_a_fork_is_read_along_its_own_branch(saver: BaseCheckpointSaver) -> None:
    writer = Writer(saver)
    for number in range(6):
        writer.commit(point(number, k=number), claims=number == 0)
    writer.tip = loaded(saver, "c0002").tip
    writer.commit(Checkpoint("c0009", "c0002", 3, "fork", 2.0, changed={"other": "x"}))
    head = loaded(saver)
    assert (head.checkpoint.id, head.values) == ("c0009", {"k": 2, "other": "x"})


def test_a_row_lists_what_changed_not_what_is_there() -> None:
    tip = Tip()
    wide = point(0, **{f"k{n}": n for n in range(1000)})
    first = encode(Layout(), Commit("t", "", "w", tip, checkpoints=(wide,)))
    second = encode(Layout(), Commit("t", "", "w", tip, checkpoints=(point(1, k1="new"),)))
    assert len(first.checkpoints[0].body) > 10_000
    assert len(second.checkpoints[0].body) < 100


def test_a_refused_commit_leaves_the_tip_as_it_was() -> None:
    tip = Tip()
    encode(Layout(), Commit("t", "", "w", tip, checkpoints=(point(0, log=[1], k=1),)))
    before = copy.deepcopy((tip.versions, tip.growth, tip.base, tip.weight))
    refused = Checkpoint(
        "c0001", "c0000", 1, "loop", 1.5, changed={"log": [1, 2], "k": object()}, extended={"log": 1}
    )
    with pytest.raises(TypeError):
        encode(Layout(), Commit("t", "", "w", tip, checkpoints=(point(1, log=[1, 2], k=2), refused)))
    assert (tip.versions, tip.growth, tip.base, tip.weight) == before


@pytest.mark.parametrize("make", [InMemorySaver, LiveSaver])
def test_garbage_that_is_collected_during_a_commit_may_commit(
    make: Callable[[], BaseCheckpointSaver],
) -> None:
    """What is shared by all threads packs without giving way to them. A finalizer is what gives way soonest."""
    saver = make()
    mine, other = Writer(saver, "mine"), Writer(saver, "other")
    numbers = iter(range(1_000_000))
    busy: list[bool] = []

    def finalize(phase: str, info: Any) -> None:
        if phase == "start" and not busy:
            busy.append(True)
            other.tip = Tip()
            encode(saver.layout, commit_of(other, next(numbers)))
            drafted(commit_of(other, next(numbers)), {})
            busy.clear()

    def commit_of(writer: Writer, number: int) -> Commit:
        points = [point(number, n=number, small=["x"], text="y" * number)]
        return Commit(writer.thread, "", writer.token, writer.tip, checkpoints=points)

    threshold = gc.get_threshold()
    gc.callbacks.append(finalize)
    gc.set_threshold(1)
    try:
        for number in range(20):
            mine.commit(point(number, n=number, small=["x"]), claims=not number)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(finalize)
    for number in range(20):
        assert loaded(saver, f"c{number:04}", "mine").values == {"n": number, "small": ["x"]}


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
    assert loaded(saver).checkpoint.id == "c0000"


def test_pending_records_are_replaced_and_forgotten(saver: BaseCheckpointSaver) -> None:
    writer = Writer(saver)
    writer.commit(point(0), claims=True)
    for value in ("first", "second"):
        writer.commit(at="c0000", pending=[Pending("task", "question", "q", value)])
    writer.commit(at="c0000", pending=[Pending("task", "answer", "q", None)])
    assert [record.value for record in saver.find_pending("t", "question", "q")] == ["second"]
    writer.commit(at="c0000", forget=[("task", "answer", "q")])
    assert [(record.kind, record.value) for record in loaded(saver).pending] == [("question", "second")]


def test_a_deleted_thread_is_gone_and_a_running_one_stays(saver: BaseCheckpointSaver) -> None:
    other, writer = Writer(saver, "other"), Writer(saver)
    other.commit(point(0, k=1), claims=True, release=True)
    writer.commit(point(0, k=1), claims=True)
    with pytest.raises(ConcurrentUpdateError, match="'t'"):
        saver.delete_thread("t")
    writer.commit(release=True, at="c0000", pending=[Pending("task", "output", "", 1)])
    saver.delete_thread("t")
    saver.delete_thread("never there")
    assert (saver.find("t"), checkpoint_ids(saver)) == ((None, None), [])
    assert checkpoint_ids(saver, "other") == ["c0000"]


def test_the_async_doors_lead_to_the_same_saver(saver: BaseCheckpointSaver) -> None:
    async def through() -> None:
        token = new_token()
        commit = Commit("t", "", token, Tip(), claims=True, release=True, checkpoints=(point(0, k="v"),))
        await saver.acommit(commit)
        assert [found.checkpoint.id async for found in saver.ahistory("t")] == ["c0000"]
        state, found = await saver.afind("t")
        assert state is not None and found is not None
        assert (state.head, found.values, await saver.aload("nobody")) == ("c0000", {"k": "v"}, None)
        await saver.adelete_thread("t")
        assert await saver.afind("t") == (None, None)

    asyncio.run(through())


def test_every_flipped_bit_changes_the_seal() -> None:
    body = b"some stored value"
    right = seal(crc32(body), ("thread", "", "channel", 7, None))
    for index in range(len(body) * 8):
        damaged = bytearray(body)
        damaged[index // 8] ^= 1 << index % 8
        assert seal(crc32(damaged), ("thread", "", "channel", 7, None)) != right
    for key in (
        ("threa", "d", "channel", 7, None),
        ("thread", "", "channel", 8, None),
        ("thread", "", "channel", 7),
    ):
        assert seal(crc32(body), key) != right


# Logs: lists and dicts that grow


class Grower:
    """A thread whose values are known: what each checkpoint must read as."""

    def __init__(self, saver: BaseCheckpointSaver, thread: str = "t", thorough: bool = True) -> None:
        self.saver, self.thread, self.thorough = saver, thread, thorough
        self.states: dict[str, Values] = {}
        self.parents: dict[str, str | None] = {}
        self.runs: dict[str, str] = {}
        self.head: str | None = None
        self.tip = Tip()
        self.token = ""
        self.made = 0

    # Writing

    def step(
        self, extended: Mapping[str, Any] | None = None, cleared: Iterable[str] = (), **changed: Any
    ) -> str:
        """One checkpoint in one commit; returns its id."""
        self.commit([self.next(extended, cleared, **changed)])
        assert self.head is not None
        return self.head

    def next(
        self, extended: Mapping[str, Any] | None = None, cleared: Iterable[str] = (), **changed: Any
    ) -> Checkpoint:
        """The checkpoint after the head, to be committed."""
        gone = list(cleared)
        new, run = f"{self.made:06}", f"{self.made % 4} of {self.thread[:8]}"
        self.made += 1
        made = Checkpoint(
            new, self.head, self.made, "loop", 1.5, {"run_id": run}, {}, None, changed, gone,
            extended=extended or {},
        )  # fmt: skip
        state = {**self.current, **changed}
        self.states[new] = copy.deepcopy({key: state[key] for key in state if key not in gone})
        self.parents[new], self.runs[new], self.head = self.head, run, new
        return made

    @property
    def current(self) -> Values:
        return self.states[self.head] if self.head else {}

    def append(self, *items: Any, channel: str = "log", declared: bool = True) -> str:
        value = [*self.current.get(channel, []), *items]
        return self.step({channel: len(items)} if declared else {}, **{channel: value})

    def merge(self, pairs: dict[Any, Any], channel: str = "book", declared: bool = True) -> str:
        value = {**self.current.get(channel, {}), **pairs}
        return self.step({channel: list(pairs)} if declared else {}, **{channel: value})

    def commit(self, checkpoints: list[Checkpoint]) -> None:
        claims = not self.token
        acquire: ThreadState | None = None
        if claims:
            self.token = new_token()
            acquire = self.saver.open(self.thread).thread
        self.saver.commit(Commit(self.thread, "", self.token, self.tip, claims, acquire, False, checkpoints))

    def release(self) -> None:
        if self.token:
            self.saver.commit(Commit(self.thread, "", self.token, self.tip, release=True))
            forget_token(self.token)
            self.token = ""

    # Going elsewhere

    def at(self, checkpoint_id: str | None, among_others: bool = False) -> None:
        """Go on from a stored checkpoint, as a run does that opens it; or from one read with its history."""
        if checkpoint_id is not None:
            found = loaded(self.saver, checkpoint_id, self.thread)
            if among_others:
                history = self.saver.history(self.thread)
                found = next(one for one in history if one.checkpoint.id == checkpoint_id)
            self.tip = found.tip
        self.head = checkpoint_id

    def reopen(self, saver: BaseCheckpointSaver | None = None) -> None:
        self.release()
        self.saver = saver or self.saver
        self.at(self.head)

    def copy(self) -> None:
        """Go on in a copy of the thread."""
        self.release()
        self.saver.copy_thread(self.thread, f"{self.thread} again")
        self.saver.delete_thread(self.thread)
        self.thread = f"{self.thread} again"
        self.at(self.head_of_thread)

    @property
    def head_of_thread(self) -> str | None:
        stored = self.saver.find(self.thread)[0]
        return stored.head if stored else None

    def prune(self, keep_last: int) -> None:
        self.release()
        self.saver.prune(self.thread, keep_last=keep_last)
        head = self.head_of_thread
        kept = {*sorted(self.states)[-keep_last:], head}
        self.remove(set(self.states) - kept)
        self.at(head)

    def forget_run(self, number: int) -> None:
        """`delete_for_runs`; the head goes back to what is left of its branch, or of the thread."""
        self.release()
        run = f"{number} of {self.thread[:8]}"
        self.saver.delete_for_runs([run])
        self.remove({key for key, of in self.runs.items() if of == run and key in self.states})
        self.at(self.head_of_thread)
        if self.head is None:
            assert self.states == {}
            self.tip = Tip()

    def remove(self, ids: set[str]) -> None:
        self.states = {key: state for key, state in self.states.items() if key not in ids}

    # Looking

    def check(self) -> None:
        """Every checkpoint reads exactly as it was, by itself and among the others."""
        history = list(self.saver.history(self.thread))
        assert [found.checkpoint.id for found in history] == sorted(self.states, reverse=True)
        for found in history:
            self._check(found)
        for checkpoint_id in list(self.states) if self.thorough else sorted(self.states)[:1]:
            self._check(loaded(self.saver, checkpoint_id, self.thread))

    def _check(self, found: Saved) -> None:
        assert exact(found.values) == exact(self.states[found.checkpoint.id])
        assert found.checkpoint.parent_id == self.nearest(self.parents[found.checkpoint.id])

    def nearest(self, checkpoint_id: str | None) -> str | None:
        """The checkpoint, or the first before it that is left."""
        while checkpoint_id is not None and checkpoint_id not in self.states:
            checkpoint_id = self.parents[checkpoint_id]
        return checkpoint_id

    @property
    def rows(self) -> int:
        return self.saver.usage(self.thread).values

    @property
    def bytes(self) -> int:
        return self.saver.usage(self.thread).bytes


def exact(values: Values) -> dict[str, bytes]:
    """Equal for values that are equal in content, type and order."""
    return {channel: pack(value) for channel, value in values.items()}


@pytest.fixture
def grower(saver: BaseCheckpointSaver, monkeypatch: pytest.MonkeyPatch) -> Grower:
    """Its lists and dicts are logs and its values have rows, unless they take one byte."""
    monkeypatch.setattr(writing, "SMALL", 1)
    return Grower(saver)


@pytest.mark.parametrize("declared", [True, False])
def test_a_small_list_or_dict_has_no_row_until_it_has_grown(
    saver: BaseCheckpointSaver, declared: bool
) -> None:
    grower, rows = Grower(saver), []
    for number in range(SMALL + 4):
        grower.append(number % 10, declared=declared)
        rows.append(grower.rows)
    # Three bytes of header: from then on it is a log, of a first row and one for each superstep.
    assert rows == [0] * (SMALL - 3) + [1, 2, 3, 4, 5, 6, 7]
    grower.merge({"a": 1}, declared=declared)
    grower.merge({"b": [2]}, declared=declared)
    assert grower.rows == rows[-1]
    grower.merge({"c": "x" * SMALL}, declared=declared)
    grower.merge({"d": 4}, declared=declared)
    assert grower.rows == rows[-1] + 2
    grower.step(log=[1])
    grower.reopen()
    grower.append(2, declared=declared)
    grower.merge({"e": 5}, declared=declared)
    assert grower.rows == rows[-1] + 3
    grower.check()


def folded_rows(appended: int) -> int:
    """The row that the log began with, the folded ones, and those that are still loose."""
    return 1 + appended // FOLD + appended % FOLD


@pytest.mark.parametrize("declared", [True, False])
def test_a_list_that_grows_is_folded_and_read_at_every_length(grower: Grower, declared: bool) -> None:
    grower.append("first", declared=declared)
    for number in range(2 * FOLD + 5):
        grower.append(number, {"number": number}, declared=declared)
        assert grower.rows == folded_rows(number + 1)
    grower.check()


@pytest.mark.parametrize("declared", [True, False])
def test_a_dict_that_grows_is_folded_and_read_at_every_length(grower: Grower, declared: bool) -> None:
    grower.merge({"first": 0}, declared=declared)
    for number in range(FOLD + 5):
        grower.merge({number: str(number), (number, None): []}, declared=declared)
    assert grower.rows == folded_rows(FOLD + 5)
    grower.check()


def test_folding_goes_on_where_another_saver_stopped(grower: Grower, reopen: Callable[..., Any]) -> None:
    grower.append("first")
    for number in range(2 * FOLD + 5):
        if number % 13 == 0 or number % FOLD in (0, 1, FOLD - 1):
            grower.reopen(reopen(grower.saver))
        grower.append(number)
        assert grower.rows == folded_rows(number + 1)
    grower.check()


def test_large_rows_are_not_folded_and_end_a_run_of_small_ones(grower: Grower) -> None:
    large = "x" * (LOOSE_BYTES + 1)
    grower.append("first")
    for number in range(FOLD - 2):
        grower.append(number)
    grower.append(large)
    for number in range(FOLD - 1):
        if number == 5:
            grower.reopen()
        grower.append(number)
    assert grower.rows == 1 + (FOLD - 2) + 1 + (FOLD - 1)
    grower.append("the last")
    assert grower.rows == 1 + (FOLD - 2) + 1 + 1
    grower.check()


@pytest.mark.parametrize("declared", [True, False])
def test_bytes_are_linear_in_what_is_appended(grower: Grower, declared: bool) -> None:
    grower.append("x" * 100, declared=declared)
    sizes = []
    for _ in range(2):
        before = grower.bytes
        for _ in range(100):
            grower.append("x" * 100, declared=declared)
        sizes.append(grower.bytes - before)
    assert sizes[0] < 100 * 200
    assert sizes[1] < 1.05 * sizes[0]


@pytest.mark.parametrize("where", [0, 1, 2, 30, FOLD - 1, FOLD, FOLD + 1, FOLD + 2, 2 * FOLD])
def test_a_fork_from_any_part_of_a_log(grower: Grower, where: int) -> None:
    """Before, within, at the end of and after folded rows."""
    ids = [grower.append(number) for number in range(2 * FOLD + 10)]
    before = grower.rows
    grower.at(ids[where])
    for number in range(FOLD + 3):
        grower.append("other", number)
    # The row that the branch began with, one folded row, and the loose ones.
    assert grower.rows == before + 1 + 1 + 2
    grower.check()


def test_branches_that_grow_alternately(grower: Grower) -> None:
    heads = [grower.append("first")] * 3
    for number in range(2 * FOLD):
        which = number % 3
        grower.at(heads[which])
        heads[which] = grower.append(which, number)
    for which in range(3):
        grower.at(heads[which])
        assert grower.current["log"] == ["first"] + [
            item for number in range(which, 2 * FOLD, 3) for item in (which, number)
        ]
    assert len({loaded(grower.saver, head).tip.versions["log"].log for head in heads}) == 3
    grower.check()


@pytest.mark.parametrize("among_others", [False, True])
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("where", [1, 30, FOLD, FOLD + 1])
def test_a_fork_that_appends_what_the_other_branch_did(
    grower: Grower, where: int, declared: bool, among_others: bool
) -> None:
    ids = [grower.append(number) for number in range(FOLD + 5)]
    grower.at(ids[where], among_others)
    grower.append(*range(where + 1, FOLD + 8), declared=declared)
    assert grower.current["log"] == [*range(FOLD + 8)]
    grower.append("and on", declared=declared)
    grower.check()


def test_a_fork_that_first_appends_nothing(grower: Grower) -> None:
    ids = [grower.append(number) for number in range(5)]
    grower.at(ids[2])
    grower.append()
    grower.append("other")
    grower.check()


@pytest.mark.parametrize("reopened", [False, True])
def test_a_checkpoint_is_never_far_from_one_that_lists_everything(grower: Grower, reopened: bool) -> None:
    rows_to_read = []
    for number in range(60):
        changed: Values = {f"k{number % 4}": number}
        grower.step(**changed)
        if reopened:
            grower.reopen()
        base = loaded(grower.saver).tip.base
        rows_to_read.append(grower.made - int(base))
    assert 2 < max(rows_to_read) <= SMALLEST_BASE + 1


def test_checkpoints_that_are_read_together_do_not_share_a_value(grower: Grower) -> None:
    grower.step(k=([1], {"a": 2}))
    grower.step(other=1)
    newest, oldest = grower.saver.history("t")
    newest.values["k"][0].append("changed")
    newest.values["k"][1].clear()
    assert oldest.values["k"] == ([1], {"a": 2})


def test_forks_of_forks_begin_a_log_of_their_own_in_the_end(grower: Grower) -> None:
    depth = MOST_FORKS + 3
    base = grower.append(*range(50))
    for level in range(depth):
        grower.append("left behind", level)
        grower.at(base)
        base = grower.append("branch", level)
        grower.append("and on", level)
        # The next fork leaves from the middle of this branch.
    grower.check()
    grower.at(base)
    forks = loaded(grower.saver, base).tip.growth["log"].forks
    assert 0 <= forks <= MOST_FORKS
    assert grower.current["log"] == [*range(50), *(part for n in range(depth) for part in ("branch", n))]


def test_a_dict_is_written_anew_when_overwritten_keys_outweigh_it(grower: Grower) -> None:
    grower.merge(dict.fromkeys(range(10), "x" * 50))
    logs = set()
    for number in range(100):
        grower.merge({number % 10: f"{number:050}"})
        found = grower.saver.load(grower.thread)
        assert found is not None
        logs.add(found.tip.versions["book"].log)
    assert 3 <= len(logs) <= 12
    assert len(grower.current["book"]) == 10
    assert grower.bytes < 100 * 250
    grower.check()


def test_keys_that_are_equal_and_not_alike(grower: Grower) -> None:
    grower.merge({1: "int", 0: "zero"})
    grower.merge({True: "true", 0.0: "float"})
    grower.merge({False: "false", 2: "two"})
    assert grower.current["book"] == {1: "true", 0: "false", 2: "two"}
    grower.check()


def test_keys_that_are_not_found_again(grower: Grower) -> None:
    """What is equal to itself alone is another one when it has been read."""
    nan = float("nan")
    for number in range(5):
        grower.merge({nan: number, (1, nan): number, (2, 3): number, 1.5: number})
        grower.merge({"k": number})
    grower.check()
    assert len(loaded(grower.saver).values["book"]) == 5


def test_changes_inside_are_seen_where_nothing_says_what_changed(grower: Grower) -> None:
    value: list[Any] = [[1], {"a": 1}, "text"]
    grower.step(log=value)
    for change in (
        lambda: value[0].append(2),
        lambda: value[1].update(a=True),
        lambda: value.append("more"),
        lambda: value.__setitem__(2, "taxt"),
        lambda: value.reverse(),
        lambda: value.pop(),
        lambda: value.insert(0, "front"),
        lambda: value.extend([1, 2, 3]),
        lambda: None,
    ):
        change()
        grower.step(log=value)
    grower.check()


def test_a_list_changed_inside_beside_what_its_write_says(grower: Grower) -> None:
    """`extended` says one item more; there are two."""
    grower.step(log=["a"])
    grower.step({"log": 1}, log=["a", "b", "c"])
    grower.step({"log": 1}, log=["a", "b", "c", "d"])
    grower.check()


def test_a_value_may_change_its_kind(grower: Grower) -> None:
    kinds: list[Any] = [
        [1, 2],
        {"a": 1},
        "scalar",
        [1, 2],
        [],
        [1],
        {},
        {"a": 1},
        None,
        (1, 2),
        {1},
        [1, 2, 3],
    ]
    for value in kinds:
        grower.step(k=value)
        grower.step(k=value)
    for value in reversed(kinds):
        grower.step(k=value)
    grower.check()


def test_a_list_and_a_dict_of_the_same_items_are_told_apart(grower: Grower) -> None:
    """[1, 2] and {1: 2} have the same bytes."""
    grower.step(k=[1, 2])
    grower.step(k={1: 2})
    grower.step(k=[1, 2])
    grower.step({"k": [3]}, k={1: 2, 3: 4})
    grower.step({"k": 1}, k=[1, 2, 3])
    grower.check()


def test_extensions_of_nothing(grower: Grower) -> None:
    grower.append()
    grower.append("a")
    grower.append()
    grower.append("b")
    grower.merge({})
    grower.merge({"a": 1})
    grower.merge({})
    grower.reopen()
    grower.append()
    grower.merge({"b": 1})
    grower.check()


def test_what_was_cleared_begins_anew(grower: Grower) -> None:
    grower.append("a", "b")
    cleared = grower.step(cleared=["log"])
    assert "log" not in grower.current
    grower.append("c")
    grower.step(cleared=["log"], other=1)
    grower.at(cleared)
    grower.append("d")
    grower.check()


def test_several_checkpoints_of_one_commit_build_on_each_other(grower: Grower) -> None:
    grower.append("first")
    value: list[Any] = ["first"]
    for turn in range(4):
        points = []
        for number in range(FOLD // 2 + 7):
            value = [*value, (turn, number)]
            points.append(grower.next({"log": 1}, log=value, k=f"{number:{SMALL}}"))
        grower.commit(points)
    assert grower.rows - 4 * (FOLD // 2 + 7) == folded_rows(4 * (FOLD // 2 + 7))
    grower.check()


@pytest.mark.parametrize("keep", [1, 2, 5, FOLD])
def test_pruning_keeps_what_is_left_readable_and_growing(grower: Grower, keep: int) -> None:
    ids = [grower.append(number) for number in range(FOLD + 10)]
    grower.at(ids[FOLD // 2])
    for number in range(5):
        grower.append("branch", number)
    grower.prune(keep)
    grower.check()
    assert len(grower.states) == keep
    for number in range(3):
        grower.append("on", number)
    grower.check()
    grower.prune(1)
    grower.check()
    grower.step(log=[])
    grower.prune(1)
    assert grower.rows == 0


def test_pruning_gives_back_the_rest_of_a_log(grower: Grower) -> None:
    ids = [grower.append(number) for number in range(20)]
    grower.at(ids[4])
    grower.step(other="x" * SMALL)
    grower.prune(1)
    assert grower.rows == 5 + 1
    grower.append("on")
    grower.check()


def test_pruning_keeps_as_much_of_a_log_as_any_branch_needs(grower: Grower) -> None:
    ids = [grower.append(number) for number in range(10)]
    grower.at(ids[6])
    grower.append("branch")
    grower.at(ids[2])
    grower.step(other="x" * SMALL)
    grower.prune(2)
    assert [state["log"] for state in grower.states.values()] == [[*range(7), "branch"], [0, 1, 2]]
    assert grower.rows == 7 + 1 + 1
    grower.check()


# Any history at all, against a model

small = st.one_of(
    st.integers(-2, 300), st.sampled_from(["", "a", "b" * 40, "c" * 2 * SMALL, None, True, 1.0, b"x"])
)
keys = st.sampled_from(["a", "b", "c", 1, True, 0, None])
lists = st.lists(small, max_size=4)
dicts = st.dictionaries(keys, small, max_size=4)
channels = st.sampled_from(["one", "two"])
declared = st.booleans()
changes = st.one_of(
    st.tuples(st.just("append"), lists, declared),
    st.tuples(st.just("append"), lists, declared),
    st.tuples(st.just("merge"), dicts, declared),
    st.tuples(st.just("merge"), dicts, declared),
    st.tuples(st.just("inside"), st.integers(0, 3), small),
    st.tuples(st.just("replace"), st.one_of(lists, dicts, small)),
    st.tuples(st.just("clear")),
)
supersteps = st.tuples(st.just("step"), st.dictionaries(channels, changes, max_size=2))
operations = st.one_of(
    supersteps,
    supersteps,
    supersteps,
    st.tuples(
        st.just("steps"), st.lists(st.dictionaries(channels, changes, max_size=2), min_size=2, max_size=5)
    ),
    st.tuples(st.just("grow"), channels, st.integers(2, 8)),
    st.tuples(st.just("fork"), st.integers(0, 30), st.booleans()),
    st.tuples(st.just("copy")),
    st.tuples(st.just("prune"), st.integers(1, 6)),
    st.tuples(st.just("forget"), st.integers(0, 3)),
    st.tuples(st.just("reopen")),
)


def changed_value(old: Any, change: tuple[Any, ...]) -> tuple[Any, Any]:
    """A channel's next value, and what `extended` says of it (None: nothing)."""
    kind, *rest = change
    if kind == "append":
        items, is_declared = rest
        if type(old) is list:
            return [*old, *items], len(items) if is_declared else None
        return list(items), None
    if kind == "merge":
        pairs, is_declared = rest
        if type(old) is dict:
            return {**old, **pairs}, list(pairs) if is_declared else None
        return dict(pairs), None
    if kind == "inside":
        return with_one_changed(old, *rest), None
    return rest[0], None


def with_one_changed(old: Any, index: int, item: Any) -> Any:
    if type(old) is list and old:
        return [*old[: index % len(old)], item, *old[index % len(old) + 1 :]]
    if type(old) is dict and old:
        return {**old, list(old)[index % len(old)]: item}
    return item


def superstep(grower: Grower, wanted: Mapping[str, tuple[Any, ...]]) -> Checkpoint:
    changed: Values = {}
    extended: dict[str, Any] = {}
    for channel, change in wanted.items():
        if change[0] == "clear":
            continue
        changed[channel], says = changed_value(grower.current.get(channel), change)
        if says is not None:
            extended[channel] = says
    cleared = [channel for channel in wanted if channel not in changed]
    return grower.next(extended, cleared, **changed)


def obey(grower: Grower, savers: list[BaseCheckpointSaver], operation: tuple[Any, ...]) -> None:
    kind, *rest = operation
    if kind == "step":
        grower.commit([superstep(grower, rest[0])])
    elif kind == "steps":
        grower.commit([superstep(grower, wanted) for wanted in rest[0]])
    elif kind == "grow":
        for number in range(rest[1]):
            grower.commit([superstep(grower, {rest[0]: ("append", [number], True)})])
    elif not grower.states:
        return
    elif kind == "fork":
        grower.at(sorted(grower.states)[rest[0] % len(grower.states)], among_others=rest[1])
    elif kind == "copy":
        grower.copy()
    elif kind == "prune":
        grower.prune(rest[0])
        grower.check()
    elif kind == "forget":
        grower.forget_run(rest[0])
        grower.check()
    else:
        grower.reopen(savers[grower.saver is savers[0]])


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a short history comes across them all."""
    monkeypatch.setattr(writing, "FOLD", 3)
    monkeypatch.setattr(writing, "MOST_FORKS", 2)
    monkeypatch.setattr(writing, "SMALLEST_BASE", 3)
    monkeypatch.setattr(writing, "SMALL", 8)
    for module in (writing, reading):
        monkeypatch.setattr(module, "LOOSE_BYTES", 30)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def storage(request: pytest.FixtureRequest) -> Iterator[Storage]:
    made = storage_of(request.param, request)
    yield made
    made.close()


@pytest.mark.timeout(600)  # 300 histories on a machine that has other things to do
def test_any_history_reads_as_a_model_says(storage: Storage, small_limits: None) -> None:
    savers = [storage.open(), storage.open()]
    threads = iter(range(sys.maxsize))

    @settings(max_examples=300, suppress_health_check=list(HealthCheck))
    @given(st.lists(operations, min_size=1, max_size=14))
    def examine(history: list[tuple[Any, ...]]) -> None:
        thorough = not isinstance(storage, PostgresStorage)
        grower = Grower(savers[0], f"t{next(threads):07}", thorough)
        try:
            for operation in history:
                obey(grower, savers, operation)
            grower.release()
            grower.check()
        finally:
            forget_token(grower.token)
            savers[0].delete_thread(grower.thread)

    examine()
