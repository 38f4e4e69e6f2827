"""Taking an answer: check it against what the question wants before it is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphkit.engine.attempt import Answer
from graphkit.engine.tasks import Task, answer_record
from graphkit.errors import InvalidResponseError
from graphkit.types import Interrupt
from graphkit_checkpoint.records import Pending
from graphkit_checkpoint.serde import register_type


@dataclass(frozen=True)
class Directed:
    """An answer that changes the graph that runs in `namespace`, be it the one that has asked or one around it:
    `update` is written to its channels with the answer, in one commit, once. `anew`: it begins anew with that as its
    input, and what it has asked is over.

    It answers the questions whose value has it as `answered_by`, and nothing else does.
    """

    update: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = ""
    anew: bool = False


register_type(Directed, name="graphkit:Directed")


def directions(tasks: Iterable[Task], answers: Mapping[str, Any], namespace: str) -> list[Directed]:
    """What answers to open questions of these tasks, by question id, want changed in the graph of this namespace, in
    the order of the questions."""
    if Directed not in map(type, answers.values()):
        return []
    questions = [question for task in tasks for question in task.open_questions]
    found = [answers[each.id] for each in questions if each.id in answers]
    return [
        one
        for one in found
        if type(one) is Directed and one.namespace == namespace and (one.update or one.anew)
    ]


def accepted(tasks: Sequence[Task], answers: Mapping[str, Any]) -> list[Pending]:
    """Give the tasks these answers, by question id; returns the records of them. Raises what `accept` raises."""
    records = []
    for task in tasks:
        for question, (asked, mark) in task.questions.items():
            if question in answers:
                given = accept(asked, answers[question])
                task.answers = {**task.answers, question: Answer(given, mark, asked.value)}
                records.append(answer_record(task.id, question, given, mark))
    return records


def accept(question: Interrupt, answer: Any) -> Any:
    """The answer as it is recorded. Raises `InvalidResponseError`; the question stays open."""
    wanted = getattr(type(question.value), "answered_by", None)
    if (wanted is Directed) is not (type(answer) is Directed):
        raise InvalidResponseError(
            f"{answer!r:.200} does not answer question {question.id!r} ({question.value!r:.100}): only what resumes it "
            f"does; the question stays open"
        )
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
