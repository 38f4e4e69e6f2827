"""Commits packed as they are, until somebody wants rows of them. Used by `LiveSaver`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from operator import is_
from typing import Any, Final, NamedTuple, TypeAlias

from msgpack import Packer  # type: ignore[import-untyped]

from graphkit_checkpoint.records import SCALAR, Checkpoint, Commit, Pending, Tip
from graphkit_checkpoint.serde import pack, unpack
from graphkit_checkpoint.writing import is_found_again

Sizes: TypeAlias = dict[str, int]
"""How many items the lists of a checkpoint have; `SCALAR` for dicts."""

_plain = Packer(buf_size=4096)
"""Packs names and numbers of our own, on the condition that `layout` states for its own."""

_Shortened: TypeAlias = tuple[Mapping[str, Any], Sequence[str], Mapping[str, int | None]]
"""The changes of a checkpoint, with what was added in place of the values that were extended; which these are; and how
many items each channel says that it has added (None: it says which keys)."""

_NONE: Final[Mapping[str, Any]] = {}

_APPLIED: Final = object()
"""Stands for what the next checkpoint has of a write from outside."""


class Draft(NamedTuple):
    """A commit in two packed parts: its names and numbers, and the values, in order. What a checkpoint added stands
    in place of a value that it extended; `extends` says that there is such a one."""

    account: bytes
    values: bytes
    extends: bool

    def commit(self, thread_id: str, namespace: str, tip: Tip, state: dict[str, Any]) -> Commit:
        """The commit. `state` has the values before it, if it extends any, and then those after it."""
        at, pending, forget, checkpoints = unpack(self.account)
        values = iter(unpack(self.values))
        records = [Pending(task_id, kind, key, next(values)) for task_id, kind, key in pending]
        return Commit(
            thread_id,
            namespace,
            "",
            tip,
            checkpoints=_replayed(checkpoints, values, state),
            at=at,
            pending=records,
            forget=[(task_id, kind, key) for task_id, kind, key in forget],
        )


def drafted(commit: Commit, sizes: Sizes) -> tuple[Draft, Sizes]:
    """The draft of a commit that goes on from a checkpoint with lists of these sizes, and the sizes after it.

    Raises `UnserializableStateError`, which does not say where in the commit.
    """
    pending: list[tuple[str, str, str]] = []
    values: list[Any] = []
    for record in commit.pending:
        pending.append(record.name)
        values.append(record.value)
    sizes = dict(sizes)
    shortened = [_shortened(point, sizes) for point in commit.checkpoints]
    checkpoints = []
    extends = False
    for number, point in enumerate(commit.checkpoints):
        changed, tails, announced = shortened[number]
        if tails:
            extends = True
        values += (point.metadata, point.work, *changed.values())
        given = None
        if point.given is not None:
            following = shortened[number + 1][0] if number + 1 < len(shortened) else _NONE
            given = [_given(write, following, values) for write in point.given]
        checkpoints.append(
            (
                point.id,
                point.parent_id,
                point.step,
                point.source,
                point.created_at,
                point.control,
                list(changed),
                list(point.cleared),
                given,
                announced,
                tails,
            )
        )
    packed = _plain.pack((commit.at, pending, commit.forget, checkpoints))
    return Draft(packed, pack(values), extends), sizes


def _given(write: tuple[str, Any], following: Mapping[str, Any], values: list[Any]) -> tuple[str, bool]:
    """A write from outside in the account: its channel, and whether the next checkpoint packs the very value, or the
    very items; then it is packed there alone."""
    channel, value = write
    packed = following.get(channel, _APPLIED)
    applied = packed is value or (
        type(packed) is list is type(value) and len(packed) == len(value) and all(map(is_, packed, value))
    )
    if not applied:
        values.append(value)
    return channel, applied


def _shortened(checkpoint: Checkpoint, sizes: Sizes) -> _Shortened:
    """What is packed of the changes of a checkpoint that comes after one with lists of these sizes, which become those
    after it."""
    if not checkpoint.extended:
        resize(sizes, checkpoint.changed, checkpoint.cleared)
        return checkpoint.changed, (), _NONE
    changed = dict(checkpoint.changed)
    tails: list[str] = []
    announced: dict[str, int | None] = {}
    for channel, added in checkpoint.extended.items():
        value, size = changed.get(channel), sizes.get(channel)
        if isinstance(added, int):
            announced[channel] = added
            # A node that changed the list in place has changed more than its write says.
            if type(value) is list and size == len(value) - added:
                changed[channel] = value[size:]
                tails.append(channel)
        else:
            announced[channel] = None
            if type(value) is dict and size == SCALAR and all(map(is_found_again, added)):
                changed[channel] = {key: value[key] for key in added}
                tails.append(channel)
    resize(sizes, checkpoint.changed, checkpoint.cleared)
    return changed, tails, announced


def resize(sizes: Sizes, changed: Mapping[str, Any], cleared: Iterable[str] = ()) -> Sizes:
    """Make them the sizes after a change."""
    for channel in cleared:
        sizes.pop(channel, None)
    for channel, value in changed.items():
        kind = type(value)
        if kind is list:
            sizes[channel] = len(value)
        elif kind is dict:
            sizes[channel] = SCALAR
        else:
            sizes.pop(channel, None)
    return sizes


def _replayed(accounts: list[Any], values: Iterator[Any], state: dict[str, Any]) -> list[Checkpoint]:
    checkpoints: list[Checkpoint] = []
    seen: set[str] = set()  # of earlier checkpoints of this commit, which show a value as it was then
    for at, parent, step, source, created_at, control, channels, cleared, given, extended, tails in accounts:
        metadata, work = next(values), next(values)
        changed = {channel: next(values) for channel in channels}
        # Of a dict that is here as a whole it is enough to say that it was extended: it is stored as a whole.
        extended = {channel: list(changed[channel]) if n is None else n for channel, n in extended.items()}
        packed = dict(changed) if tails else changed
        for channel in tails:
            tail, value = changed[channel], state[channel]
            value = changed[channel] = copy(value) if channel in seen else value
            value.extend(tail) if type(tail) is list else value.update(tail)
        state.update(changed)
        seen.update(changed)
        for channel in cleared:
            state.pop(channel, None)
        if checkpoints and checkpoints[-1].given:
            before = checkpoints[-1]
            before.given = [(name, packed[name] if v is _APPLIED else v) for name, v in before.given or ()]
        writes = given and [(name, _APPLIED if applied else next(values)) for name, applied in given]
        account = (at, parent, step, source, created_at, metadata, control, work)
        checkpoints.append(Checkpoint(*account, changed, cleared, writes, extended))
    return checkpoints


def as_read(checkpoint: Checkpoint) -> Checkpoint:
    """The record as it would be read from its row; the run that made it may go on changing what it gave."""
    control = {key: copy(value) for key, value in checkpoint.control.items()}
    return Checkpoint(
        checkpoint.id,
        checkpoint.parent_id,
        checkpoint.step,
        checkpoint.source,
        checkpoint.created_at,
        dict(checkpoint.metadata),
        control,
        None if checkpoint.work is None else dict(checkpoint.work),
        given=None if checkpoint.given is None else list(checkpoint.given),
    )
