"""The saver contract: what the engine hands over and gets back, and the rules every saver keeps.

A *thread* has a head checkpoint, an owner and an epoch. A run *claims* the thread by its first commit,
*commits* while it owns it and *releases* it with its last. Claiming is compare-and-swap on (epoch, owner)
as they were loaded; committing is compare-and-swap on the owner; both in the transaction that writes the
data, so that of several runs exactly one can win and a run that was replaced can write nothing.

Below the root namespace ("") live the checkpoints of nested graphs. They have heads of their own; the
claim is always the root's.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from graphkit_checkpoint.errors import ConcurrentUpdateError, InvalidThreadIdError, LeaseLostError
from graphkit_checkpoint.layout import Rows, encode
from graphkit_checkpoint.ownership import Holder, is_alive
from graphkit_checkpoint.records import Commit, Opening, Pending, Saved, ThreadState

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


T = TypeVar("T")


class BaseCheckpointSaver(ABC):
    """Where threads live. One object serves sync and async callers and any number of threads.

    `lease` is how many seconds a claim of another host is respected after its last commit.
    """

    blocking = True
    """Whether an operation may wait for I/O: then async callers are served by a thread of the saver's."""

    def __init__(self, *, lease: float = 30.0) -> None:
        self.lease = lease
        self._worker: ThreadPoolExecutor | None = None
        self._worker_pid = 0
        self._worker_lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def find(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> tuple[ThreadState | None, Saved | None]:
        """The thread's row and the checkpoint (default: the head), both as of one moment; None for what there
        is not. Raises `CheckpointCorruptError`, `StorageError`s."""

    @abstractmethod
    def write(self, rows: Rows) -> None:
        """Write one encoded commit atomically, by the rules of `refuse`."""

    @abstractmethod
    def checkpoint_ids(self, thread_id: str, namespace: str = "") -> list[str]:
        """The ids of all checkpoints, newest first."""

    @abstractmethod
    def find_pending(self, thread_id: str, kind: str, key: str) -> list[Pending]:
        """The pending records of this kind and key at any checkpoint of the root namespace, newest first."""

    @abstractmethod
    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread with everything that belongs to it; an unknown one is no error.

        Raises `ConcurrentUpdateError` while a run owns it.
        """

    def close(self) -> None:
        """Release files and threads. Using the saver afterwards is an error."""
        if self._worker is not None and self._worker_pid == os.getpid():
            self._worker.shutdown()

    def open(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None, claims: bool = True
    ) -> Opening:
        """`load` for a run that will write. With `claims`, raises `ConcurrentUpdateError` if it is owned."""
        # The claim compares with what was seen here, so a later change makes it fail.
        thread, saved = self.find(thread_id, namespace, checkpoint_id)
        holder = thread.holder if thread else None
        if claims:
            refuse_busy(thread_id, holder)
        return Opening(thread, saved, holder is not None)

    def load(self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None) -> Saved | None:
        """The checkpoint (default: the head), or None."""
        return self.find(thread_id, namespace, checkpoint_id)[1]

    def commit(self, commit: Commit) -> None:
        """Encode and write. Raises `UnserializableStateError` before anything is written,
        `ConcurrentUpdateError` if the claim fails, `LeaseLostError` if it was lost."""
        self.write(encode(commit, self.lease))

    def encode(self, commit: Commit) -> Rows:
        """The first half of `commit`, for callers that write later: values are read now."""
        return encode(commit, self.lease)

    # The async doors: the same bodies, run where they keep no event loop waiting.

    async def off_loop(self, call: Callable[..., T], *args: Any) -> T:
        """Run a method of this saver in its own thread, if it may wait for I/O."""
        if not self.blocking:
            return call(*args)
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(self.worker, call, *args)

    async def afind(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> tuple[ThreadState | None, Saved | None]:
        return await self.off_loop(self.find, thread_id, namespace, checkpoint_id)

    async def aload(
        self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None
    ) -> Saved | None:
        return await self.off_loop(self.load, thread_id, namespace, checkpoint_id)

    async def acheckpoint_ids(self, thread_id: str, namespace: str = "") -> list[str]:
        return await self.off_loop(self.checkpoint_ids, thread_id, namespace)

    async def acommit(self, commit: Commit) -> None:
        """`commit`; values are read before this waits for anything."""
        await self.off_loop(self.write, self.encode(commit))

    async def adelete_thread(self, thread_id: str) -> None:
        await self.off_loop(self.delete_thread, thread_id)

    @property
    def worker(self) -> ThreadPoolExecutor:
        """The one thread that serves async callers, in the order of their calls."""
        with self._worker_lock:
            if self._worker is None or self._worker_pid != os.getpid():  # a forked child has no threads
                from concurrent.futures import ThreadPoolExecutor

                self._worker = ThreadPoolExecutor(1, thread_name_prefix="graphkit-saver")
                self._worker_pid = os.getpid()
            return self._worker


def check_thread_id(thread_id: object) -> str:
    """The thread id as text. Raises `InvalidThreadIdError`."""
    if type(thread_id).__name__ == "UUID":
        from uuid import UUID

        if isinstance(thread_id, UUID):
            return str(thread_id)
    problem = _thread_id_problem(thread_id)
    if problem:
        raise InvalidThreadIdError(
            f"thread_id {thread_id!r:.80} {problem}; use a string of 1 to 255 characters, "
            f"such as {{'configurable': {{'thread_id': 'order-42'}}}}"
        )
    return str(thread_id)


def _thread_id_problem(thread_id: object) -> str:
    if thread_id is None:
        return "is missing"
    if type(thread_id) is not str:
        return f"is a {type(thread_id).__name__}"
    if not 1 <= len(thread_id) <= 255:
        return f"has {len(thread_id)} characters"
    if "\0" in thread_id:
        return "contains NUL"
    if any("\ud800" <= char <= "\udfff" for char in thread_id):
        return "contains a lone surrogate"
    return ""


def refuse_busy(thread_id: str, holder: Holder | None) -> None:
    """Raise `ConcurrentUpdateError` if somebody alive owns the thread."""
    if holder is not None and is_alive(holder):
        raise conflict(thread_id, holder)


def conflict(thread_id: str, holder: Holder | None) -> ConcurrentUpdateError:
    if holder is None:
        return ConcurrentUpdateError(
            f"thread {thread_id!r} was changed by another run in the meantime; nothing was written: "
            f"read its state and try again"
        )
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(holder.since))
    return ConcurrentUpdateError(
        f"thread {thread_id!r} is owned by run {holder.token} since {since}; nothing was written and no "
        f"node ran: try again when that run has ended"
    )


def lost(thread_id: str, token: str, holder: Holder | None) -> LeaseLostError:
    now = f"run {holder.token} owns it" if holder else "nobody owns it"
    return LeaseLostError(
        f"run {token} no longer owns thread {thread_id!r} ({now}); its last commit was refused: "
        f"read the thread's state and continue from there"
    )
