"""The state of plugins: a value for each, kept with the conversation, and another one that ends with the turn.

A value is kept in pieces, its fields and what is in those, so that what is stored of a change is as large as the
change: a list that grows by an item a turn costs that item. A piece carries the number of its write, since callbacks
and tools of several tasks may change one state: what was written last stays, whichever task's writes are applied first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from graphkit.channels import MISSING
from graphkit.errors import UnknownPluginError, UnserializableStateError
from graphkit.frame import Frame, running
from graphkit.types import Overwrite, StateSnapshot
from graphkit_checkpoint.serde import fingerprint
from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.log import DELETED, Keyed

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "NO_PIECES",
    "PARTS",
    "Part",
    "Pieces",
    "PluginStates",
    "RestingStates",
    "RunningStates",
    "Stamped",
    "check_types",
    "end_turn",
    "given_back",
    "settle",
    "taken",
    "tentative",
]

CLEARED: Final = Overwrite({})
"""The write that ends the turn for those who have kept something for as long as it lasts."""
Part = Literal["plugins", "turn"]
"""The channel: `plugins` lasts as long as the conversation, `turn` as long as the turn."""
NO_PIECES: Final[Mapping[Any, Any]] = MappingProxyType({})
PARTS: Final[tuple[Part, ...]] = ("plugins", "turn")
Path = tuple[Any, ...]
"""Where a piece is: the plugin's name, then a field or an index, then a key or an index in that."""
Pieces = dict[Any, Any]
"""By path, `[number, value]`. A dict or list that was taken apart stands for itself as `{}` or `[]`."""

DEPTH: Final = 2
"""How deep values are taken apart."""


class Stamped(Keyed):
    """Values by key, each `[number, value]`: of several writes of a key the one with the highest number stays. Values
    without a number, and `Overwrite`, are as in `Keyed`."""

    def update(self, values: Sequence[Any]) -> bool:
        if any(type(write) is not dict for write in values):
            emptied = all(type(write) is Overwrite and not write.value for write in values)
            return bool(self.value or not emptied) and super().update(values)
        latest: Pieces = {}
        for write in values:
            for key, one in write.items():
                old = latest.get(key, self.value.get(key))
                if type(one) is not list or type(old) is not list or one[0] > old[0]:
                    latest[key] = one
        deleted = {key for key, one in latest.items() if type(one) is list and one[1] is DELETED}
        return super().update([{key: DELETED if key in deleted else one for key, one in latest.items()}])

    def from_checkpoint(self, checkpoint: Any) -> Stamped:
        channel = Stamped(self.typ, self.key)
        if checkpoint is not MISSING:
            channel.value = checkpoint
        return channel


def taken_apart(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """The pieces of a value, by path."""
    deep = len(path) <= DEPTH
    if deep and type(value) is dict and all(type(key) is str for key in value):
        yield path, {}
        for key, one in value.items():
            yield from taken_apart((*path, key), one)
    elif deep and type(value) is list:
        yield path, []
        for index, one in enumerate(value):
            yield from taken_apart((*path, index), one)
    else:
        yield path, value


def put_together(pieces: Mapping[Any, Any], name: str) -> Any:
    """The value that these pieces of a plugin are of, a copy; `MISSING` if there are none."""
    found: dict[Path, Any] = {}
    for path in sorted((path for path in pieces if type(path) is tuple and path[0] == name), key=_order):
        value = pieces[path][1]
        if value is DELETED:
            continue
        value = copied(value)
        found[path] = value
        around = found.get(path[:-1])
        if type(around) is list:
            around.append(value)
        elif type(around) is dict:
            around[path[-1]] = value
    return found.get((name,), MISSING)


def _order(path: Path) -> Any:
    """Those around others first, and the items of lists in order; the order of fields is that of their writes."""
    return len(path), [step if type(step) is int else 0 for step in path]


class PluginStates(ABC):
    """The states of the `plugins` of an agent or orchestrator, as they are here and now; `guard` is held while one is
    changed."""

    plugins: Mapping[str, Any]
    guard: AbstractContextManager[Any]

    @abstractmethod
    def pieces(self, part: Part) -> Mapping[Any, Any]:
        """All pieces."""

    @abstractmethod
    def write(self, part: Part, pieces: Pieces) -> None:
        """Change some."""

    def get(self, name: str, part: Part) -> Any:
        """The state of a plugin. Raises `UnknownPluginError`, and `ValueError` for one that is not of the type that
        the plugin declares."""
        kind = self._type_of(name, part)
        found = put_together(self.pieces(part), name)
        if kind is None:
            if found is MISSING and name not in self.plugins:
                raise self._unknown(name)
            return None if found is MISSING else found
        return _made(kind, found, name)

    def set(self, name: str, state: Any, part: Part) -> None:
        """Keep a state, None for nothing. Raises `UnknownPluginError`, `ValueError` for what is not of the type that
        the plugin declares, `UnserializableStateError` for what cannot be stored."""
        if name not in self.plugins:
            raise self._unknown(name)
        kind = self._type_of(name, part)
        if kind is not None and state is not None:
            state = _dumped(kind, state, name)
        new = {} if state is None else dict(taken_apart((name,), state))
        with self.guard:
            old = self.pieces(part)
            number = 1 + max((piece[0] for piece in old.values() if type(piece) is list), default=0)
            changes = {
                path: [number, copied(value)]
                for path, value in new.items()
                if path not in old or not _same(old[path][1], value)
            }
            for path in old:
                if (
                    type(path) is tuple
                    and path[0] == name
                    and path not in new
                    and old[path][1] is not DELETED
                ):
                    changes[path] = [number, DELETED]
            try:
                fingerprint(list(changes.values()))
            except UnserializableStateError as error:
                raise UnserializableStateError(
                    f"the state of plugin {name!r} cannot be stored: {error}"
                ) from error
            if changes:
                self.write(part, changes)

    def _type_of(self, name: str, part: Part) -> Any:
        plugin = self.plugins.get(name)
        if plugin is None:
            return None
        return plugin.state_type if part == "plugins" else plugin.invocation_state_type

    def _unknown(self, name: Any) -> UnknownPluginError:
        return UnknownPluginError(f"there is no plugin {name!r}; there are {list(self.plugins)}")


class Running(Protocol):
    """A request of an agent or orchestrator: `values` are the channels as the running task sees them, `states` those of
    its plugins if it has needed any."""

    states: RunningStates | None

    @property
    def agent(self) -> Any: ...
    @property
    def values(self) -> Mapping[str, Any]: ...
    @property
    def guard(self) -> AbstractContextManager[Any]: ...


class RunningStates(PluginStates):
    """Those in a request. What is set is kept whatever becomes of the task that sets it."""

    def __init__(self, request: Running) -> None:
        self.request = request
        self.plugins, self.guard = request.agent.plugins, request.guard
        self._live: dict[
            Part, tuple[Mapping[Any, Any], Pieces]
        ] = {}  # as stored, and with what was set since
        self._set: dict[Part, Pieces] = {}

    def pieces(self, part: Part) -> Pieces:
        stored, live = self.request.values.get(part) or NO_PIECES, self._live.get(part)
        if live is None or live[0] is not stored:
            live = self._live[part] = stored, {**stored, **self.unsettled(part)}
        return live[1]

    def write(self, part: Part, pieces: Pieces) -> None:
        frame = running("set_plugin_state()")
        self.pieces(part).update(pieces)
        self._set.setdefault(part, {}).update(pieces)
        frame.amend(part, pieces)

    def unsettled(self, part: Part) -> Pieces:
        """What was set in this request that is newer than what the running task sees as stored."""
        stored = self.request.values.get(part) or NO_PIECES
        newer = self._set.get(part, NO_PIECES).items()
        return {path: piece for path, piece in newer if path not in stored or piece[0] > stored[path][0]}

    def forget(self, part: Part) -> None:
        """What was set is about to be taken away."""
        self._set.pop(part, None)


def settle(request: Running, frame: Frame) -> None:
    """The request comes to rest. What tasks that have finished have set is stored with them, when the superstep is;
    those that run before are to see it."""
    states = request.states
    if states is not None:
        for part in PARTS:
            if changed := states.unsettled(part):
                frame.amend(part, changed)


def end_turn(request: Running, writes: dict[str, Any]) -> None:
    """These writes end the turn, and with it what plugins keep for as long."""
    states = request.states
    if request.values.get("turn") or (states is not None and states.unsettled("turn")):
        writes["turn"] = CLEARED
    if states is not None:
        states.forget("turn")


class Resting(Protocol):
    """A thread on which nothing runs. `pieces` are those that plugins have set since the last request; `keep` says that
    there is something to keep."""

    pieces: dict[Part, Pieces]

    @property
    def snapshot(self) -> StateSnapshot: ...
    def keep(self) -> None: ...


class RestingStates(PluginStates):
    """Those of a thread between two requests: what is set is stored by the next one."""

    guard = nullcontext()

    def __init__(self, plugins: Mapping[str, Any], thread: Resting) -> None:
        self.plugins = plugins
        self.thread = thread

    def pieces(self, part: Part) -> Pieces:
        stored = self.thread.snapshot.values.get(part) or NO_PIECES
        return {**stored, **self.thread.pieces.get(part, NO_PIECES)}

    def write(self, part: Part, pieces: Pieces) -> None:
        self.thread.pieces.setdefault(part, {}).update(pieces)
        self.thread.keep()


def taken(thread: Resting, writes: dict[str, Any]) -> None:
    """What plugins have set becomes a part of the writes of a request."""
    for part in PARTS:
        if pieces := thread.pieces.get(part):
            writes[part] = pieces
    thread.pieces = {}


def given_back(thread: Resting, writes: Mapping[str, Any]) -> None:
    """The request has stored nothing of it."""
    for part in PARTS:
        if pieces := writes.get(part):
            thread.pieces[part] = {**pieces, **thread.pieces.get(part, NO_PIECES)}


@contextmanager
def tentative(thread: Resting) -> Iterator[None]:
    """While this lasts, what plugins set is set no more if it ends in an error."""
    before = {part: dict(pieces) for part, pieces in thread.pieces.items()}
    try:
        yield
    except BaseException:
        thread.pieces = before
        raise


def _same(old: Any, new: Any) -> bool:
    """Whether two pieces are stored alike: 1, 1.0 and True are not."""
    return old is new or (type(old) is type(new) and old == new and repr(old) == repr(new))


# --- Types ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _made(kind: Any, found: Any, name: str) -> Any:
    if found is MISSING:
        try:
            return kind()
        except (TypeError, ValueError):  # it has fields without a default
            return None
    try:
        return _adapter(kind).validate_python(found)
    except ValueError as error:
        raise ValueError(f"what is kept of plugin {name!r} is no {_named(kind)}: {error}") from error


def _dumped(kind: Any, state: Any, name: str) -> Any:
    """The state as builtin values, checked."""
    adapter = _adapter(kind)
    try:
        made = adapter.validate_python(state)
        dumped = adapter.dump_python(made, warnings=False)
        adapter.validate_python(dumped)
    except ValueError as error:
        raise ValueError(
            f"{state!r:.200} is no state of plugin {name!r}, a {_named(kind)}: {error}"
        ) from error
    return dumped


def _named(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def check_types(plugin: Any) -> None:
    """Raises `TypeError` for a plugin that declares as the type of its state what is none."""
    for what in ("state_type", "invocation_state_type"):
        if (kind := getattr(plugin, what)) is None:
            continue
        try:
            _adapter(kind)
        except Exception as error:  # whatever pydantic finds
            raise TypeError(
                f"{what} of plugin {plugin.name!r} is {kind!r:.200}, of which no state can be made: {error}"
            ) from error
