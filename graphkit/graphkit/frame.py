"""The task that is running here: what `interrupt()`, `get_runtime()` and nested graphs find in the context.

A frame lives for one attempt at one task. It counts questions, hands out answers and remembers what was
asked, so that a question that user code swallowed is still known to have been asked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from graphkit.constants import PREVIOUS
from graphkit.engine.attempt import Answer, Attempt, Keeping, Past
from graphkit.engine.events import BEAT, HEARTBEAT, Beat, Custom, Event, MessageChunk
from graphkit.engine.identity import below, question_id, run_of
from graphkit.engine.nested import Site
from graphkit.errors import (
    GraphInterrupt,
    InterruptMismatchError,
    InvalidResponseError,
    InvalidUpdateError,
    UnserializableStateError,
)
from graphkit.inside import Inner, Inside
from graphkit.types import Interrupt, RunStatus
from graphkit_checkpoint.serde import fingerprint

if TYPE_CHECKING:
    from graphkit.tracing import Traced

current: ContextVar[Frame | None] = ContextVar("graphkit_frame", default=None)
NONE: frozenset[Any] = frozenset()
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_making = threading.Lock()


class OutsideRunError(RuntimeError):
    """Something that only a task of a run can do was done by nobody's task."""


def running(call: str) -> Frame:
    """The frame of the running task. Raises `RuntimeError` naming `call` if there is none."""
    frame = current.get()
    if frame is None:
        raise OutsideRunError(
            f"{call} was called outside of a graph run. In a thread that a node started, copy the context: "
            f"contextvars.copy_context().run(...), or asyncio.to_thread, which does"
        )
    return frame


class Frame:
    """One attempt at one task, while it runs. Made for each of them, so what most never have is a default of the
    class, but for what is looked at of every one."""

    part = ""
    next_index = 0
    paused = False
    breaks = False
    named: frozenset[str] = NONE
    # Whether calls are made one after the other, each when the end of the last one is known.
    ordered = True
    unseen: frozenset[Inner] = NONE
    mismatch: InterruptMismatchError | None = None
    rejected: tuple[str, InvalidResponseError] | None = None
    _site: Site | None = None

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.keeping = attempt.keeping
        self.raised = False  # whether user code was told that the task cannot go on
        self.inside: Inside | None = None
        self.asked: list[tuple[Interrupt, str]] = []
        self.events: list[Event] = []
        self.langchain: Any = None
        """Undoes what lets LangChain find this task, where somebody listens to its models."""
        self.traced: Traced | None = None
        """What callbacks of LangChain hear of the attempt, where there are any."""

    @property
    def id(self) -> str:
        return self.attempt.place.id

    @property
    def asker(self) -> str:
        """Who asks and calls: the error handler of a node does both apart from the node that failed."""
        attempt = self.attempt
        return attempt.place.id if attempt.failure is None else f"{attempt.place.id}/handler"

    @property
    def site(self) -> Site:
        """Where graphs are called from."""
        if self._site is None:
            attempt = self.attempt
            past = Past() if attempt.past is None and attempt.number > 1 else attempt.past
            base = below(attempt.scope.namespace, attempt.node.name, self.asker)
            with _making:  # of several threads, one makes it
                self._site = self._site or Site(base, past)
        return self._site

    @property
    def previous(self) -> Any:
        """What the last run of an entrypoint has saved for this one."""
        state = self.attempt.state
        return None if state is None else state[1].get(PREVIOUS)

    def has_begun(self) -> None:
        """Let the next task begin, where those of this node are queued."""
        begun = self.attempt.begun
        if begun is not None:
            begun()

    # What outlives the attempt

    @property
    def kept(self) -> Mapping[str, Any]:
        """What this attempt and earlier ones at the task have kept, by key."""
        return _NOTHING if self.keeping is None else self.keeping.kept

    @property
    def amends(self) -> list[tuple[str, Any]]:
        """What this attempt, and earlier ones in the same superstep, have amended."""
        return [] if self.keeping is None else self.keeping.amends

    def keep(self, key: str, value: Any) -> None:
        """Keep a value for the next attempt: it is recorded if the task asks or fails, and forgotten when it has
        finished. It has to be storable; another one under the same key replaces it."""
        self._own_keeping().kept[key] = value

    def amend(self, channel: str, value: Any) -> None:
        """Write to a channel whatever the task comes to: with what it returns (and before that), or on its own if it
        asks or fails. Raises `InvalidUpdateError` for an unknown channel."""
        if channel not in self.attempt.words.channels:
            raise InvalidUpdateError(
                f"node {self.attempt.node.name!r} amends {channel!r}, which is no channel of its graph"
            )
        self._own_keeping().amends.append((channel, value))

    def _own_keeping(self) -> Keeping:
        before = self.attempt.keeping
        if self.keeping is None or self.keeping is before:  # which a later attempt may want as it is
            self.keeping = Keeping() if before is None else Keeping(dict(before.kept), list(before.amends))
        return self.keeping

    # What runs inside

    def enter(self, inner: Inner) -> None:
        """Something is started inside: the attempt ends after it."""
        if self.inside is None:
            with _making:
                if self.inside is None:
                    self.inside = Inside()
            if self.attempt.stopped:
                self.inside.stop()
        if self.inside or self.unseen:
            self.ordered = False
        self.inside.enter(inner)

    def enter_unseen(self, inner: Inner) -> None:
        """`enter` for what the caller does not wait for at once: until it is `seen`, no other call comes after it."""
        self.enter(inner)
        with _making:
            self.unseen = self.unseen | {inner}

    def seen(self, inner: Inner) -> None:
        """The caller knows how it has ended."""
        with _making:
            self.unseen = self.unseen - {inner}

    def leave(self, inner: Inner) -> None:
        assert self.inside is not None
        self.inside.leave(inner)

    def stop(self) -> bool:
        """Wake everything inside to end. Returns whether there is anything."""
        inside = self.inside
        return inside is not None and inside.stop()

    def settle(self) -> None:
        """Wait until everything inside has ended."""
        if self.inside:
            self.inside.wait()

    async def asettle(self) -> None:
        """`settle` on the running event loop."""
        if self.inside:
            await self.inside.await_all()

    # Questions

    @property
    def waits(self) -> bool:
        """Whether the task cannot finish: it has asked, or an answer does not fit."""
        return bool(self.asked or self.paused or self.mismatch or self.rejected)

    @property
    def questions(self) -> list[tuple[Interrupt, str]]:
        """What was asked: the task's own questions, then those of the graphs it called, call by call."""
        if len(self.asked) < 2:
            return self.asked
        return sorted(self.asked, key=lambda asked: self.site.number_of(asked[0].namespace))

    @property
    def left(self) -> tuple[str, ...]:
        """The namespaces of graphs that an earlier attempt has called and this one has not."""
        return () if self._site is None else self._site.left

    def ask(self, value: Any, name: str | None, response_schema: Any, *, within: str = "") -> Any:
        """The answer to this question; raises `GraphInterrupt` if there is none yet.

        A name is unique in the task; `within` a part of it, if that is named (whoever names it sees to that).
        """
        index = None if within and name is not None else self._count(name)
        asked = question_id(self.asker, name, index, within or self.part)
        answer = self.attempt.answers.get(asked)
        if answer is None:
            self.raised = True
            raise self._open(asked, value, name, index, response_schema)
        if not self.attempt.scope.unchecked_matching and answer.fingerprint != _mark(value, name):
            raise self._refuse(index, answer, value)
        return self._validated(asked, answer.value, response_schema)

    @contextmanager
    def within(self, part: str) -> Iterator[None]:
        """While this lasts, questions are asked in a part of the task: counted anew, with names of its own. A part that
        an earlier attempt has been through and this one leaves out does not change which question another one is."""
        before = self.part, self.next_index, self.named
        self.part, self.next_index, self.named = part, 0, NONE
        try:
            yield
        finally:
            self.part, self.next_index, self.named = before

    def _count(self, name: str | None) -> int | None:
        """The index of an unnamed question; a name may be asked once."""
        if name is None:
            index = self.next_index
            self.next_index += 1
            return index
        if name in self.named:
            raise ValueError(
                f"node {self.attempt.node.name!r} asks a question named {name!r} twice in one run; the name would "
                f"get the same answer both times: give each question a name of its own"
            )
        with _making:
            self.named = self.named | {name}
        return None

    def pass_on(self, questions: list[tuple[Interrupt, str]], status: RunStatus) -> None:
        """A nested graph waits for answers, at a breakpoint or because it was drained, so this task does."""
        self.raised = True
        raise self.waits_inside(questions, status)

    def waits_inside(self, questions: list[tuple[Interrupt, str]], status: RunStatus) -> GraphInterrupt:
        """What carries out of the task that something inside it waits."""
        self.asked.extend(questions)
        self.paused = True
        self.breaks = self.breaks or status == "paused"
        return GraphInterrupt(tuple(question for question, _ in questions))

    # Signs of progress

    @property
    def is_timed(self) -> bool:
        """Whether an idle timeout wants to know that this attempt gets on: its own, its caller's, or one around
        its run."""
        return self.attempt.scope.live.heartbeat is not None or self._is_watched

    @property
    def _is_watched(self) -> bool:
        timeout = self.attempt.node.timeout
        return self.attempt.watched or (timeout is not None and timeout.idle_timeout is not None)

    def beat(self) -> None:
        """The attempt has done something that can be seen from outside."""
        live = self.attempt.scope.live
        self._post(BEAT)
        if live.beat is not None:
            live.beat()

    def heartbeat(self) -> None:
        """The node says that it gets on."""
        live = self.attempt.scope.live
        self._post(HEARTBEAT)
        if live.heartbeat is not None:
            live.heartbeat()

    def _post(self, sign: Beat) -> None:
        attempt = self.attempt
        post = attempt.scope.live.post
        # One on its way says as much as many, and one that the node gave says more than any other.
        if post is not None and self._is_watched and attempt.beating not in (sign, HEARTBEAT):
            attempt.beating = sign
            post(attempt, sign)

    def emit(self, value: Any) -> None:
        """Show a value in stream mode "custom"."""
        scope = self.attempt.scope
        if self.is_timed:
            self.beat()
        if "custom" in scope.listen:
            self.show(Custom(namespace=run_of(scope.namespace), value=value))

    def emit_message(self, chunk: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """Show a message, or a part of one, in stream mode "messages". `metadata` is added to the task's."""
        attempt = self.attempt
        if self.is_timed:
            self.beat()
        if "messages" in attempt.scope.listen:
            assert attempt.about is not None
            self.show(MessageChunk(about=attempt.about, chunk=chunk, metadata=metadata or {}))

    def show(self, event: Event) -> None:
        """Hand an event to whoever listens: at once, or with the outcome if nobody here can. What is shown
        after the attempt has been given up is dropped."""
        attempt = self.attempt
        if attempt.stopped:
            return
        emit = attempt.scope.live.emit
        if emit is None:
            self.events.append(event)
        else:
            emit(attempt, event)

    def _open(
        self, question: str, value: Any, name: str | None, index: int | None, response_schema: Any
    ) -> GraphInterrupt:
        schema = None
        if response_schema is not None:
            from graphkit.responses import ResponseSchema

            schema = ResponseSchema.of(response_schema).json_schema
        content = self._content(value)
        interrupt = Interrupt(
            value=value,
            id=question,
            name=name,
            index=index,
            node=self.attempt.node.name,
            namespace=self.attempt.scope.namespace,
            response_schema=schema,
        )
        self.asked.append((interrupt, content if name is None else _mark(value, name)))
        return GraphInterrupt((interrupt,))

    def _content(self, value: Any) -> str:
        """The fingerprint of what is shown. What cannot be stored is refused here, where it was given."""
        try:
            return fingerprint(value)
        except UnserializableStateError as error:
            raise UnserializableStateError(
                f"a question of node {self.attempt.node.name!r}: {error}"
            ) from error

    def _refuse(self, index: int | None, answer: Answer, value: Any) -> InterruptMismatchError:
        self.raised = True
        self.mismatch = InterruptMismatchError(
            f"node {self.attempt.node.name!r} now asks {value!r:.300} as question {index}, but the answer given "
            f"there was to {answer.asked!r:.300}; nothing was delivered. Name the questions "
            f"(interrupt(value, name=...)), or move what varies between runs into an earlier node"
        )
        return self.mismatch

    def _validated(self, question: str, value: Any, response_schema: Any) -> Any:
        if response_schema is None:
            return value
        from graphkit.responses import ResponseSchema

        try:
            return ResponseSchema.of(response_schema).validate(value)
        except InvalidResponseError as error:
            error.question = question
            self.raised = True
            self.rejected = (question, error)
            raise


def depth_below() -> int:
    """How deep a blocking call inside the running task works: below it, since its own threads and loop may be those
    that wait. 0 outside of tasks."""
    frame = current.get()
    return 0 if frame is None else frame.attempt.scope.depth + 1


def _mark(value: Any, name: str | None) -> str:
    """What an answer is bound to: the name, or a fingerprint of what is shown."""
    return f"name:{name}" if name is not None else fingerprint(value)
