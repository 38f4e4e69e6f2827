"""Who is admitted to a thread: ids that can be one, threads that are there, and owners that are respected."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from graphkit_checkpoint.errors import ConcurrentUpdateError, InvalidThreadIdError, LeaseLostError
from graphkit_checkpoint.layout import CheckpointRow, corrupt
from graphkit_checkpoint.ownership import Holder, is_alive
from graphkit_checkpoint.tables import ReadTables, ThreadRow


def positive(value: float, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"{name} must be a number above 0, not {value!r}")
    return value


def check_thread_id(thread_id: object) -> str:
    """The thread id as text. Raises `InvalidThreadIdError`."""
    if type(thread_id) is str and 1 <= len(thread_id) <= 255 and is_text(thread_id):
        return thread_id
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
    if not is_text(thread_id):
        return "contains a lone surrogate"
    return ""


def addressed(configurable: Mapping[str, Any], name: str) -> str | None:
    """The text that a config has under this name; None if it has none or an empty one. Raises `ValueError`."""
    value = configurable.get(name)
    if value is None or isinstance(value, str):
        return value or None
    raise ValueError(
        f"{name} {value!r:.80} cannot be stored or found: it is a {type(value).__name__} and no text; use the config "
        f"of a checkpoint, such as get_state(config).config"
    )


def check_search(filter: object, limit: object) -> None:
    """Refuse what is no filter of metadata or no limit: `TypeError`, `ValueError`."""
    if not (filter is None or isinstance(filter, Mapping)):
        raise TypeError(
            f"filter is a dict of metadata that checkpoints must have, not a {type(filter).__name__}"
        )
    if not (limit is None or type(limit) is int):
        raise ValueError(f"limit must be a whole number or None, not {limit!r}")


def is_text(value: str) -> bool:
    """Whether every database can hold it: no NUL, no lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def is_owned(row: ThreadRow) -> bool:
    return row.state.holder is not None and is_alive(row.state.holder)


def current(row: ThreadRow | None) -> ThreadRow | None:
    """The row unless the thread's time has run out; then it is as if it were not there."""
    return None if row is None or (row.expired and not is_owned(row)) else row


def visible(tables: ReadTables, thread_id: str) -> ThreadRow | None:
    """The thread's row; None also for an id that no thread can have, which not every database would take. Raises
    `CheckpointCorruptError` if the row is missing."""
    if not is_text(thread_id):
        return None
    found = tables.thread(thread_id)
    if found is None or found.state.head is None:
        _refuse_rowless(tables, thread_id)
    return current(found)


def idle(tables: ReadTables, thread_id: str) -> ThreadRow | None:
    """The row of a thread that nobody owns, None if there is none. Raises `ConcurrentUpdateError`."""
    row = tables.thread(thread_id)
    if row is not None:
        refuse_busy(thread_id, row.state.holder)
    return row


def find_head(tables: ReadTables, thread_id: str) -> tuple[ThreadRow | None, list[CheckpointRow]]:
    """`visible`, with the row of the thread's head after rows on the way to it. Raises `CheckpointCorruptError` if the
    head is missing too."""
    if not is_text(thread_id):
        return None, []
    found, way = tables.thread_at_head(thread_id)
    if found is None or found.state.head is None:
        _refuse_rowless(tables, thread_id)
    row = current(found)
    if row is None:
        return None, []
    if row.state.head is not None and not (way and way[-1].id == row.state.head):
        raise _headless(thread_id, row.state.head)
    return row, way


def find_row(
    tables: ReadTables, thread_id: str, namespace: str, checkpoint_id: str | None, root: ThreadRow
) -> CheckpointRow | None:
    """The row of a checkpoint (default: the head). Raises `CheckpointCorruptError` if the head is missing."""
    if not is_text(namespace + (checkpoint_id or "")):
        return None
    thread = tables.thread(thread_id, namespace) if namespace else root
    if thread is None or thread.state.head is None:
        _refuse_rowless(tables, thread_id, namespace)
    wanted = checkpoint_id or (thread.state.head if thread else None)
    if not wanted:
        return None
    row = tables.checkpoint(thread_id, namespace, wanted)
    if row is None and not checkpoint_id:
        raise _headless(thread_id, wanted)
    return row


def _refuse_rowless(tables: ReadTables, thread_id: str, namespace: str = "") -> None:
    """Raise `CheckpointCorruptError` if a thread that has no row, or none that names a head, has checkpoints."""
    for left in tables.recent(thread_id, namespace, None, 1):
        where = f" for its namespace {namespace!r}" if namespace else ""
        raise corrupt(thread_id, left.id, f"the thread's row{where} is missing, or names no checkpoint")


def _headless(thread_id: str, head: str) -> Exception:
    return corrupt(thread_id, head, "the thread's head is missing")


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
        f"node ran: try again when that run has ended, or run with on_conflict='wait'"
    )


def lost(thread_id: str, token: str, holder: Holder | None) -> LeaseLostError:
    now = f"run {holder.token} owns it" if holder else "nobody owns it"
    return LeaseLostError(
        f"run {token} no longer owns thread {thread_id!r} ({now}); its last commit was refused: "
        f"read the thread's state and continue from there"
    )
