"""Which answer belongs to which question: the resume table, as a pure function.

Nothing here runs a node or writes; a wrong resume is an error before either happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphkit.engine.identity import looks_like_question_id
from graphkit.engine.tasks import Task
from graphkit.errors import (
    AlreadyAnsweredError,
    AmbiguousResumeError,
    GraphkitError,
    NoPendingInterruptError,
    UnknownInterruptError,
)
from graphkit.types import Command, Interrupt
from graphkit_checkpoint.serde import fingerprint


@dataclass(slots=True, eq=False, repr=False)
class Routed:
    """Answers by question id. `fresh` are to be recorded; `repeated` were given before, with this value."""

    fresh: dict[str, Any] = field(default_factory=dict)
    repeated: list[str] = field(default_factory=list)
    dropped: bool = False
    """The thread waits at a breakpoint: the value is not an answer to anything."""


@dataclass(slots=True, eq=False, repr=False)
class Answers:
    """What a caller gave: a map of question id to answer, or one value."""

    by_id: Mapping[str, Any] | None = None
    value: Any = None


def response_blocks(value: object) -> dict[str, Any] | None:
    """The answers in a list of `interruptResponse` blocks; None if it is no such list.

    Raises `ValueError` for an empty list, a malformed block and an id that is given twice.
    """
    if not isinstance(value, list):
        return None
    if not value:
        raise ValueError("the list of interruptResponse blocks is empty; give one block for each question")
    if not all(isinstance(block, Mapping) and set(block) == {"interruptResponse"} for block in value):
        return None
    answers: dict[str, Any] = {}
    for block in value:
        response = block["interruptResponse"]
        if (
            not isinstance(response, Mapping)
            or not {"interruptId", "response"} <= set(response)
            or not isinstance(response["interruptId"], str)
        ):
            raise ValueError(
                f"{response!r:.200} is no interruptResponse; it needs 'interruptId' (a string) and 'response'"
            )
        if response["interruptId"] in answers:
            raise ValueError(f"question {response['interruptId']!r} is answered twice in one call")
        answers[response["interruptId"]] = response["response"]
    return answers


def answers_in(command: Command[Any]) -> Answers | None:
    """The answers in a command, None if it has none. Raises `ValueError` for an empty map."""
    resume = command.resume
    if resume is None:
        return None
    if isinstance(resume, dict):
        if not resume:
            raise ValueError("Command(resume={}) answers nothing; give {question id: answer}")
        if all(map(looks_like_question_id, resume)):
            return Answers(by_id=resume)
    return Answers(value=resume)


def route(answers: Answers, tasks: Sequence[Task], thread_id: str) -> tuple[Routed, dict[str, Any]]:
    """Route answers to the questions of these tasks.

    Returns what was routed and the answers by id that no question of these tasks has.
    Raises `AmbiguousResumeError`, `AlreadyAnsweredError`, `NoPendingInterruptError`.
    """
    if answers.by_id is not None:
        return _route_map(answers.by_id, tasks)
    return _route_value(answers.value, tasks, thread_id), {}


def _route_map(by_id: Mapping[str, Any], tasks: Sequence[Task]) -> tuple[Routed, dict[str, Any]]:
    routed, elsewhere = Routed(), {}
    asked = {question: task for task in tasks for question in task.questions}
    for question, value in by_id.items():
        task = asked.get(question)
        if task is None:
            elsewhere[question] = value
        elif question in task.answers:
            check_same(question, task.answers[question].value, value)
            routed.repeated.append(question)
        elif task.finished:
            raise _closed(question)
        else:
            routed.fresh[question] = value
    return routed, elsewhere


def _route_value(value: Any, tasks: Sequence[Task], thread_id: str) -> Routed:
    waiting = [question for task in tasks for question in task.open_questions]
    if len(waiting) == 1:
        return Routed({waiting[0].id: value})
    if waiting:
        raise ambiguous(waiting)
    answered = [(task, question) for task in tasks if not task.finished for question in task.answers]
    if answered:
        task, question = answered[-1]
        check_same(question, task.answers[question].value, value)
        return Routed(repeated=[question])
    if not tasks or any(task.error for task in tasks):
        raise nothing_pending(thread_id)
    return Routed(dropped=True)


def check_same(question: str, before: Any, now: Any) -> None:
    """Raises `AlreadyAnsweredError` unless both answers are the same value of the same type."""
    if fingerprint(before) != fingerprint(now):
        raise AlreadyAnsweredError(
            f"question {question!r} was answered before, with {before!r:.200}; the new answer {now!r:.200} was not "
            f"recorded. To try another answer, fork: invoke(None) or update_state at an earlier checkpoint"
        )


def ambiguous(waiting: Sequence[Interrupt]) -> AmbiguousResumeError:
    listed = "; ".join(f"{question.id}: {question.value!r:.100}" for question in waiting)
    return AmbiguousResumeError(
        f"one answer was given and there are multiple pending interrupts: {listed}. "
        f"Answer by id: Command(resume={{id: answer}})"
    )


def nothing_pending(thread_id: str | None) -> NoPendingInterruptError:
    return NoPendingInterruptError(
        f"an answer was given, and no question is open on thread {thread_id!r}; "
        f"start it with an input, or check the thread_id"
    )


def refused(question: str, tasks: Sequence[Task], thread_id: str) -> GraphkitError:
    """What an answer to a question that nobody has asked gets: it is unknown among those that are open, if any is."""
    waits = any(task.open_questions for task in tasks)
    return unknown(question, thread_id) if waits else nothing_pending(thread_id)


def unknown(question: str, thread_id: str) -> UnknownInterruptError:
    return UnknownInterruptError(
        f"no question {question!r} is open on thread {thread_id!r}; "
        f"get_state(config).interrupts lists the open ones"
    )


def _closed(question: str) -> UnknownInterruptError:
    return UnknownInterruptError(f"question {question!r} is closed: its task finished without the answer")
