"""`interrupt()`: ask a person from inside a node and go on when the answer is there."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from graphkit.frame import running

__all__ = ["interrupt"]

AnswerT = TypeVar("AnswerT")


@overload
def interrupt(value: Any, *, name: str | None = None) -> Any: ...
@overload
def interrupt(value: Any, *, name: str | None = None, response_schema: type[AnswerT]) -> AnswerT: ...
@overload
def interrupt(value: Any, *, name: str | None = None, response_schema: Any) -> Any: ...


def interrupt(value: Any, *, name: str | None = None, response_schema: Any = None) -> Any:
    """Pause the run with a question; on the re-run that follows its answer, return that answer.

    The first call raises `GraphInterrupt` (a `BaseException`) out of the node; the run ends with the
    question among its `interrupts`. `Command(resume=...)` records the answer and runs the node again from
    its first line, so code before the call runs again: put side effects behind it.

    `value` is what the person is shown; it must be serializable (`UnserializableStateError`). Unnamed
    questions of a task are matched with their answers by order, and an answer is only delivered to the
    question it was given to (`InterruptMismatchError`); questions with a `name` are matched by it alone.
    `response_schema` (a pydantic model, dataclass, TypedDict or JSON schema) is checked before an answer is
    recorded, and the validated object is returned. Raises `RuntimeError` outside of a run.
    Behaviour: LangGraph's `interrupt`; the checks are graphkit's.
    """
    return running("interrupt()").ask(value, name, response_schema)
