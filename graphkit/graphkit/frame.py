"""The task that is running here: what `interrupt()`, `get_runtime()` and nested graphs find in the context.

A frame lives for one attempt at one task. It counts questions, hands out answers and remembers what was
asked, so that a question that user code swallowed is still known to have been asked.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from graphkit.engine.attempt import Answer, Attempt
from graphkit.engine.identity import question_id
from graphkit.errors import (
    GraphInterrupt,
    InterruptMismatchError,
    InvalidResponseError,
    UnserializableStateError,
)
from graphkit.types import Interrupt
from graphkit_checkpoint.serde import fingerprint

current: ContextVar[Frame | None] = ContextVar("graphkit_frame", default=None)


def running(call: str) -> Frame:
    """The frame of the running task. Raises `RuntimeError` naming `call` if there is none."""
    frame = current.get()
    if frame is None:
        raise RuntimeError(
            f"{call} was called outside of a graph run. In a thread that a node started, copy the context: "
            f"contextvars.copy_context().run(...), or asyncio.to_thread, which does"
        )
    return frame


class Frame:
    """One attempt at one task, while it runs."""

    __slots__ = (
        "asked",
        "attempt",
        "calls",
        "events",
        "mismatch",
        "named",
        "next_index",
        "paused",
        "rejected",
        "task_id",
    )

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.task_id = ""
        self.next_index = 0
        self.calls = 0
        self.named: set[str] = set()
        self.asked: list[tuple[Interrupt, str]] = []
        self.events: list[Any] = []
        self.paused = False
        self.mismatch: InterruptMismatchError | None = None
        self.rejected: tuple[str, InvalidResponseError] | None = None

    @property
    def id(self) -> str:
        if not self.task_id:
            self.task_id = self.attempt.place.id
        return self.task_id

    def ask(self, value: Any, name: str | None, response_schema: Any) -> Any:
        """The answer to this question; raises `GraphInterrupt` if there is none yet."""
        index = self._count(name)
        # The error handler of a node asks questions of its own, not those of the node that failed.
        asker = self.id if self.attempt.failure is None else f"{self.id}/handler"
        asked = question_id(asker, name, index)
        answer = self.attempt.answers.get(asked)
        if answer is None:
            raise self._open(asked, value, name, index, response_schema)
        if not self.attempt.scope.unchecked_matching and answer.fingerprint != _mark(value, name):
            raise self._refuse(index, answer, value)
        return self._validated(asked, answer.value, response_schema)

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
        self.named.add(name)
        return None

    def pass_on(self, questions: list[tuple[Interrupt, str]]) -> None:
        """A nested graph waits for answers, or at a breakpoint (no questions), so this task does."""
        self.asked.extend(questions)
        self.paused = True
        raise GraphInterrupt(tuple(question for question, _ in questions))

    def emit(self, value: Any) -> None:
        emit = self.attempt.scope.live.emit
        if emit is None:
            self.events.append(value)
        else:
            emit(value)

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
            self.rejected = (question, error)
            raise


def _mark(value: Any, name: str | None) -> str:
    """What an answer is bound to: the name, or a fingerprint of what is shown."""
    return f"name:{name}" if name is not None else fingerprint(value)
