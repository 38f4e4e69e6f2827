"""Everybody who hears a run: its caller's stream, what is printed of it, and the task around it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from graphkit.engine.attempt import Attempt, Emitter
from graphkit.engine.events import Batch, Event
from graphkit.frame import Frame
from graphkit.printing import Printer
from graphkit.streams import Stream, depth_of


class Audience:
    """`listen` are the kinds of events that somebody wants of the run, `below` of the runs nested in it.

    A nested run passes its events on to the task around it, and so to the driver of the outermost run, if a
    caller further up wants them. They come in order: each run's own events pass through here, and what is emitted
    while a node runs is passed on at once, unless this run's own caller is `live` and its driver orders them.
    """

    def __init__(self, frame: Frame | None, stream: Stream | None, printer: Printer | None) -> None:
        self._stream = stream
        self._printer = printer
        outer = frame.attempt.scope.below if frame is not None else frozenset()
        self._around = frame if outer else None
        self.listen = self.below = outer
        for heard in (stream, printer):
            if heard is not None:
                self.listen |= heard.listen
                self.below |= heard.below
        self.live = stream is not None and stream.live
        self._depth = 0 if frame is None else depth_of(frame.attempt.scope.namespace) + 1
        if stream is not None:
            stream.depth = self._depth

    def emitter(self, emit: Emitter) -> Emitter | None:
        """Where attempts emit: `emit` is the driver's, which shows it to the caller while nodes run."""
        if self.live:
            return emit
        return self._hear_from if self._printer is not None or self._around is not None else None

    def _hear_from(self, attempt: Attempt, event: Event) -> None:
        if not attempt.stopped:
            self.hear(event)

    @property
    def is_caller_alone(self) -> bool:
        return self._printer is None and self._around is None

    def hear(self, event: Event) -> None:
        """Tell everybody but the caller."""
        if self._printer is not None:
            self._printer.show(event, depth_of(event.namespace) - self._depth)
        if self._around is not None:
            self._around.show(event)

    def attend(self, emitted: Generator[Batch, None, Any]) -> Generator[Batch, None, Any]:
        """The events that the caller wants; returns what the run returns."""
        while True:
            try:
                batch = next(emitted)
            except StopIteration as stop:
                return stop.value
            for event in batch:
                if self.tell(event):
                    yield (event,)

    def tell(self, event: Event) -> bool:
        """`hear`; returns whether it is for the caller."""
        self.hear(event)
        stream = self._stream
        return stream is not None and (bool(stream.below) or depth_of(event.namespace) == self._depth)
