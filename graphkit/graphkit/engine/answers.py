"""Taking an answer: check it against what the question wants before it is recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphkit.engine.tasks import Task, answer_record, restore
from graphkit.errors import InvalidResponseError
from graphkit.types import Interrupt
from graphkit_checkpoint.records import Pending


def accepted(tasks: Sequence[Task], answers: Mapping[str, Any]) -> list[Pending]:
    """Give the tasks these answers, by question id; returns the records of them. Raises what `accept` raises."""
    records = [
        answer_record(task.id, question, accept(asked, answers[question]), mark)
        for task in tasks
        for question, (asked, mark) in task.questions.items()
        if question in answers
    ]
    restore(tasks, records)
    return records


def accept(question: Interrupt, answer: Any) -> Any:
    """The answer as it is recorded. Raises `InvalidResponseError`; the question stays open."""
    if question.response_schema is None:
        return answer
    from graphkit.responses import ResponseSchema

    schema = ResponseSchema.of(question.response_schema)
    answer = schema.record(answer)
    try:
        schema.validate(answer)
    except InvalidResponseError as error:
        raise InvalidResponseError(
            f"the answer to question {question.id!r} ({question.value!r:.100}) does not fit its response_schema: "
            f"{error}; the question stays open"
        ) from error
    return answer
