"""The traceback of an error that came out of a node, as its author wants to see it."""

from __future__ import annotations

from types import TracebackType

OURS = frozenset({"graphkit", "graphkit_checkpoint", "graphkit_prebuilt"})
MACHINERY = frozenset({"asyncio", "concurrent", "contextvars", "threading"})
"""What stands between us and a node that runs in a thread or as a task."""

NODES = "graphkit.drivers.execute"
"""The one module that calls users' functions."""


class UsersFrames:
    """`with users_frames:` around a door: an error raised by a node leaves it without our frames.

    The frames of the user's functions stay, all levels of nested graphs in order, and so do those of ours that a
    user's function called last. An error that no node raised keeps every frame: it may be a bug of the engine.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            error.__traceback__ = trimmed(error.__traceback__)


users_frames = UsersFrames()


def trimmed(traceback: TracebackType | None) -> TracebackType | None:
    """The entries of a node's error that the user wrote, and those that follow the last of them; all entries of
    any other error."""
    entries = _entries(traceback)
    theirs = _theirs(entries)
    if not theirs:
        return traceback
    kept = [entries[index] for index in theirs] + entries[theirs[-1] + 1 :]
    following: TracebackType | None = None
    for entry in reversed(kept):
        following = TracebackType(following, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return following


def _entries(traceback: TracebackType | None) -> list[TracebackType]:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    return entries


def _theirs(entries: list[TracebackType]) -> list[int]:
    """Where the user's entries are; none unless a node was called."""
    found: list[int] = []
    called = ours = False
    for index, entry in enumerate(entries):
        module = entry.tb_frame.f_globals.get("__name__") or ""
        package = module.partition(".")[0]
        if package in OURS:
            ours, called = True, called or module == NODES
        elif not (ours and package in MACHINERY):
            ours = False
            if called:
                found.append(index)
    return found
