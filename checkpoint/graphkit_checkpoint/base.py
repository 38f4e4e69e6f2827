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
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar

from graphkit_checkpoint.admission import find_head, find_row, positive, refuse_busy, visible
from graphkit_checkpoint.done import Done
from graphkit_checkpoint.interface import SaverInterface
from graphkit_checkpoint.layout import MAX_VALUE_BYTES, Cipher, Layout, Rows
from graphkit_checkpoint.life import ThreadLife
from graphkit_checkpoint.past import Past
from graphkit_checkpoint.reading import Reader
from graphkit_checkpoint.records import Commit, Opening, Saved, ThreadState
from graphkit_checkpoint.worker import Worker
from graphkit_checkpoint.writing import encode

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future


T = TypeVar("T")
SWEEP_INTERVAL = 60.0
"""Seconds between two sweeps of a saver with a `ttl`: by whichever run begins then."""


class SaverOptions(TypedDict, total=False):
    """Options of every saver: see `BaseCheckpointSaver`."""

    lease: float
    ttl: float | None
    serde: Cipher | None
    max_value_bytes: int


class BaseCheckpointSaver(SaverInterface, Past, ThreadLife):
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

    # What a saver implements, beside `Transactions`

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
            if namespace or checkpoint_id:
                root = visible(tables, thread_id)
                row = None if root is None else find_row(tables, thread_id, namespace, checkpoint_id, root)
                way = [] if row is None else [row]
            else:
                root, way = find_head(tables, thread_id)
            if root is None:
                return None, None
            if not way:
                return root.state, None
            reader = Reader(tables, self.layout, thread_id, namespace, way)
            return root.state, reader.saved(way[-1], root.state)

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

    # The async doors: the same bodies, run where they keep no event loop waiting.

    async def off_loop(self, call: Callable[..., T], *args: Any, **options: Any) -> T:
        """Run a method of this saver in its own thread, if it may wait for I/O."""
        if not self.blocking:
            return call(*args, **options)
        return await self.worker.call(call, *args, **options)

    async def asetup(self) -> None:
        """`setup`, keeping no event loop waiting."""
        await self.off_loop(self.setup)

    async def afind(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> tuple[ThreadState | None, Saved | None]:
        return await self.off_loop(self.find, thread_id, namespace, checkpoint_id)

    async def aload(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> Saved | None:
        return await self.off_loop(self.load, thread_id, namespace, checkpoint_id)

    async def acommit(self, commit: Commit) -> None:
        """`commit`; values are read before this waits for anything."""
        await self.off_loop(self.write, self.encode(commit))
