"""The life of threads: which there are, copying, pruning and deleting them, and how long they are kept.

Whatever changes a thread here needs it free, and counts its epoch up (`base`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from graphkit_checkpoint import upkeep
from graphkit_checkpoint.admission import check_thread_id, current, idle, is_owned, positive
from graphkit_checkpoint.errors import ConcurrentUpdateError
from graphkit_checkpoint.records import Usage
from graphkit_checkpoint.transactions import Transactions


class ThreadLife(Transactions):
    """What is done to threads as wholes, with LangGraph's names where it has some."""

    def thread_ids(self) -> list[str]:
        """The ids of all threads, in order."""
        with self.reading() as tables:
            return tables.thread_ids()

    def usage(self, thread_id: str) -> Usage:
        """How much space the thread takes; zeros for one that does not exist."""
        with self.reading() as tables:
            return Usage(*tables.usage(check_thread_id(thread_id)))

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread with everything that belongs to it; an unknown one is no error.

        Raises `ConcurrentUpdateError` while a run owns it.
        """
        with self.writing() as tables:
            idle(tables, check_thread_id(thread_id))
            tables.drop_thread(thread_id)  # also what is left of one whose row is lost

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
        younger than so many seconds; with both, what either keeps stays. Of nested graphs that go on with their state
        (`checkpointer=True`) what the kept checkpoints go on with stays too; what ran for one task goes with the
        checkpoint of that task. The turn of a run that broke off stays, so that the same call again goes on with it.
        `strategy="keep_latest"` means `keep_last=1`, which is what named threads get without any rule, and "delete"
        removes the threads (LangGraph's names).
        """
        if strategy is not None:
            if strategy not in ("keep_latest", "delete") or (keep_last, older_than) != (None, None):
                raise ValueError(f"strategy must be 'keep_latest' or 'delete', and alone, not {strategy!r}")
            keep_last = 1
        if keep_last is None and older_than is None:
            if thread_ids is None:
                raise ValueError("prune() of all threads needs keep_last=, older_than= or strategy=")
            keep_last = 1
        if keep_last is not None and (type(keep_last) is not int or keep_last < 1):
            raise ValueError(f"keep_last must be a whole number of at least 1, not {keep_last!r}")
        if older_than is not None and (type(older_than) not in (int, float) or not older_than >= 0):
            raise ValueError(f"older_than must be a number of seconds, not {older_than!r}")
        kept_since = None if older_than is None else time.time() - older_than
        named = None if thread_ids is None else [check_thread_id(each) for each in _several(thread_ids)]
        removed = 0
        for thread_id in self.thread_ids() if named is None else named:
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

    def delete_for_runs(self, run_ids: str | Iterable[str]) -> int:
        """Remove the checkpoints whose metadata says that they were made by one of these runs (`run_id`).

        A thread that loses its head goes back to the newest checkpoint before it, and away if there is none.
        Returns how many checkpoints were removed. Raises `ConcurrentUpdateError` if a run owns such a thread.
        """
        wanted = frozenset(map(str, _several(run_ids)))
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
            if row.state.holder is not None:
                tables.break_off(thread_id)

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

    # The async doors

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

    async def adelete_for_runs(self, run_ids: str | Iterable[str]) -> int:
        return await self.off_loop(self.delete_for_runs, run_ids)

    async def aset_ttl(self, thread_id: str, seconds: float | None) -> None:
        await self.off_loop(self.set_ttl, thread_id, seconds)

    async def adelete_expired(self) -> list[str]:
        return await self.off_loop(self.delete_expired)

    async def athread_ids(self) -> list[str]:
        return await self.off_loop(self.thread_ids)

    async def ausage(self, thread_id: str) -> Usage:
        return await self.off_loop(self.usage, thread_id)


def _several(ids: str | Iterable[str]) -> Iterable[str]:
    """The ids; one alone, which may be a UUID, is a list of one."""
    return ids if isinstance(ids, Iterable) and not isinstance(ids, str) else [ids]
