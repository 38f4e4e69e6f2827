"""Taking an answer: check it against what the question wants before it is recorded."""

from __future__ import annotations

from typing import Any

from graphkit.errors import InvalidResponseError
from graphkit.types import Interrupt


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
