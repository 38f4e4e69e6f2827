"""What is printed of a run: the chunks of `print_mode`, and lines to read for `debug`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphkit.engine.events import CheckpointSaved, Event, Halted, TaskEnded, TaskStarted
from graphkit.shapes import update_of
from graphkit.streams import Stream, namespace_of

LONGEST = 200
"""Characters that are shown of a value."""


class Printer:
    """Prints a run to standard output: every chunk of `modes`, and with `debug` a line for each thing that
    happens, in this run and in the runs nested in it."""

    def __init__(self, name: str, modes: Stream | None, debug: bool) -> None:
        self._name = name
        self._modes = modes
        self._debug = debug
        self.listen = modes.listen if modes is not None else frozenset()
        self.below = modes.below if modes is not None else frozenset()
        if debug:
            self.listen |= {"tasks", "updates", "checkpoints"}
            self.below |= {"tasks", "updates", "checkpoints"}

    def show(self, event: Event, depth: int) -> None:
        """`depth` counts the runs between the printed one and that of the event."""
        if self._modes is not None and (not depth or self._modes.below):
            graph = f" [graph={namespace_of(event)}]" if depth else ""
            for mode, chunk in self._modes.chunks(event):
                print(f"[{mode}]{graph} {chunk!r}")
        if self._debug:
            nodes = [part.split(":")[0] for part in namespace_of(event)]
            where = " > ".join([self._name, *nodes[len(nodes) - depth :]])
            for line in _described(event):
                print(f"[{where}] {line}")


def _described(event: Event) -> Iterator[str]:
    if isinstance(event, TaskStarted):
        again = f" again (attempt {event.attempt})" if event.attempt > 1 else ""
        yield f"step {event.about.step}: {event.about.name} starts{again} with {_short(event.input)}"
    elif isinstance(event, TaskEnded):
        yield f"step {event.about.step}: {event.about.name} {_ending(event)}"
    elif isinstance(event, CheckpointSaved):
        # Without a saver there is nothing to look up under its id.
        if event.thread_id:
            point, following = event.checkpoint, ", ".join(task.name for task in event.tasks)
            yield f"step {point.step}: checkpoint {point.id}, next: {following or 'nothing'}"
    elif isinstance(event, Halted):
        asked = len(event.interrupts)
        awaited = "an answer" if asked == 1 else f"{asked} answers"
        yield f"waits for {awaited}" if asked else "pauses at a breakpoint"


def _ending(event: TaskEnded) -> str:
    if event.error is not None:
        return f"failed with {event.error}"
    if event.writes is None:
        return f"asks {_short([question.value for question in event.interrupts])}"
    found = " (found in the cache)" if event.cached else ""
    if event.whole:
        return f"returned {_short(event.writes[0][1])}{found}"
    return f"wrote {_short(update_of(event.writes))}{found}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
