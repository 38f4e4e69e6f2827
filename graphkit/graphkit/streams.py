"""Streams: what the consumer of a run gets to see of the engine's events, and what `invoke` returns."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from typing import Any, Final, Literal, Protocol, get_args

from graphkit import shapes
from graphkit.constants import INTERRUPT
from graphkit.engine.events import (
    Batch,
    CheckpointSaved,
    Custom,
    Event,
    Halted,
    MessageChunk,
    StateChanged,
    TaskEnded,
    TaskStarted,
)
from graphkit.engine.program import Program
from graphkit.engine.request import End
from graphkit.messages import Messages
from graphkit.parts import GraphOutput
from graphkit.shapes import update_of
from graphkit.tracebacks import users_frames
from graphkit.types import StreamMode

OutputKeys = str | Sequence[str] | None
Version = Literal["v1", "v2"]
Chunks = Iterable[Any]
Shape = Callable[[Any, Any], Chunks]
"""What a stream makes of an event."""

LIVE = frozenset({"custom", "messages"})
"""The modes that show something while a node still runs."""

_KINDS: Mapping[str, frozenset[str]] = {"debug": frozenset({"tasks", "checkpoints"})}
_MODES = get_args(StreamMode)
_VERSIONS = get_args(Version)


class Abandonable(Protocol):
    def abandon(self) -> None: ...


class AsyncChunks(AsyncIterator[Any]):
    """An async stream that ends its run when it is closed, and also when it is simply dropped.

    A dropped async generator is closed some time later by the loop; until then its run would own the thread.
    `inner` yields lists of chunks.
    """

    def __init__(self, inner: AsyncGenerator[Sequence[Any], None], opened: Sequence[Abandonable]) -> None:
        self._inner = inner
        self._opened = opened
        self._left: Iterator[Any] = iter(())

    async def __anext__(self) -> Any:
        while True:
            for chunk in self._left:
                return chunk
            with users_frames:
                self._left = iter(await anext(self._inner))

    async def aclose(self) -> None:
        self._left = iter(())
        await self._inner.aclose()

    def __del__(self) -> None:
        for driver in self._opened:
            driver.abandon()


def check_modes(
    modes: StreamMode | Sequence[StreamMode], option: str = "stream_mode"
) -> tuple[StreamMode, ...]:
    """The modes as a tuple. Raises `ValueError` naming an unknown one."""
    wanted: tuple[Any, ...] = (modes,) if isinstance(modes, str) or modes is None else tuple(modes)
    for mode in wanted:
        if mode not in _MODES:
            raise ValueError(f"{option} {mode!r} is unknown; use one of {', '.join(_MODES)}")
    return wanted


class Stream:
    """One consumer of a run's events: what it wants to hear of, and the chunks that it gets.

    `listen` are the kinds of events it wants, `below` those it wants of nested runs. It is `live` if it is to be
    shown something while a node still runs. `depth` says how many tasks are around its run.
    """

    def __init__(
        self,
        program: Program,
        modes: StreamMode | Sequence[StreamMode],
        subgraphs: bool = False,
        output_keys: OutputKeys = None,
        version: Version = "v1",
    ) -> None:
        wanted = check_modes(modes)
        if not wanted:
            raise ValueError(f"stream_mode is empty; use one of {', '.join(_MODES)}")
        if version not in _VERSIONS:
            raise ValueError(f"version must be 'v1' or 'v2', not {version!r}")
        self._program = program
        self._keys = _checked(output_keys, program)
        self._typed = version == "v2"
        self.depth = 0
        self._messages = Messages()
        self._shapes: dict[type, list[tuple[StreamMode, Shape]]] = {}
        # Of what a run ends with, too, "values" come after "updates", as after every superstep.
        for mode in sorted(wanted, key="values".__eq__):
            for kind, shape in _SHAPES[mode].items():
                self._shapes.setdefault(kind, []).append((mode, shape))
        self._bare = isinstance(modes, str)
        self.listen = frozenset(kind for mode in wanted for kind in _KINDS.get(mode, (mode,)))
        self.below = self.listen if subgraphs else frozenset()
        self.live = subgraphs or not LIVE.isdisjoint(wanted)

    def parts(self, events: Batch) -> list[Any]:
        """What the consumer gets for events."""
        if self._typed or self.below:
            return [
                self._placed(mode, chunk, event) for event in events for mode, chunk in self.chunks(event)
            ]
        told = self._shapes.get
        if self._bare:
            return [
                chunk
                for event in events
                for _, shape in told(type(event), ())
                for chunk in shape(self, event)
            ]
        return [
            (mode, chunk)
            for event in events
            for mode, shape in told(type(event), ())
            for chunk in shape(self, event)
        ]

    def _placed(self, mode: StreamMode, chunk: Any, event: Event) -> Any:
        """A chunk with the run that it comes from."""
        if self._typed:
            return self._part(mode, chunk, event)
        namespace = namespace_of(event)
        return (namespace, chunk) if self._bare else (namespace, mode, chunk)

    def _part(self, mode: StreamMode, chunk: Any, event: Any) -> dict[str, Any]:
        part = {"type": mode, "ns": namespace_of(event), "data": chunk}
        if mode == "values":
            part["data"] = self.data(event)
            part["interrupts"] = event.interrupts if isinstance(event, Halted) else ()
        return part

    def chunks(self, event: Event) -> Iterator[tuple[StreamMode, Any]]:
        """What an event means in each of the modes, in their order; most mean something in one or two."""
        for mode, shape in self._shapes.get(type(event), ()):
            for chunk in shape(self, event):
                yield mode, chunk

    # States

    def _values(self, event: StateChanged) -> Chunks:
        if not (event.written is None or self._is_wanted(event, event.written)):
            return ()
        values = event.values if self._keys is None else self._shown(event)
        return () if values is NOTHING else (values,)

    def _is_wanted(self, event: StateChanged, written: Set[str]) -> bool:
        """Whether anything was written that is shown."""
        keys = self._keys
        if keys is None or self._is_nested(event):
            return bool(written)
        return keys in written if isinstance(keys, str) else not written.isdisjoint(keys)

    def _halted_values(self, event: Halted) -> Chunks:
        if not event.interrupts:
            return ()
        shown = self._shown(event)
        return ({**(shown if isinstance(shown, dict) else {}), INTERRUPT: event.interrupts},)

    def data(self, event: StateChanged | Halted) -> Any:
        """The values that are wanted, as an instance of the output schema if that has any; None if there are
        none."""
        shown = self._shown(event)
        if self._keys is None and not self._is_nested(event):
            return typed(self._program, shown)
        return None if shown is NOTHING else shown

    def _shown(self, event: StateChanged | Halted) -> Any:
        values, keys = event.values, self._keys
        if keys is None or not isinstance(values, dict) or self._is_nested(event):
            return values
        if isinstance(keys, str):
            return values.get(keys, NOTHING)
        return {key: values[key] for key in keys if key in values} or NOTHING

    def _is_nested(self, event: Event) -> bool:
        """Whether an event is from a run nested in this one, which has keys of its own."""
        return bool(self.below) and depth_of(event.namespace) != self.depth

    # Tasks

    def _update(self, event: TaskEnded) -> Chunks:
        if event.writes is None:
            return ()
        narrowed = self._keys is not None or event.whole
        kept = self._kept(event) if narrowed else update_of(event.writes)
        update: dict[str, Any] = {event.about.name: kept}
        if event.cached:
            update["__metadata__"] = {"cached": True}
        return (update,)

    def _kept(self, event: TaskEnded) -> Any:
        """A task's writes to the keys that are wanted, as an update."""
        writes, keys = event.writes or (), self._keys
        if event.whole:
            return writes[0][1]
        if keys is None or self._is_nested(event):
            return update_of(writes)
        if isinstance(keys, str):
            found = [value for key, value in writes if key == keys]
            return found[0] if len(found) == 1 else found or None
        return update_of([write for write in writes if write[0] in keys])

    def _halted(self, event: Halted) -> Chunks:
        return ({INTERRUPT: event.interrupts},)

    # Messages

    def _written(self, event: MessageChunk) -> Chunks:
        said = self._messages.written(event)
        return () if said is None else (said,)

    def _started(self, event: TaskStarted) -> Chunks:
        self._messages.started(event)
        return ()

    def _returned(self, event: TaskEnded) -> Chunks:
        return self._messages.returned(event)


_SHAPES: Final[Mapping[StreamMode, Mapping[type, Shape]]] = {
    "values": {StateChanged: Stream._values, Halted: Stream._halted_values},
    "updates": {TaskEnded: Stream._update, Halted: Stream._halted},
    "custom": {Custom: lambda stream, event: (event.value,)},
    "tasks": {
        TaskStarted: lambda stream, event: () if event.again else (shapes.task_started(event),),
        TaskEnded: lambda stream, event: (shapes.task_ended(event),),
    },
    "checkpoints": {CheckpointSaved: lambda stream, event: (shapes.checkpoint(event),)},
    "debug": {
        TaskStarted: lambda stream, event: () if event.again else (shapes.framed(event),),
        TaskEnded: lambda stream, event: (shapes.framed(event),),
        CheckpointSaved: lambda stream, event: (shapes.framed(event),),
    },
    "messages": {MessageChunk: Stream._written, TaskStarted: Stream._started, TaskEnded: Stream._returned},
}
"""What each kind of event is in each mode."""

NOTHING: Any = object()


class Output:
    """What `invoke` returns. The end of a run tells it, unless keys are asked for that the output does not have."""

    def __init__(self, program: Program, keys: OutputKeys, version: Version) -> None:
        if version not in _VERSIONS:
            raise ValueError(f"version must be 'v1' or 'v2', not {version!r}")
        self._program = program
        self._typed = version == "v2"
        self.stream = None if keys is None else Stream(program, "values", output_keys=keys)
        self._latest: Any = None

    def take(self, events: Iterable[Any]) -> None:
        assert self.stream is not None
        for event in events:
            self._latest = self.stream.data(event)

    def of(self, end: End) -> Any:
        values = end.values if self.stream is None else self._latest
        if self._typed:
            shown = typed(self._program, values) if self.stream is None else values
            return GraphOutput(shown, end.interrupts)
        if not end.asked:
            return values
        return {**(values if isinstance(values, dict) else {}), INTERRUPT: list(end.interrupts)}


def typed(program: Program, values: Any) -> Any:
    """Values as an instance of the output schema if that is a model or a dataclass and they make one: in the
    middle of a run some of them may be missing."""
    output = program.output
    if output.build is None or not isinstance(values, dict):
        return values
    try:
        return output.build(output.of(values, 0))
    except (TypeError, ValueError):
        return values


def _checked(keys: OutputKeys, program: Program) -> str | tuple[str, ...] | None:
    wanted = [keys] if isinstance(keys, str) else keys or ()
    unknown = [key for key in wanted if key not in program.channels]
    if unknown:
        raise ValueError(
            f"output_keys names {', '.join(map(repr, unknown))}, which the state of graph {program.name!r} does not "
            f"have; it has {', '.join(program.channels)}"
        )
    return keys if keys is None or isinstance(keys, str) else tuple(keys)


def depth_of(namespace: str) -> int:
    """How many tasks are around a run."""
    return namespace.count("|") + 1 if namespace else 0


def namespace_of(event: Event) -> tuple[str, ...]:
    """The path of tasks down to the run that an event is from: ("node:task-id", ...); () for the outermost."""
    return tuple(event.namespace.split("|")) if event.namespace else ()
