"""The saver contract: what the engine hands over and gets back, and the rules every saver keeps.

A *thread* has a head checkpoint, an owner and an epoch. A run *claims* the thread by its first commit,
*commits* while it owns it and *releases* it with its last. Claiming is compare-and-swap on the epoch as it
was loaded; committing is compare-and-swap on the owner; both in the transaction that writes the data, so
that of several runs exactly one can win and a run that was replaced can write nothing. Everything else
that changes a thread (copying, pruning, deleting) needs it free and counts the epoch up, so that a run that
loaded it before cannot claim it after.

Below the root namespace ("") live the checkpoints of nested graphs. They have heads of their own; the
claim is always the root's.

A saver implements four things: `reading` and `writing`, transactions on the tables, `write`, one encoded
commit, and `renew`, a lease that begins anew.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar

from graphkit_checkpoint import upkeep
from graphkit_checkpoint.admission import (
    check_thread_id,
    current,
    find_row,
    idle,
    is_owned,
    is_text,
    positive,
    refuse_busy,
    visible,
)
from graphkit_checkpoint.done import Done
from graphkit_checkpoint.errors import ConcurrentUpdateError
from graphkit_checkpoint.interface import SaverInterface
from graphkit_checkpoint.layout import MAX_VALUE_BYTES, CheckpointRow, Cipher, Layout, Rows
from graphkit_checkpoint.reading import Reader
from graphkit_checkpoint.records import (
    Checkpoint,
    Commit,
    Opening,
    Pending,
    Saved,
    ThreadState,
    Usage,
    described,
)
from graphkit_checkpoint.tables import ReadTables, WriteTables
from graphkit_checkpoint.worker import Worker
from graphkit_checkpoint.writing import encode

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future


T = TypeVar("T")
SWEEP_INTERVAL = 60.0
"""Seconds between two sweeps of a saver with a `ttl`: by whichever run begins then."""
PAGE = 32
"""How many checkpoints of a history are read at once."""


class SaverOptions(TypedDict, total=False):
    """Options of every saver: see `BaseCheckpointSaver`."""

    lease: float
    ttl: float | None
    serde: Cipher | None
    max_value_bytes: int


class BaseCheckpointSaver(SaverInterface, ABC):
    """Where threads live. One object serves sync and async callers and any number of threads.

    `lease` is how many seconds a claim is respected after its last commit or renewal; the claim of a process
    of this host that is dead is not respected at all. `ttl` is how many seconds a thread is kept after its
    last commit (None: for ever; `set_ttl` says otherwise for one thread); what has expired is gone for every
    reader at once, and from the database with a run that begins, at most once a minute (`delete_expired`).
    `serde` encrypts what is stored (`EncryptedSerializer`). `max_value_bytes` limits one stored value.
    """

    blocking = True
    """Whether an operation may wait for I/O: then async callers are served by threads of the saver's."""
    workers = 1
    """How many such threads there are; more than one where the database can do several things at a time."""

    def __init__(
        self,
        *,
        lease: float = 30.0,
        ttl: float | None = None,
        serde: Cipher | None = None,
        max_value_bytes: int = MAX_VALUE_BYTES,
    ) -> None:
        self.lease = positive(lease, "lease")
        self.ttl = None if ttl is None else positive(ttl, "ttl")
        self.layout = Layout(serde, int(positive(max_value_bytes, "max_value_bytes")))
        self._next_sweep = 0.0
        self.worker = Worker("graphkit-saver", self.workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    # What a saver implements

    @abstractmethod
    def reading(self) -> AbstractContextManager[ReadTables]:
        """A transaction that sees all tables as of one moment. Raises `StorageError`s."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[WriteTables]:
        """A transaction that no other writer gets in between of. Raises `StorageError`s."""

    @abstractmethod
    def write(self, rows: Rows) -> None:
        """Write one encoded commit atomically. Raises `ConcurrentUpdateError`, `LeaseLostError` and
        `StorageError`s, and has written nothing then."""

    @abstractmethod
    def renew(self, thread_id: str, token: str) -> None:
        """Let the lease of a run begin anew, if it still owns the thread."""

    def setup(self) -> Done:
        """Make or migrate what the saver needs. Done when the saver is made; calling it again is harmless.

        Async callers may await it, as they do with LangGraph's async savers.
        """
        return Done()

    def close(self) -> None:
        """Release files, connections and threads. Using the saver afterwards is an error."""
        self.worker.close()

    # Runs

    def find(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> tuple[ThreadState | None, Saved | None]:
        """The thread's state and the checkpoint (default: the head), both as of one moment; None for what there
        is not. Raises `CheckpointCorruptError`, `StorageError`s."""
        with self.reading() as tables:
            root = visible(tables, thread_id)
            if root is None:
                return None, None
            row = find_row(tables, thread_id, namespace, checkpoint_id, root)
            if row is None:
                return root.state, None
            return root.state, Reader(tables, self.layout, thread_id, namespace).saved(row, root.state)

    def open(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None, claims: bool = True
    ) -> Opening:
        """`load` for a run that will write. With `claims`, raises `ConcurrentUpdateError` if it is owned."""
        if self.ttl is not None and claims:
            self._sweep_now_and_then()
        # The claim compares with what was seen here, so a later change makes it fail.
        thread, saved = self.find_for_run(thread_id, namespace, checkpoint_id)
        holder = thread.holder if thread else None
        if claims:
            refuse_busy(thread_id, holder)
        if claims and holder is not None:
            # It may have given the thread back since it was read: only what is still there has been abandoned.
            thread, saved = self.find_for_run(thread_id, namespace, checkpoint_id)
            holder = thread.holder if thread else None
            refuse_busy(thread_id, holder)
        return Opening(thread, saved, holder is not None)

    def find_for_run(
        self, thread_id: str, namespace: str, checkpoint_id: str | None
    ) -> tuple[ThreadState | None, Saved | None]:
        """`find` for a run that goes on from there and will change no value in place."""
        return self.find(thread_id, namespace, checkpoint_id)

    def _sweep_now_and_then(self) -> None:
        now = time.monotonic()
        if now >= self._next_sweep:
            self._next_sweep = now + SWEEP_INTERVAL
            self.delete_expired()

    def load(self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None) -> Saved | None:
        """The checkpoint (default: the head), or None."""
        return self.find(thread_id, namespace, checkpoint_id)[1]

    def commit(self, commit: Commit) -> None:
        """Encode and write. Raises `UnserializableStateError` and `StateTooLargeError` before anything is
        written, `ConcurrentUpdateError` if the claim fails, `LeaseLostError` if it was lost."""
        self.write(self.encode(commit))

    def encode(self, commit: Commit) -> Rows:
        """The first half of `commit`, for callers that write later: values are read now."""
        return encode(self.layout, commit)

    def begin_write(self, rows: Rows) -> Future[None]:
        """`write` in the saver's own thread."""
        return self.worker.submit(self.write, rows)

    def begin_awrite(self, rows: Rows) -> asyncio.Future[None]:
        """`begin_write` for the running loop, whose future this is."""
        import asyncio

        return asyncio.wrap_future(self.begin_write(rows))

    # Looking

    def history(
        self,
        thread_id: str,
        namespace: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        filter: Mapping[str, Any] | None = None,
    ) -> Iterator[Saved]:
        """Checkpoints, newest first: with ids below `before`, whose metadata (`Checkpoint.described`) has every
        item of `filter`, at most `limit`. Read in pages, each as of one moment."""
        left = limit
        while left is None or left > 0:
            page = PAGE if left is None or filter else min(left, PAGE)
            rows, found = self._page(thread_id, namespace, before, page, filter, left)
            yield from found
            if len(rows) < page:
                return
            before = rows[-1].id
            left = None if left is None else left - len(found)

    def _page(
        self,
        thread_id: str,
        namespace: str,
        before: str | None,
        page: int,
        filter: Mapping[str, Any] | None,
        left: int | None,
    ) -> tuple[list[CheckpointRow], list[Saved]]:
        with self.reading() as tables:
            root = visible(tables, thread_id)
            if root is None or not is_text(namespace + (before or "")):
                return [], []
            rows = tables.recent(thread_id, namespace, before, page)
            reader = Reader(tables, self.layout, thread_id, namespace)
            taken = [row for row in rows if not filter or self._matches(reader, row, filter)][:left]
            reader.look_ahead(taken)
            return rows, [reader.saved(row, root.state) for row in taken]

    @staticmethod
    def _matches(reader: Reader, row: CheckpointRow, filter: Mapping[str, Any]) -> bool:
        body = reader.body(row)
        metadata = described(body.source, row.step, reader.metadata(body))
        return all(key in metadata and metadata[key] == value for key, value in filter.items())

    def find_input(self, thread_id: str) -> Checkpoint | None:
        """The checkpoint with the input that the head of the root namespace came from, if there is one."""
        wanted: str | None = None
        for saved in self.history(thread_id):
            point = saved.checkpoint
            if wanted is None:
                wanted = saved.thread.head
            if point.id != wanted:
                continue
            if point.source == "input":
                return point
            wanted = point.parent_id
            if wanted is None:
                break
        return None

    def find_pending(self, thread_id: str, kind: str, key: str) -> list[Pending]:
        """The pending records of this kind and key at any checkpoint of the root namespace, newest first."""
        with self.reading() as tables:
            if visible(tables, thread_id) is None or not is_text(kind + key):
                return []
            rows = tables.pending_of(thread_id, "", kind, key)
            return [self.layout.open_pending(thread_id, "", row) for row in rows]

    def find_on_way(
        self, thread_id: str, namespace: str, at: str | None, behind: Collection[str] | None = None
    ) -> str | None:
        """The newest checkpoint of a nested graph's `namespace` that the thread has behind it at checkpoint `at` of
        the root. What ran beside a checkpoint is not behind a fork of that one. The newest of all if `at` is not
        stored.

        A run that has not written its checkpoints yet began `at` a stored one, and names those that are `behind` it:
        its own, and `at` itself if that is.
        """
        with self.reading() as tables:
            reader = Reader(tables, self.layout, thread_id, namespace)
            way = Reader(tables, self.layout, thread_id, "")
            current = tables.checkpoint(thread_id, "", at) if at is not None else None
            passed = {at} if behind is None else set(behind)
            known, before = current is not None or behind is not None, None
            while rows := tables.recent(thread_id, namespace, before, PAGE):
                before = rows[-1].id
                for row in rows:
                    around = reader.metadata(reader.body(row)).get("parents", {}).get("")
                    while current is not None and around is not None and current.id > around:
                        parent = current.parent_id
                        if parent is not None and way.body(current).source != "fork":
                            passed.add(parent)
                        current = tables.checkpoint(thread_id, "", parent) if parent is not None else None
                    if not known or around in passed:
                        return row.id
            return None

    def namespaces(self, thread_id: str, under: str = "") -> list[str]:
        """The namespaces of a thread that begin with `under`, in order."""
        with self.reading() as tables:
            if visible(tables, thread_id) is None or not is_text(under):
                return []
            return tables.namespaces(thread_id, under)

    def thread_ids(self) -> list[str]:
        """The ids of all threads, in order."""
        with self.reading() as tables:
            return tables.thread_ids()

    def usage(self, thread_id: str) -> Usage:
        """How much space the thread takes; zeros for one that does not exist."""
        with self.reading() as tables:
            return Usage(*tables.usage(thread_id))

    # The life of a thread

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread with everything that belongs to it; an unknown one is no error.

        Raises `ConcurrentUpdateError` while a run owns it.
        """
        with self.writing() as tables:
            if idle(tables, check_thread_id(thread_id)) is not None:
                tables.drop_thread(thread_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Make a thread with the same history, open questions and nested graphs as another.

        Question and checkpoint ids stay the same. An unknown source is no error and makes nothing. Raises
        `ConcurrentUpdateError` while a run owns either, and `ValueError` if the target has a history.
        """
        with self.writing() as tables:
            source, target = check_thread_id(source_thread_id), check_thread_id(target_thread_id)
            found, taken = idle(tables, source), idle(tables, target)
            if current(taken) is not None:
                raise ValueError(f"thread {target!r} exists already; delete it or choose another id")
            if current(found) is None:
                return
            if taken is not None:
                tables.drop_thread(target)
            upkeep.copy(tables, self.layout, source, target)

    def prune(
        self,
        thread_ids: str | Iterable[str] | None = None,
        *,
        keep_last: int | None = None,
        older_than: float | None = None,
        strategy: str | None = None,
    ) -> int:
        """Remove old checkpoints; returns how many. The head of a thread always stays.

        Without `thread_ids` all threads are pruned and those that a run owns are passed over; a named one that is
        owned raises `ConcurrentUpdateError`. `keep_last` keeps that many of each namespace, `older_than` those
        younger than so many seconds; with both, what either keeps stays. `strategy="keep_latest"` means
        `keep_last=1`, which is what named threads get without any rule, and "delete" removes the threads (LangGraph's
        names).
        """
        if strategy is not None:
            if strategy not in ("keep_latest", "delete") or (keep_last, older_than) != (None, None):
                raise ValueError(f"strategy must be 'keep_latest' or 'delete', and alone, not {strategy!r}")
            keep_last = 1
        if keep_last is None and older_than is None:
            if thread_ids is None:
                raise ValueError("prune() of all threads needs keep_last=, older_than= or strategy=")
            keep_last = 1
        if keep_last is not None and (isinstance(keep_last, bool) or keep_last < 1):
            raise ValueError(f"keep_last must be a whole number of at least 1, not {keep_last!r}")
        if older_than is not None and (not isinstance(older_than, (int, float)) or not older_than >= 0):
            raise ValueError(f"older_than must be a number of seconds, not {older_than!r}")
        kept_since = None if older_than is None else time.time() - older_than
        named = [thread_ids] if isinstance(thread_ids, str) else thread_ids
        removed = 0
        for thread_id in self.thread_ids() if named is None else list(named):
            try:
                removed += self._prune(thread_id, keep_last, kept_since, strategy == "delete")
            except ConcurrentUpdateError:
                if named is not None:
                    raise
        return removed

    def _prune(self, thread_id: str, keep_last: int | None, kept_since: float | None, whole: bool) -> int:
        with self.writing() as tables:
            if idle(tables, thread_id) is None:
                return 0
            if whole:
                count = tables.usage(thread_id)[0]
                tables.drop_thread(thread_id)
                return count
            return upkeep.prune(tables, self.layout, thread_id, keep_last, kept_since)

    def delete_for_runs(self, run_ids: Iterable[str]) -> int:
        """Remove the checkpoints whose metadata says that they were made by one of these runs (`run_id`).

        A thread that loses its head goes back to the newest checkpoint before it, and away if there is none.
        Returns how many checkpoints were removed. Raises `ConcurrentUpdateError` if a run owns such a thread.
        """
        wanted = frozenset(map(str, run_ids))
        removed = 0
        for thread_id in self.thread_ids():
            with self.reading() as seen:
                concerned = any(upkeep.made_by(seen, self.layout, thread_id, wanted).values())
            if concerned:
                with self.writing() as tables:
                    idle(tables, thread_id)
                    ids = upkeep.made_by(tables, self.layout, thread_id, wanted)
                    removed += upkeep.remove(tables, self.layout, thread_id, ids)
        return removed

    def set_ttl(self, thread_id: str, seconds: float | None) -> None:
        """Keep this thread `seconds` long after its last commit, counted from now on, whatever the saver's `ttl`.

        `math.inf` keeps it for ever, None goes back to the saver's. Raises `ValueError` for an unknown thread,
        `ConcurrentUpdateError` while a run owns it.
        """
        if seconds is not None:
            positive(seconds, "ttl")
        with self.writing() as tables:
            row = current(idle(tables, check_thread_id(thread_id)))
            if row is None:
                raise ValueError(f"thread {thread_id!r} does not exist, so its ttl cannot be set")
            tables.put_thread(thread_id, "", row.state.head, row.state.epoch + 1, seconds)

    def delete_expired(self) -> list[str]:
        """Remove the threads whose time has run out; returns their ids. Expired threads cannot be seen either way;
        this gives their space back. Threads that a run owns are passed over."""
        with self.reading() as tables:
            expired = tables.thread_ids(expired=True)
        deleted = []
        for thread_id in expired:
            with self.writing() as tables:
                row = tables.thread(thread_id)
                if row is not None and row.expired and not is_owned(row):
                    tables.drop_thread(thread_id)
                    deleted.append(thread_id)
        return deleted

    # The async doors: the same bodies, run where they keep no event loop waiting.

    async def off_loop(self, call: Callable[..., T], *args: Any, **options: Any) -> T:
        """Run a method of this saver in its own thread, if it may wait for I/O."""
        if not self.blocking:
            return call(*args, **options)
        return await self.worker.call(call, *args, **options)

    async def asetup(self) -> None:
        await self.off_loop(self.setup)

    async def afind(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> tuple[ThreadState | None, Saved | None]:
        return await self.off_loop(self.find, thread_id, namespace, checkpoint_id)

    async def aload(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> Saved | None:
        return await self.off_loop(self.load, thread_id, namespace, checkpoint_id)

    async def ahistory(
        self,
        thread_id: str,
        namespace: str = "",
        *,
        before: str | None = None,
        limit: int | None = None,
        filter: Mapping[str, Any] | None = None,
    ) -> Any:
        """`history` as an async iterator."""
        found = self.history(thread_id, namespace, before=before, limit=limit, filter=filter)
        while (saved := await self.off_loop(next, found, None)) is not None:
            yield saved

    async def acommit(self, commit: Commit) -> None:
        """`commit`; values are read before this waits for anything."""
        await self.off_loop(self.write, self.encode(commit))

    async def adelete_thread(self, thread_id: str) -> None:
        await self.off_loop(self.delete_thread, thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self.off_loop(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(
        self,
        thread_ids: str | Iterable[str] | None = None,
        *,
        keep_last: int | None = None,
        older_than: float | None = None,
        strategy: str | None = None,
    ) -> int:
        return await self.off_loop(
            self.prune, thread_ids, keep_last=keep_last, older_than=older_than, strategy=strategy
        )

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> int:
        return await self.off_loop(self.delete_for_runs, run_ids)

    async def aset_ttl(self, thread_id: str, seconds: float | None) -> None:
        await self.off_loop(self.set_ttl, thread_id, seconds)

    async def adelete_expired(self) -> list[str]:
        return await self.off_loop(self.delete_expired)

    async def athread_ids(self) -> list[str]:
        return await self.off_loop(self.thread_ids)

    async def ausage(self, thread_id: str) -> Usage:
        return await self.off_loop(self.usage, thread_id)
