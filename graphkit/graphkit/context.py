"""`ContextSchema`: what the context of a run must look like, checked before anything runs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, get_origin, is_typeddict

from graphkit.annotations import annotations_of
from graphkit.errors import InvalidContextError
from graphkit.pydantic_types import Fields, fields_of, typed_dict, validator_of
from graphkit.responses import reasons

__all__ = ["ContextSchema"]

Check = Callable[[Any], Any]
"""Returns the context; raises `ValueError` or `TypeError`."""


class ContextSchema:
    """The `context_schema` of a graph.

    Of a pydantic model, a dataclass and a TypedDict each field is looked at; a field that the schema does not
    have is refused, unless a model takes it by its own config. Anything else must be an instance. What is
    built from a dict is converted as pydantic converts; what is handed on as it is, an instance or the dict
    for a TypedDict, must fit as it is, except where a dataclass holds its default (and a dict fits a model
    everywhere). An annotation that cannot be resolved here, or checked by pydantic, takes any value.

    A context that is inherited was made for another schema: of a dict, or of the fields of an instance of another
    class, only those that this schema has are looked at and taken. The dict for a TypedDict stays as it is.
    """

    def __init__(self, schema: Any, graph: str) -> None:
        self.schema = schema
        self.graph = graph

    def checked(self, given: Any, *, inherited: bool = False) -> Any:
        """The context as nodes get it. None is a dict without fields, or nothing for a schema without fields.

        Raises `InvalidContextError` naming the graph, the fields and what they were given. `inherited` says in
        it that the context came from the graph around this one.
        """
        try:
            return self._check(given) if not inherited else self._check.inherited(given)
        except (ValueError, TypeError) as error:
            whose = "the one it inherits from the graph around it" if inherited else "the one given"
            remedy = "; give it one of its own (context=...) where it is called" if inherited else ""
            found = reasons(error, below=1, shows_input=True) if isinstance(error, ValueError) else str(error)
            raise InvalidContextError(
                f"graph {self.graph!r} takes a context of {_name(self.schema)}, and {whose} ({_kind(given)}) does "
                f"not fit: {found}{remedy}"
            ) from error

    @cached_property
    def _check(self) -> _Check:
        schema = get_origin(self.schema) or self.schema
        if hasattr(schema, "__pydantic_validator__"):
            return _ModelCheck(self.schema)
        if is_typeddict(schema):
            return _TypedDictCheck(schema)
        if isinstance(schema, type) and dataclasses.is_dataclass(schema):
            return _DataclassCheck(schema)
        return _InstanceCheck(self.schema)


class _Check:
    """A context of one kind of schema."""

    def __call__(self, given: Any) -> Any:
        raise NotImplementedError

    def inherited(self, given: Any) -> Any:
        return self(given)


class _ModelCheck(_Check):
    """A pydantic model or dataclass, which knows itself what it takes."""

    def __init__(self, schema: Any) -> None:
        self.schema = get_origin(schema) or schema
        self.validate = validator_of(schema, strict=False)

    def __call__(self, given: Any) -> Any:
        return self.validate({} if given is None else given)

    def inherited(self, given: Any) -> Any:
        if isinstance(given, self.schema) or not _has_fields(given):
            return self(given)
        return self(_among(self.schema.__pydantic_fields__, given))


class _TypedDictCheck(_Check):
    def __init__(self, schema: Any) -> None:
        fields = fields_of(schema, annotations_of(schema))
        self.names = tuple(fields)
        self.validate = _fields_validator(schema, fields, strict=True)

    def __call__(self, given: Any) -> Any:
        context = {} if given is None else given
        self.validate(context)
        return context

    def inherited(self, given: Any) -> Any:
        if isinstance(given, Mapping):
            self.validate(_among(self.names, given))
            return given
        return self(_among(self.names, given) if _has_fields(given) else given)


class _DataclassCheck(_Check):
    """Built by its constructor; the fields of an instance, which nobody has looked at yet, are looked at here."""

    def __init__(self, schema: type[Any]) -> None:
        self.schema = schema
        self.defaults = {field.name: field.default for field in dataclasses.fields(schema)}
        hints = annotations_of(schema)
        fields = {name: (hints.get(name, Any), False) for name in self.defaults}
        self.validate = _fields_validator(schema, fields, strict=True)
        arguments = {
            name: (_bare(hints.get(name, Any)), parameter.default is parameter.empty)
            for name, parameter in inspect.signature(schema).parameters.items()
        }
        self.names = tuple(arguments)
        self.arguments = _fields_validator(schema, arguments, strict=False)

    def __call__(self, given: Any) -> Any:
        if isinstance(given, self.schema):
            self.validate(self._set_fields(given))
            return given
        return self.schema(**self.arguments({} if given is None else given))

    def inherited(self, given: Any) -> Any:
        if isinstance(given, self.schema) or not (isinstance(given, Mapping) or _has_fields(given)):
            return self(given)
        return self(_among(self.names, given))

    def _set_fields(self, given: Any) -> dict[str, Any]:
        """The values that are no defaults: those the class has written itself."""
        values = {name: getattr(given, name, default) for name, default in self.defaults.items()}
        return {name: value for name, value in values.items() if value is not self.defaults[name]}


class _InstanceCheck(_Check):
    """A schema without fields."""

    def __init__(self, schema: Any) -> None:
        self.validate: Check = _taking_anything
        if _can_be_checked(schema):
            self.validate = validator_of(schema, strict=True)

    def __call__(self, given: Any) -> Any:
        if given is not None:
            self.validate(given)
        return given


def _taking_anything(value: Any) -> Any:
    return value


def _has_fields(given: Any) -> bool:
    """Whether it is an instance of a dataclass or a model."""
    return not isinstance(given, type) and (
        dataclasses.is_dataclass(given) or hasattr(given, "model_fields_set")
    )


def _among(names: Iterable[str], given: Any) -> dict[str, Any]:
    """What a dict, or an instance with fields, has of these names."""
    if isinstance(given, Mapping):
        return {name: given[name] for name in names if name in given}
    return {name: getattr(given, name) for name in names if hasattr(given, name)}


def _fields_validator(schema: type[Any], fields: Fields, *, strict: bool) -> Check:
    known = {
        name: (hint if _can_be_checked(hint) else Any, required) for name, (hint, required) in fields.items()
    }
    return validator_of(typed_dict(schema.__name__, known), strict=strict)


def _can_be_checked(annotation: Any) -> bool:
    try:
        validator_of(annotation, strict=True)
    except Exception:  # pydantic has many ways to say no
        return False
    return True


def _bare(annotation: Any) -> Any:
    """The annotation of a constructor's parameter: that of an `InitVar` is inside of it."""
    return annotation.type if isinstance(annotation, dataclasses.InitVar) else annotation


def _name(schema: Any) -> str:
    return getattr(schema, "__qualname__", None) or repr(schema)


def _kind(given: Any) -> str:
    """What was given, without its values: a context may hold secrets."""
    if given is None:
        return "none"
    if isinstance(given, Mapping):
        return f"a dict with {', '.join(map(repr, given)) or 'nothing in it'}"
    return f"of type {_name(type(given))}"
