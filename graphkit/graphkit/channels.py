"""Channels: how the writes of one superstep become the next value of one state key.

A channel is given all writes of a superstep at once, in task-path order, and says whether its value
changed. Three class attributes tell the engine what it need not ask:

- `transient`: the value lasts one superstep; the engine calls `update([])` when a step wrote nothing.
- `stored`: the value belongs into checkpoints.
- `readable`: nodes see the value under the channel's name.
"""

from __future__ import annotations

import collections.abc
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from typing import Any, ClassVar, Final, Generic, TypeVar

from graphkit.constants import OVERWRITE
from graphkit.errors import EmptyChannelError, InvalidUpdateError
from graphkit.extensions import KNOWN, Extension, Fold, joined
from graphkit.types import Overwrite

__all__ = [
    "AnyValue",
    "BaseChannel",
    "BinaryOperatorAggregate",
    "DeltaChannel",
    "EphemeralValue",
    "LastValue",
    "LastValueAfterFinish",
    "NamedBarrierValue",
    "NamedBarrierValueAfterFinish",
    "Topic",
    "UntrackedValue",
]

V = TypeVar("V")


class _Missing:
    """No value. There is one of it, in every process."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


class BaseChannel(ABC, Generic[V]):
    """One state key: `update` with the writes of a superstep, `get` the value.

    `checkpoint()` returns what must be stored (`MISSING` for an empty channel) and
    `from_checkpoint(stored)` a new channel of the same kind holding it.
    """

    transient: ClassVar[bool] = True
    stored: ClassVar[bool] = True
    readable: ClassVar[bool] = True
    operator: Callable[[Any, Any], Any] | None = None
    """What folds writes into the value, if anything does: a graph that has another one is another version."""

    def __init__(self, typ: Any = Any, key: str = "") -> None:
        self.typ = typ
        self.key = key

    @property
    def extension(self) -> Extension | None:
        """What the last `update` added to a value it left as it was otherwise, so that only that is stored: how
        many items at the end of a list, or which keys of a dict. None: the value may differ everywhere."""
        return None

    @abstractmethod
    def update(self, values: Sequence[Any]) -> bool:
        """Take the writes of one superstep; True if the value changed. Raises `InvalidUpdateError`."""

    @abstractmethod
    def get(self) -> V:
        """The value. Raises `EmptyChannelError` if there is none."""

    @abstractmethod
    def checkpoint(self) -> Any:
        """What to store, `MISSING` if there is nothing."""

    @abstractmethod
    def from_checkpoint(self, checkpoint: Any) -> BaseChannel[V]:
        """A new channel like this one that holds what was stored (`MISSING`: an empty one)."""

    def is_available(self) -> bool:
        try:
            self.get()
        except EmptyChannelError:
            return False
        return True

    def copy(self) -> BaseChannel[V]:
        return self.from_checkpoint(self.checkpoint())

    def consume(self) -> bool:
        """The tasks that this channel triggered have run; True if that changed the value."""
        return False

    def finish(self) -> bool:
        """Nothing else is left to run; True if that changed the value."""
        return False


class _Held(BaseChannel[V]):
    """A channel that holds one value or none."""

    def __init__(self, typ: Any = Any, key: str = "") -> None:
        self.typ = typ
        self.key = key
        self.value: Any = MISSING

    def get(self) -> V:
        if self.value is MISSING:
            raise EmptyChannelError(f"channel {self.key!r} has no value yet")
        return self.value  # type: ignore[no-any-return]

    def is_available(self) -> bool:
        return self.value is not MISSING

    def checkpoint(self) -> Any:
        return self.value

    def blank(self) -> _Held[V]:
        return type(self)(self.typ, self.key)

    def from_checkpoint(self, checkpoint: Any) -> _Held[V]:
        channel = self.blank()
        if checkpoint is not MISSING:
            channel.value = checkpoint
        return channel


class LastValue(_Held[V]):
    """Keeps the value written last; one write per superstep."""

    transient = False

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        if len(values) != 1:
            raise InvalidUpdateError(
                f"channel {self.key!r} received {len(values)} values in one superstep and can take only one; "
                f"give the key a reducer (Annotated[type, reducer]) to combine them"
            )
        self.value = values[0].value if type(values[0]) is Overwrite else values[0]
        return True


class AnyValue(_Held[V]):
    """Keeps the last of the values written in a superstep, which are assumed to be equal."""

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            changed = self.value is not MISSING
            self.value = MISSING
            return changed
        self.value = values[-1]
        return True


class EphemeralValue(_Held[V]):
    """Keeps a value for the one superstep after it was written."""

    def __init__(self, typ: Any = Any, guard: bool = True, key: str = "") -> None:
        super().__init__(typ, key)
        self.guard = guard

    def blank(self) -> EphemeralValue[V]:
        return EphemeralValue(self.typ, self.guard, self.key)

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            changed = self.value is not MISSING
            self.value = MISSING
            return changed
        if self.guard and len(values) != 1:
            raise InvalidUpdateError(
                f"channel {self.key!r} received {len(values)} values in one superstep and can take only one; "
                f"use EphemeralValue(..., guard=False) to keep the last"
            )
        self.value = values[-1]
        return True


class UntrackedValue(_Held[V]):
    """Keeps a value for the length of a run and never stores it."""

    transient = False
    stored = False

    def __init__(self, typ: Any = Any, guard: bool = True, key: str = "") -> None:
        super().__init__(typ, key)
        self.guard = guard

    def blank(self) -> UntrackedValue[V]:
        return UntrackedValue(self.typ, self.guard, self.key)

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        if self.guard and len(values) != 1:
            raise InvalidUpdateError(
                f"channel {self.key!r} received {len(values)} values in one superstep and can take only one; "
                f"use UntrackedValue(..., guard=False) to keep the last"
            )
        self.value = values[-1]
        return True

    def checkpoint(self) -> Any:
        return MISSING

    def copy(self) -> UntrackedValue[V]:
        channel = self.blank()
        channel.value = self.value
        return channel


class _Reduced(_Held[V]):
    """Base of channels that fold writes into the value that they have."""

    transient = False
    operator: Callable[[Any, Any], Any]

    def copy(self) -> _Held[V]:
        channel = self.blank()
        # A reducer may change the value in place; the original must not see it.
        channel.value = copy(self.value) if isinstance(self.value, (list, dict, set)) else self.value
        return channel


class BinaryOperatorAggregate(_Reduced[V]):
    """Folds each write into the value with a binary operator: `value = operator(value, write)`.

    Starts with `typ()` where that can be called without arguments, else with the first write.
    An `Overwrite`, or {"__overwrite__": value}, sets the value as it is; only one per superstep.
    """

    def __init__(self, typ: Any, operator: Callable[[Any, Any], Any], key: str = "") -> None:
        super().__init__(typ, key)
        self.operator = operator
        self.value = _empty_of(typ)
        self._fold = KNOWN.get(operator) if isinstance(operator, Hashable) else None
        self._extension: Extension | None = None

    def blank(self) -> BinaryOperatorAggregate[V]:
        return BinaryOperatorAggregate(self.typ, self.operator, self.key)

    @property
    def extension(self) -> Extension | None:
        return self._extension

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        values = _read(values)
        overwritten = False
        self._extension = None
        if self._fold is not None and self._extend(self._fold, values):
            return True
        for value in values:
            if type(value) is Overwrite:
                if overwritten:
                    raise InvalidUpdateError(
                        f"channel {self.key!r} received two Overwrite values in one superstep"
                    )
                overwritten = True
                self.value = value.value
            elif overwritten:
                continue
            elif self.value is MISSING:
                self.value = value
            else:
                self.value = self.operator(self.value, value)
        return True

    def _extend(self, fold: Fold, values: Sequence[Any]) -> bool:
        """`update` where all writes only add to a list or dict; changes nothing and returns False otherwise."""
        result, extension = self.value, None
        for value in values:
            folded = None if type(value) is Overwrite else fold(result, value)
            if folded is None:
                return False
            result, added = folded
            extension = added if extension is None else joined(extension, added)
        self.value, self._extension = result, extension
        return True


def _read(values: Sequence[Any]) -> Sequence[Any]:
    """The writes, with those that say in JSON that they overwrite as `Overwrite` (source: LangGraph)."""
    if dict not in map(type, values):
        return values
    return [
        Overwrite(value[OVERWRITE])
        if type(value) is dict and len(value) == 1 and OVERWRITE in value
        else value
        for value in values
    ]


class DeltaChannel(_Reduced[V]):
    """Folds all writes of a superstep into the value at once: `value = reducer(value, writes)`.

    Starts with `typ()` where that can be called without arguments, else with the first write. With an `Overwrite` the
    value is that, whatever else was written; only one per superstep.
    For a long list or dict that only grows the cost of a superstep on disk is what was added, as it is with every
    reducer here. So `snapshot_frequency`, by which LangGraph bounds how much it replays, bounds nothing: values are
    loaded, and reducers never run again.
    """

    def __init__(
        self,
        reducer: Callable[[Any, Sequence[Any]], Any],
        typ: Any = None,
        *,
        snapshot_frequency: int = 100,
        key: str = "",
    ) -> None:
        if snapshot_frequency <= 0:
            raise ValueError(f"snapshot_frequency must be a positive int, not {snapshot_frequency!r}")
        super().__init__(list if typ is None else typ, key)
        self.operator = reducer
        self.snapshot_frequency = snapshot_frequency
        self.value = _empty_of(self.typ)

    def blank(self) -> DeltaChannel[V]:
        return DeltaChannel(self.operator, self.typ, snapshot_frequency=self.snapshot_frequency, key=self.key)

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        values = _read(values)
        overwrites = [value for value in values if type(value) is Overwrite]
        if len(overwrites) > 1:
            raise InvalidUpdateError(
                f"channel {self.key!r} received {len(overwrites)} Overwrite values in one superstep"
            )
        writes = list(values)
        if overwrites:
            self.value, writes = overwrites[0].value, []
        elif self.value is MISSING:
            self.value = writes.pop(0)
        if writes:
            self.value = self.operator(self.value, writes)
        return True


class Topic(BaseChannel[Sequence[V]]):
    """Collects the values of a superstep into a list; with `accumulate` those of all supersteps."""

    def __init__(self, typ: Any = Any, accumulate: bool = False, key: str = "") -> None:
        super().__init__(typ, key)
        self.accumulate = accumulate
        self.values: list[V] = []
        self._appended = 0

    @property
    def extension(self) -> Extension | None:
        return self._appended if self.accumulate else None

    def update(self, values: Sequence[V | list[V]]) -> bool:
        before = self.values
        after = list(before) if self.accumulate else []
        for value in values:
            after.extend(value) if isinstance(value, list) else after.append(value)
        self.values, self._appended = after, len(after) - len(before)
        return after != before if not values else True

    def get(self) -> Sequence[V]:
        if not self.values:
            raise EmptyChannelError(f"channel {self.key!r} has no value yet")
        return list(self.values)

    def is_available(self) -> bool:
        return bool(self.values)

    def checkpoint(self) -> Any:
        return list(self.values) if self.values else MISSING

    def from_checkpoint(self, checkpoint: Any) -> Topic[V]:
        channel: Topic[V] = Topic(self.typ, self.accumulate, self.key)
        if checkpoint is not MISSING:
            channel.values = list(checkpoint)
        return channel


class NamedBarrierValue(BaseChannel[None]):
    """Has a value once every one of `names` was written."""

    transient = False
    readable = False

    def __init__(self, typ: Any, names: set[Any], key: str = "") -> None:
        super().__init__(typ, key)
        self.names = names
        self.seen: set[Any] = set()

    def blank(self) -> NamedBarrierValue:
        return type(self)(self.typ, self.names, self.key)

    def update(self, values: Sequence[Any]) -> bool:
        changed = False
        for value in values:
            if value not in self.names:
                raise InvalidUpdateError(f"barrier {self.key!r} waits for {self.names} and got {value!r}")
            changed = changed or value not in self.seen
            self.seen.add(value)
        return changed

    def get(self) -> None:
        if not self.is_available():
            raise EmptyChannelError(f"barrier {self.key!r} still waits for {self.names - self.seen}")

    def is_available(self) -> bool:
        return self.seen == self.names

    def checkpoint(self) -> Any:
        return set(self.seen)

    def from_checkpoint(self, checkpoint: Any) -> NamedBarrierValue:
        channel = self.blank()
        if checkpoint is not MISSING:
            channel.seen = set(checkpoint)
        return channel

    def consume(self) -> bool:
        if not self.is_available():
            return False
        self.seen = set()
        return True


class LastValueAfterFinish(_Held[V]):
    """Keeps the value written last and shows it when nothing else is left to run."""

    transient = False

    def __init__(self, typ: Any = Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.finished = False

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        self.value, self.finished = values[-1], False
        return True

    def get(self) -> V:
        if not self.is_available():
            raise EmptyChannelError(f"channel {self.key!r} has no value until everything else has finished")
        return self.value  # type: ignore[no-any-return]

    def is_available(self) -> bool:
        return self.finished and self.value is not MISSING

    def finish(self) -> bool:
        if self.finished or self.value is MISSING:
            return False
        self.finished = True
        return True

    def consume(self) -> bool:
        if not self.finished:
            return False
        self.value, self.finished = MISSING, False
        return True

    def checkpoint(self) -> Any:
        return MISSING if self.value is MISSING else (self.value, self.finished)

    def from_checkpoint(self, checkpoint: Any) -> LastValueAfterFinish[V]:
        channel: LastValueAfterFinish[V] = LastValueAfterFinish(self.typ, self.key)
        if checkpoint is not MISSING:
            channel.value, channel.finished = checkpoint
        return channel


class NamedBarrierValueAfterFinish(NamedBarrierValue):
    """A barrier that opens when every name was written and nothing else is left to run."""

    def __init__(self, typ: Any, names: set[Any], key: str = "") -> None:
        super().__init__(typ, names, key)
        self.finished = False

    def is_available(self) -> bool:
        return self.finished and self.seen == self.names

    def finish(self) -> bool:
        if self.finished or self.seen != self.names:
            return False
        self.finished = True
        return True

    def consume(self) -> bool:
        consumed = super().consume()
        if consumed:
            self.finished = False
        return consumed

    def checkpoint(self) -> Any:
        return (set(self.seen), self.finished)

    def from_checkpoint(self, checkpoint: Any) -> NamedBarrierValueAfterFinish:
        channel = NamedBarrierValueAfterFinish(self.typ, self.names, self.key)
        if checkpoint is not MISSING:
            channel.seen, channel.finished = set(checkpoint[0]), checkpoint[1]
        return channel


_CONCRETE: Final[dict[Any, Any]] = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}


def _empty_of(typ: Any) -> Any:
    """`typ()` for types that have an empty value; abstract collections stand for their usual ones."""
    origin = getattr(typ, "__origin__", None) or typ
    try:
        return _CONCRETE.get(origin, origin)()
    except Exception:
        return MISSING
