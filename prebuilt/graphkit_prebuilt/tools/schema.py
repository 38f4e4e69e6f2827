"""From the signature of a function to what a model may give it, and from what it gives to the call.

The schema is a plain JSON schema; wrapping it for a model provider is not done here. pydantic is imported when the
first schema is made.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple, Protocol, get_args, get_origin

from graphkit.annotations import hints_of_function
from graphkit_checkpoint.watched import copied
from graphkit_prebuilt.content import JSONSchema
from graphkit_prebuilt.tools.docstrings import described, docstring_of

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.json_schema import GenerateJsonSchema

Injects = Callable[[str, Any], str | None]
_KEPT_AS_THEY_ARE = frozenset({"default", "const", "enum", "examples"})
_NAMES = frozenset({"properties", "patternProperties", "$defs"})
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""Parameters of these types, with defaults of these or without one, are what they look like."""
_NARROW = ("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const")


class NotThere(RuntimeError):
    """There is nothing to inject; a parameter that has a default keeps it."""


class Provides(Protocol):
    """What is injected, by its key; None for what there is not. Raises `NotThere` where that will not do."""

    def get(self, key: str, /) -> Any: ...


class Slot(NamedTuple):
    """One parameter: the `field` of the model that it is filled from, or what is `injected` into it."""

    parameter: str
    field: str
    injected: str | None = None
    positional: bool = False
    always: bool = False  # given even if the model left it out: the function's own default is none
    optional: bool = False  # of what is injected: the function has a default for it


@dataclass(frozen=True, slots=True)
class InputSchema:
    """What a model may give a function: `json_schema` says it, `model` checks it."""

    json_schema: JSONSchema
    model: type[BaseModel]
    slots: tuple[Slot, ...]
    is_shared: bool  # whether the function may get parts of the input itself, which it must not change

    def arguments(self, given: Any, provided: Provides) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for a call with this input; `provided` is what is injected, by its key.

        Values are validated and are what the annotations say (models stay models); unknown keys are left out. The
        input is not changed. Raises `ValueError` (pydantic's `ValidationError`) for what does not fit.
        """
        if not isinstance(given, dict):
            raise ValueError(not_an_object(given))
        given = _copied(given) if self.is_shared else dict(given)
        validated = self.model.__pydantic_validator__.validate_python(given)
        values, present = validated.__dict__, validated.__pydantic_fields_set__
        positional: list[Any] = []
        named: dict[str, Any] = dict(validated.__pydantic_extra__ or {})
        for slot in self.slots:
            if slot.injected is not None:
                try:
                    named[slot.parameter] = provided.get(slot.injected)
                except NotThere:
                    if not slot.optional:
                        raise
            elif slot.positional:
                positional.append(values[slot.field])
            elif slot.always or slot.field in present:
                named[slot.parameter] = values[slot.field]
        return tuple(positional), named


def input_schema_of(
    function: Callable[..., Any], injects: Injects = lambda name, annotation: None
) -> InputSchema:
    """The schema of a function's parameters, from its signature, its annotations and its docstring.

    A parameter is described by `Annotated[T, "text"]`, `Field(description=…)` (as annotation or default), the `Args:`
    of the docstring, else as "Parameter x". `self` and `cls` at the start, `*args` and parameters for which
    `injects(name, annotation)` names a key are not part of it; `**kwargs` allows any other key. Raises `ValueError`
    naming a parameter whose annotation cannot be resolved or has no JSON schema.
    """
    told = described(docstring_of(function)).parameters
    annotations = hints_of_function(function)
    slots: list[Slot] = []
    fields: list[_Field] = []
    others = False
    for number, parameter in enumerate(_parameters(function)):
        name = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            others = True
            continue
        annotation = annotations.get(name, parameter.annotation)
        injected = injects(name, annotation)
        if injected is None:
            _must_be_resolved(function, name, annotation)
            annotation = Any if annotation is parameter.empty else annotation
            # Not by its own name, which may be one that pydantic's models have a use for.
            fields.append(_Field(f"field_{number}", name, annotation, parameter.default, told.get(name)))
        slots.append(
            Slot(
                parameter=name,
                field=f"field_{number}",
                injected=injected,
                positional=parameter.kind is parameter.POSITIONAL_ONLY,
                always=_is_field(parameter.default),
                optional=injected is not None and parameter.default is not parameter.empty,
            )
        )
    name = _name_of(function)
    try:
        if all(map(_is_plain, fields)):
            defaults = repr([field.default for field in fields])  # in which 1 is not True
            model, schema = _made_once(name, others, tuple(fields), defaults)
            schema = copied(schema)
        else:
            model, schema = _made(name, others, fields)
    except Exception as error:
        raise ValueError(
            f"the parameters of {name!r} have no JSON schema, so no model can be told about them: {error}"
        ) from error
    return InputSchema(schema, model, tuple(slots), _is_loose(schema))


class _Field(NamedTuple):
    """A parameter that a model fills: its `key` in the pydantic model, and what is known of it."""

    key: str
    name: str
    annotation: Any
    default: Any
    told: str | None


def _is_plain(field: _Field) -> bool:
    kind, default = field.annotation, field.default
    no_default = default is inspect.Parameter.empty
    return type(kind) is type and kind in _PLAIN and (no_default or type(default) in _PLAIN)


@functools.lru_cache(maxsize=256)
def _made_once(
    name: str, others: bool, fields: tuple[_Field, ...], defaults: str
) -> tuple[type[BaseModel], JSONSchema]:
    """A program that makes an agent for each request makes the same tools each time. Copy the schema before it is
    given away."""
    return _made(name, others, fields)


def _made(name: str, others: bool, fields: Sequence[_Field]) -> tuple[type[BaseModel], JSONSchema]:
    from pydantic import ConfigDict, create_model

    config = ConfigDict(extra="allow" if others else "ignore")
    parts: dict[str, Any] = {field.key: _field(*field[1:]) for field in fields}
    model: type[BaseModel] = create_model(name, __config__=config, **parts)
    return model, _json_schema(model)


def faults(error: Any) -> str:
    """What pydantic's `ValidationError` says is wrong, a line for each place, without links."""
    return "\n".join(
        f"{'.'.join(map(str, fault['loc'])) or 'input'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    return parameters[1:] if _begins_with_owner(function, parameters) else parameters


def takes_owner(function: Callable[..., Any]) -> bool:
    """Whether this is a function in a class, whose first parameter is the object or the class."""
    return _begins_with_owner(function, list(inspect.signature(function).parameters.values()))


def _begins_with_owner(function: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> bool:
    return bool(parameters) and parameters[0].name in ("self", "cls") and not inspect.ismethod(function)


def _must_be_resolved(function: Callable[..., Any], name: str, annotation: Any) -> None:
    if isinstance(annotation, str):
        raise ValueError(
            f"parameter {name!r} of {_name_of(function)!r}: the annotation {annotation!r} names something that "
            f"cannot be found where the function is defined; define or import it at module level"
        )


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _is_field(default: Any) -> bool:
    from pydantic.fields import FieldInfo

    return isinstance(default, FieldInfo)


def _field(name: str, annotation: Any, default: Any, told: str | None) -> tuple[Any, Any]:
    """What `create_model` wants to know of a parameter: ours first, then what the annotation adds."""
    from pydantic import Field

    parts = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    texts = [part for part in parts[1:] if isinstance(part, str)]
    text = texts[0] if texts else told or f"Parameter {name}"
    rest = [part for part in parts[1:] if not isinstance(part, str)]
    kind: Any = Annotated[parts[0], Field(alias=name, description=text), *rest]
    return kind, ... if default is inspect.Parameter.empty else default


def _json_schema(model: type[BaseModel]) -> JSONSchema:
    schema: JSONSchema = untitled(model.model_json_schema(schema_generator=_generator()))
    schema.setdefault("properties", {})
    return schema


@functools.cache
def _generator() -> type[GenerateJsonSchema]:
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

    class Quiet(GenerateJsonSchema):
        """A default that JSON cannot say is left out; the function has it."""

        ignored_warning_kinds: ClassVar[set[JsonSchemaWarningKind]] = {  # type: ignore[misc]
            "skipped-choice",
            "non-serializable-default",
        }

    return Quiet


def untitled(schema: Any) -> Any:
    """The schema without the titles that pydantic gives everything."""
    if isinstance(schema, list):
        return [untitled(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value
        if key in _KEPT_AS_THEY_ARE
        else {name: untitled(part) for name, part in value.items()}
        if key in _NAMES
        else untitled(value)
        for key, value in schema.items()
        if key != "title"
    }


def _copied(value: Any) -> Any:
    """JSON's containers anew. What else may be in them, in a direct call, is the caller's own."""
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return [_copied(part) for part in value] if type(value) is list else value


def _is_loose(schema: Any) -> bool:
    """Whether something in it may be anything: pydantic hands such values on as they are."""
    if schema is True or (isinstance(schema, dict) and not any(key in schema for key in _NARROW)):
        return True
    if not isinstance(schema, dict):
        return False
    parts = [part for key in _NAMES for part in schema.get(key, {}).values()]
    parts += [part for key in ("anyOf", "oneOf", "allOf", "prefixItems") for part in schema.get(key, ())]
    parts += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return any(map(_is_loose, parts))


def not_an_object(given: Any) -> str:
    """What is wrong with an input that is no JSON object."""
    shown = f"{given!r:.200}"
    if isinstance(given, str):
        return f"the input is no JSON object but text, maybe cut off before its end: {shown}"
    return f"the input is no JSON object but {type(given).__name__}: {shown}"
