"""Response schemas: what an answer to a question must look like.

A schema is given as a type, which pydantic understands, or as a JSON schema. Both end as a JSON schema, and
that one alone is stored with the question: whoever answers may be another process that has never heard of
the type. So a type whose JSON schema says something that cannot be checked here is refused when the question
is asked, not when somebody has answered it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, TypeGuard

from graphkit.errors import InvalidResponseError
from graphkit.json_schema import json_validator
from graphkit.pydantic_types import for_pydantic

__all__ = ["ResponseSchema", "reasons"]

_REASONS_SHOWN = 8


class ResponseSchema:
    """What an answer must look like. Made by `ResponseSchema.of`."""

    __slots__ = ("_text", "_validate")

    def __init__(self, text: str, validate: Callable[[Any], Any]) -> None:
        self._text = text  # of the JSON schema
        self._validate = validate

    @staticmethod
    def of(schema: Any) -> ResponseSchema:
        """The schema that a type or a JSON schema stands for.

        A type is a pydantic model, a dataclass, a TypedDict or anything else that a pydantic `TypeAdapter`
        takes; a mapping is a JSON schema. Equal arguments give the same object. Raises `ValueError` for a
        type without a JSON schema, and for a JSON schema that is malformed or uses a keyword that cannot be
        checked, naming it.
        """
        if _is_mapping(schema):
            return _of_json(_json_text(schema))
        try:
            hash(schema)
        except TypeError:  # an Annotated type may hold anything
            return _of_type.__wrapped__(schema)
        return _of_type(schema)

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON schema, a new dict each time."""
        schema: dict[str, Any] = json.loads(self._text)
        return schema

    def validate(self, answer: Any) -> Any:
        """The answer as the asker wants it: an instance of the model or dataclass, a date, a plain dict.

        If this was made of a JSON schema, that is what `record` gives. Raises `InvalidResponseError`, with
        the places and the reasons, if the answer does not fit, and wherever `record` does.
        """
        plain = self.record(answer)
        try:
            return self._validate(plain)
        except ValueError as error:
            raise InvalidResponseError(
                f"The answer does not fit the question's response schema: {reasons(error)}"
            ) from error

    def record(self, answer: Any) -> Any:
        """The answer as it is stored, which is its JSON form: JSON data as submitted, objects dumped.

        `validate` takes this form for what it takes the answer. Whether it fits is not looked at. Raises
        `InvalidResponseError` for an object that has no such form, and for an instance of a model or
        dataclass that would not come out of it again as it was: invalid, or with secret or excluded fields.
        """
        from pydantic_core import to_jsonable_python

        try:
            plain = to_jsonable_python(answer, by_alias=True, round_trip=True)
            kept = not _has_fields(answer) or ResponseSchema.of(type(answer))._validate(plain) == answer
        except ValueError as error:
            raise InvalidResponseError(f"The answer has no JSON form to store: {reasons(error)}") from error
        if not kept:
            raise InvalidResponseError(
                f"The answer, a {_name(type(answer))}, would change by being stored. Give it as JSON data."
            )
        return plain


@lru_cache(maxsize=256)
def _of_type(type_: Any) -> ResponseSchema:
    from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(for_pydantic(type_))
        text = json.dumps(adapter.json_schema())
        json_validator(json.loads(text))
    except (PydanticUserError, PydanticUndefinedAnnotation, ValueError) as error:
        raise ValueError(f"{_name(type_)} cannot be a response schema: {error}") from error
    return ResponseSchema(text, adapter.validate_python)


@lru_cache(maxsize=256)
def _of_json(text: str) -> ResponseSchema:
    return ResponseSchema(text, json_validator(json.loads(text)).validate_python)


def _is_mapping(schema: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(schema, Mapping)


def _json_text(schema: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(schema), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"A JSON schema consists of JSON values: {error}") from error


def _name(type_: Any) -> str:
    return type_.__qualname__ if isinstance(type_, type) else repr(type_)


def _has_fields(answer: object) -> bool:
    """Whether this is an instance of a model or dataclass, and can be compared."""
    type_ = type(answer)
    has_fields = is_dataclass(type_) or hasattr(type_, "__pydantic_validator__")
    return has_fields and any("__eq__" in vars(base) for base in type_.__mro__[:-1])


def reasons(error: ValueError, *, below: int = 0, shows_input: bool = False) -> str:
    """What does not fit, and where. `below` is how many steps all places begin with that nobody has to know;
    `shows_input` adds what was found there instead."""
    from pydantic_core import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    details = error.errors(include_url=False, include_context=False)
    found = [
        f"{_place(detail['loc'][below:])}{detail['msg']}"
        + (f", not {detail['input']!r:.80}" if shows_input and detail["type"] != "missing" else "")
        for detail in details
    ]
    more = len(found) - _REASONS_SHOWN
    return "; ".join(found[:_REASONS_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _place(location: tuple[int | str, ...]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return f"{''.join(steps).removeprefix('.')}: " if location else ""
