"""The state of plugins: a value for each, kept with the conversation, and another one that ends with the turn.

A value is kept in pieces. A piece carries the number of its write, since callbacks and tools of several tasks may
change one state: what was written last stays, whichever task's writes are applied first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Literal, Protocol

from graphkit.channels import MISSING
from graphkit.errors import UnknownPluginError, UnserializableStateError
from graphkit.frame import Frame, running
from graphkit.types import Overwrite, StateSnapshot
from graphkit_checkpoint.serde import fingerprint
from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.log import DELETED
from graphkit_prebuilt.plugin_pieces import LATEST, NO_PIECES, Pieces, put_together, same, taken_apart
from graphkit_prebuilt.plugin_types import dumped, made

__all__ = [
    "CLEARED",
    "PARTS",
    "Part",
    "PluginStates",
    "RestingStates",
    "RunningStates",
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
PARTS: Final[tuple[Part, ...]] = ("plugins", "turn")


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
        return made(kind, found, name)

    def set(self, name: str, state: Any, part: Part) -> None:
        """Keep a state, None for nothing. Raises `UnknownPluginError`, `ValueError` for what is not of the type that
        the plugin declares, `UnserializableStateError` for what cannot be stored."""
        if name not in self.plugins:
            raise self._unknown(name)
        kind = self._type_of(name, part)
        if kind is not None and state is not None:
            state = dumped(kind, state, name)
        new = {} if state is None else dict(taken_apart((name,), state))
        with self.guard:
            old = self.pieces(part)
            number = 1 + max((piece[0] for piece in old.values() if type(piece) is list), default=0)
            changes = {
                path: [number, copied(value)]
                for path, value in new.items()
                if path not in old or not same(old[path][1], value)
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
    its plugins if it has needed any. `recorded()` are the channels with what was recorded of the superstep that the
    request goes on with; None where it begins with one."""

    states: RunningStates | None

    @property
    def recorded(self) -> Callable[[], Mapping[str, Any]] | None: ...

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
        # As stored, and with what was set since:
        self._live: dict[Part, tuple[Mapping[Any, Any], Pieces]] = {}
        self._set: dict[Part, Pieces] = {}
        # What was recorded of the superstep that the request goes on with, and what was stored when it was read:
        self._recorded: dict[Part, tuple[Mapping[Any, Any], Mapping[Any, Any]]] | None = None

    def pieces(self, part: Part) -> Pieces:
        stored, live = self.request.values.get(part) or NO_PIECES, self._live.get(part)
        reads = self._recorded is None and self.request.recorded is not None
        if live is None or live[0] is not stored or reads:
            newer = {**self._newer(self._recorded_of(part, stored), stored), **self.unsettled(part)}
            live = self._live[part] = stored, {**stored, **newer}
        return live[1]

    def write(self, part: Part, pieces: Pieces) -> None:
        frame = running("set_plugin_state()")
        self.pieces(part).update(pieces)
        self._set.setdefault(part, {}).update(pieces)
        frame.amend(part, pieces)

    def unsettled(self, part: Part) -> Pieces:
        """What was set in this request that is newer than what the running task sees as stored."""
        stored = self.request.values.get(part) or NO_PIECES
        return self._newer(self._set.get(part, NO_PIECES), stored)

    def forget(self, part: Part) -> None:
        """What was set is about to be taken away."""
        self._set.pop(part, None)
        if self._recorded is not None:
            self._recorded.pop(part, None)

    def _recorded_of(self, part: Part, stored: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """What tasks of this superstep that have finished had set, in another process maybe."""
        values, recorded = self.request.values, self.request.recorded
        if self._recorded is None and recorded is not None:
            found = recorded()
            self._recorded = {
                each: (values.get(each) or NO_PIECES, _pieces_in(found, each)) for each in PARTS
            }
        before, pieces = (self._recorded or {}).get(part, (None, NO_PIECES))
        return pieces if before is stored else NO_PIECES

    @staticmethod
    def _newer(pieces: Mapping[Any, Any], stored: Mapping[Any, Any]) -> Pieces:
        return {
            path: piece for path, piece in pieces.items() if path not in stored or piece[0] > stored[path][0]
        }


def _pieces_in(values: Mapping[str, Any], part: Part) -> Pieces:
    """Of a channel that may hold more: what a directive says of a turn."""
    return {path: piece for path, piece in (values.get(part) or NO_PIECES).items() if type(path) is tuple}


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
    """A thread on which nothing runs. `pieces` are all those of the plugins that have set something since the last
    request; `keep` says that there is something to keep."""

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

    def pieces(self, part: Part) -> Mapping[Any, Any]:
        stored: Mapping[Any, Any] = self.thread.snapshot.values.get(part) or NO_PIECES
        if not (mine := self.thread.pieces.get(part)):
            return stored
        names = _names(mine)
        return {path: piece for path, piece in stored.items() if not _is_of(path, names)} | mine

    def write(self, part: Part, pieces: Pieces) -> None:
        names = _names(pieces)
        whole = {path: piece for path, piece in self.pieces(part).items() if _is_of(path, names)}
        self.thread.pieces.setdefault(part, {}).update(whole | pieces)
        self.thread.keep()


def _names(pieces: Mapping[Any, Any]) -> set[str]:
    """The plugins whose pieces these are."""
    return {path[0] for path in pieces}


def _is_of(path: Any, names: set[str]) -> bool:
    return type(path) is tuple and path[0] in names


def taken(thread: Resting, writes: dict[str, Any]) -> None:
    """What plugins have set becomes a part of the writes of a request: it stays, also over what another host of the
    thread has set and stored meanwhile."""
    for part in PARTS:
        if pieces := thread.pieces.get(part):
            stored, names = thread.snapshot.values.get(part) or NO_PIECES, _names(pieces)
            mine = {path: piece[1] for path, piece in pieces.items() if piece[1] is not DELETED}
            changes: Pieces = {
                path: [LATEST, value]
                for path, value in mine.items()
                if path not in stored or not same(stored[path][1], value)
            }
            gone = (path for path in stored if _is_of(path, names) and path not in mine)
            if changes := changes | {path: [LATEST, DELETED] for path in gone}:
                writes[part] = changes
    thread.pieces = {}


def given_back(thread: Resting, writes: Mapping[str, Any]) -> None:
    """The request has stored nothing of it."""
    for part in PARTS:
        if changes := writes.get(part):
            pieces = {path: [0, value] for path, (_, value) in changes.items()}
            RestingStates({}, thread).write(part, pieces | dict(thread.pieces.get(part, NO_PIECES)))


@contextmanager
def tentative(thread: Resting) -> Iterator[None]:
    """While this lasts, what plugins set is set no more if it ends in an error."""
    before = {part: dict(pieces) for part, pieces in thread.pieces.items()}
    try:
        yield
    except BaseException:
        thread.pieces = before
        raise
