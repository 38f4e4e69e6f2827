"""Response schemas: what an answer to a question must look like.

A schema is given as a type, which pydantic understands, or as a JSON schema. Both end as a JSON schema, and
that one alone is stored with the question: whoever answers may be another process that has never heard of
the type. So a type whose JSON schema says something that cannot be checked here is refused when the question
is asked, not when somebody has answered it.

A JSON schema is checked by pydantic's own validator: the schema is translated into pydantic-core's building
blocks, in which references, recursion and error locations come for free. The translation follows the JSON
schema specification literally: each keyword speaks only of values of its own kind (`minLength` of strings),
everything that is said must hold, and what a keyword says depends on no other schema around it. Types are
strict: "5" is no integer, `True` is none either, 5.0 is one. `format` and the like are annotations, as the
specification has it by default. Any other keyword that is not understood is an error, never skipped.
"""

from __future__ import annotations

import json
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import lru_cache, partial
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    NotRequired,
    Required,
    TypeGuard,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from graphkit.errors import InvalidResponseError

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator
    from pydantic_core.core_schema import CoreSchema, TypedDictField

__all__ = ["Fields", "ResponseSchema", "fields_of", "reasons", "typed_dict", "validator_of"]

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
        adapter: TypeAdapter[Any] = TypeAdapter(_for_pydantic(type_))
        text = json.dumps(adapter.json_schema())
        _json_validator(json.loads(text))
    except (PydanticUserError, PydanticUndefinedAnnotation, ValueError) as error:
        raise ValueError(f"{_name(type_)} cannot be a response schema: {error}") from error
    return ResponseSchema(text, adapter.validate_python)


@lru_cache(maxsize=256)
def _of_json(text: str) -> ResponseSchema:
    return ResponseSchema(text, _json_validator(json.loads(text)).validate_python)


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


# --- types -----------------------------------------------------------------------------------------------


def validator_of(type_: Any, *, strict: bool) -> Callable[[Any], Any]:
    """What makes a Python value, not JSON data, fit a type: it returns the value as converted; with `strict`
    nothing is. A class that pydantic does not know is told by `isinstance`, and fields that a dataclass or
    TypedDict does not have are refused; models keep to their own config.

    What it raises is for `reasons(error, below=1)`. Raises some error for a type that pydantic cannot take.
    """
    from pydantic import ConfigDict, TypeAdapter

    around: Any = tuple  # classes with fields take a config from what is around them, and from nowhere else
    config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    adapter: TypeAdapter[Any] = TypeAdapter(around[_for_pydantic(type_)], config=config)
    return lambda value: adapter.validate_python((value,), strict=strict or None)[0]


Fields = Mapping[str, tuple[Any, bool]]
"""The annotation of each field of a dict, and whether it must be there."""


def fields_of(typed_dict: Any, hints: Mapping[str, Any]) -> Fields:
    """The fields of a TypedDict whose annotations are `hints`."""
    fields: dict[str, tuple[Any, bool]] = {}
    for name, hint in hints.items():
        if get_origin(hint) in (Required, NotRequired):
            fields[name] = get_args(hint)[0], get_origin(hint) is Required
        else:
            fields[name] = hint, name in typed_dict.__required_keys__
    return fields


def typed_dict(name: str, fields: Fields, around: tuple[Any, ...] = ()) -> Any:
    """A TypedDict of these fields, as pydantic takes it. `around` are those that it is a field of."""
    from typing_extensions import TypedDict  # pydantic depends on it

    make: Any = TypedDict  # so called, it is nothing that a type checker could follow
    return make(
        name,
        {
            field: (Required if required else NotRequired)[_for_pydantic(hint, around)]
            for field, (hint, required) in fields.items()
        },
    )


def _for_pydantic(type_: Any, around: tuple[Any, ...] = ()) -> Any:
    """`type_` with every `typing.TypedDict` replaced by a twin that pydantic takes before Python 3.12."""
    if sys.version_info >= (3, 12):
        return type_
    if is_typeddict(type_) and type(type_).__module__ == "typing":
        # one that contains itself stays as it is, and pydantic says what to do
        return type_ if type_ in around else _typed_dict_twin(type_, (*around, type_))
    arguments = get_args(type_)
    replaced = tuple(_for_pydantic(argument, around) for argument in arguments)
    if all(new is old for new, old in zip(replaced, arguments, strict=True)):
        return type_
    origin = get_origin(type_)
    return (Union if origin is UnionType else origin)[replaced]


def _typed_dict_twin(type_: Any, around: tuple[Any, ...]) -> Any:
    twin = typed_dict(type_.__name__, fields_of(type_, get_type_hints(type_, include_extras=True)), around)
    twin.__doc__ = type_.__doc__
    if hasattr(type_, "__pydantic_config__"):
        twin.__pydantic_config__ = type_.__pydantic_config__
    return twin


# --- JSON schemas ----------------------------------------------------------------------------------------

_ANNOTATIONS = frozenset(
    {"$comment", "$id", "$schema", "contentEncoding", "contentMediaType", "contentSchema", "default"}
    | {"deprecated", "description", "discriminator", "examples", "format", "readOnly", "title", "writeOnly"}
)


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_NUMBER, _COUNT, _SUBSCHEMA = (int, float), (int,), (dict, bool)
_OF_NUMBERS: dict[str, tuple[type, ...]] = {
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _NUMBER,
    "exclusiveMaximum": _NUMBER,
    "multipleOf": _NUMBER,
}
_OF_STRINGS: dict[str, tuple[type, ...]] = {"minLength": _COUNT, "maxLength": _COUNT, "pattern": (str,)}
_OF_ARRAYS: dict[str, tuple[type, ...]] = {
    "items": _SUBSCHEMA,
    "prefixItems": (list,),
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": (bool,),
}
_OF_OBJECTS: dict[str, tuple[type, ...]] = {
    "properties": (dict,),
    "required": (list,),
    "additionalProperties": _SUBSCHEMA,
    "propertyNames": _SUBSCHEMA,
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
}
_KEYWORDS: dict[str, tuple[type, ...]] = {
    "$defs": (dict,),
    "definitions": (dict,),
    "$ref": (str,),
    "type": (str, list),
    "enum": (list,),
    "const": (str, int, float, bool, type(None), list, dict),
    "anyOf": (list,),
    "oneOf": (list,),
    "allOf": (list,),
    **_OF_NUMBERS,
    **_OF_STRINGS,
    **_OF_ARRAYS,
    **_OF_OBJECTS,
}
"""Every keyword that is checked, and the Python types that its own value may have."""


def _check_keywords(schema: dict[str, Any], at: str) -> None:
    for keyword, value in schema.items():
        if keyword in _ANNOTATIONS or keyword.startswith("x-"):
            continue
        if keyword not in _KEYWORDS:
            raise ValueError(
                f"The JSON schema uses {keyword!r} at {at}, which cannot be checked here. Say it in other "
                "keywords; a note of your own may be called x-..."
            )
        if not _is_well_formed(keyword, value):
            raise ValueError(f"The JSON schema is malformed: {keyword!r} at {at} cannot be {value!r}.")


def _is_well_formed(keyword: str, value: Any) -> bool:
    if type(value) not in _KEYWORDS[keyword]:
        return False
    match keyword:
        case "type":
            names = [value] if isinstance(value, str) else value
            return bool(names) and all(name in _TYPES for name in names)
        case "anyOf" | "oneOf" | "allOf" | "prefixItems":
            return bool(value)
        case "required":
            return all(isinstance(name, str) for name in value)
        case "multipleOf":
            return bool(value > 0)
        case _:
            return _KEYWORDS[keyword] is not _COUNT or value >= 0


def _is_multiple(value: float, of: float) -> bool:
    from fractions import Fraction

    return Fraction(str(value)) % Fraction(str(of)) == 0  # as written: 0.3 is a multiple of 0.1


_BOUNDS: dict[str, tuple[Callable[[Any, Any], bool], Any, str]] = {
    "minimum": (operator.ge, "greater_than_equal", "ge"),
    "maximum": (operator.le, "less_than_equal", "le"),
    "exclusiveMinimum": (operator.gt, "greater_than", "gt"),
    "exclusiveMaximum": (operator.lt, "less_than", "lt"),
    "multipleOf": (_is_multiple, "multiple_of", "multiple_of"),
}
"""What must hold between value and bound, and pydantic's error if it does not."""


def _json_validator(schema: dict[str, Any]) -> SchemaValidator:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    translation = _Translation(schema)
    root = translation.schema(schema, "#")
    try:
        return SchemaValidator(core_schema.definitions_schema(root, [*translation.definitions.values()]))
    except SchemaError as error:
        raise ValueError(f"The JSON schema is malformed: {error}") from error


class _Translation:
    """A JSON schema on its way to pydantic-core; `definitions` are what its `$ref`s have led to so far."""

    def __init__(self, root: dict[str, Any]) -> None:
        from pydantic_core import core_schema

        self.core = core_schema
        self.root = root
        self.definitions: dict[str, CoreSchema] = {}

    def schema(self, schema: Any, at: str) -> CoreSchema:
        """Translate one (sub)schema; `at` is the JSON pointer to it, for error messages."""
        if schema is False:
            return self.core.no_info_plain_validator_function(_nothing_fits)
        if schema is not True and not _is_object(schema):
            raise ValueError(f"The JSON schema has {schema!r} at {at}, where a schema must stand.")
        parts = [] if schema is True else list(self._parts(schema, at))
        return self.core.chain_schema(parts) if parts else self.core.any_schema()

    def _parts(self, schema: dict[str, Any], at: str) -> Iterator[CoreSchema]:
        """What must hold, one by one; each passes on a value equal to the one it was given."""
        _check_keywords(schema, at)
        if "$ref" in schema:
            yield self._reference(schema["$ref"], at)
        if "type" in schema:
            yield self._type_check(schema["type"])
        if "const" in schema:
            yield self.core.no_info_plain_validator_function(partial(_one_of, [schema["const"]]))
        if "enum" in schema:
            yield self.core.no_info_plain_validator_function(partial(_one_of, schema["enum"]))
        for keywords, kind, translate in (
            (_OF_NUMBERS, _NUMBER, self._numbers),
            (_OF_STRINGS, str, self._strings),
            (_OF_ARRAYS, list, self._arrays),
            (_OF_OBJECTS, dict, self._objects),
        ):
            if not keywords.keys().isdisjoint(schema):
                of_kind = self.core.chain_schema(list(translate(schema, at)))
                yield self.core.no_info_wrap_validator_function(partial(_only_for, kind), of_kind)
        yield from self._combined(schema, at)

    def _combined(self, schema: dict[str, Any], at: str) -> Iterator[CoreSchema]:
        if "allOf" in schema:
            yield from self._schemas(schema, "allOf", at)
        if "anyOf" in schema:
            yield self._any_of(schema["anyOf"], self._schemas(schema, "anyOf", at))
        if "oneOf" in schema:
            choices = self._schemas(schema, "oneOf", at)
            yield self._any_of(schema["oneOf"], choices)
            yield self._at_most_one_of(choices)

    def _schemas(self, schema: dict[str, Any], keyword: str, at: str) -> list[CoreSchema]:
        return [self.schema(sub, f"{at}/{keyword}/{place}") for place, sub in enumerate(schema[keyword])]

    def _reference(self, reference: str, at: str) -> CoreSchema:
        if reference not in self.definitions:
            self.definitions[reference] = self.core.any_schema()  # it may refer to itself
            target = self.schema(self._resolved(reference, at), reference)
            self.definitions[reference] = self.core.chain_schema([target], ref=reference)
        return self.core.definition_reference_schema(reference)

    def _resolved(self, reference: str, at: str) -> Any:
        from urllib.parse import unquote

        target: Any = self.root
        start, *steps = unquote(reference).split("/")
        for step in steps:
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if _is_object(target) else None
        if start != "#" or target is None:
            raise ValueError(f"The JSON schema refers to {reference!r} at {at}, which is not in it.")
        return target

    def _numbers(self, schema: dict[str, Any], at: str) -> Iterator[CoreSchema]:
        for keyword, (holds, error, name) in _BOUNDS.items():
            if keyword in schema:
                bound = partial(_bounded, holds, error, {name: schema[keyword]})
                yield self.core.no_info_plain_validator_function(bound)

    def _strings(self, schema: dict[str, Any], at: str) -> Iterator[CoreSchema]:
        yield self.core.str_schema(min_length=schema.get("minLength"), max_length=schema.get("maxLength"))
        if "pattern" in schema:
            yield self._pattern(schema["pattern"], at)

    def _arrays(self, schema: dict[str, Any], at: str) -> Iterator[CoreSchema]:
        yield self.core.list_schema(min_length=schema.get("minItems"), max_length=schema.get("maxItems"))
        if schema.get("uniqueItems"):
            yield self.core.no_info_plain_validator_function(_unique)
        items = self.schema(schema.get("items", True), f"{at}/items")
        if "prefixItems" not in schema:
            yield self.core.list_schema(items)
            return
        # a shorter array is legal, so what is missing counts as given
        first = [
            self.core.with_default_schema(item, default=None)
            for item in self._schemas(schema, "prefixItems", at)
        ]
        if schema.get("items") is False:
            yield self.core.tuple_schema([*first])
        else:
            yield self.core.tuple_schema([*first, items], variadic_item_index=len(first))

    def _objects(self, schema: dict[str, Any], at: str) -> Iterator[CoreSchema]:
        yield self.core.dict_schema(
            self.schema(schema.get("propertyNames", True), f"{at}/propertyNames"),
            min_length=schema.get("minProperties"),
            max_length=schema.get("maxProperties"),
        )
        others = schema.get("additionalProperties", True)
        yield self.core.typed_dict_schema(
            self._fields(schema, at),
            extra_behavior="forbid" if others is False else "allow",
            extras_schema=None if others is False else self.schema(others, f"{at}/additionalProperties"),
        )

    def _fields(self, schema: dict[str, Any], at: str) -> dict[str, TypedDictField]:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        others = schema.get("additionalProperties", True)  # goes for a name that is only required
        return {
            name: self.core.typed_dict_field(
                self.schema(properties.get(name, others), f"{at}/properties/{name}"),
                required=name in required,
            )
            for name in dict.fromkeys([*properties, *required])
        }

    def _type_check(self, names: str | list[str]) -> CoreSchema:
        if isinstance(names, str):
            return self._type_named(names)
        checks = [self._type_named(name) for name in names]
        return self.core.union_schema(
            [*checks],
            custom_error_type="type",
            custom_error_message=f"Input should be one of: {', '.join(names)}",
            mode="left_to_right",
        )

    def _type_named(self, name: str) -> CoreSchema:
        match name:
            case "string":
                return self.core.str_schema(strict=True)
            case "integer":
                return self.core.no_info_wrap_validator_function(_whole, self.core.int_schema(strict=True))
            case "number":
                # not a float alone, which would lose digits of a long integer
                numbers = [
                    self.core.int_schema(strict=True),
                    self.core.float_schema(strict=True, allow_inf_nan=False),
                ]
                return self.core.union_schema(
                    [*numbers], custom_error_type="float_type", mode="left_to_right"
                )
            case "boolean":
                return self.core.bool_schema(strict=True)
            case "null":
                return self.core.none_schema()
            case "array":
                return self.core.list_schema(strict=True)
            case _:
                return self.core.dict_schema(strict=True)

    def _any_of(self, schemas: list[Any], choices: list[CoreSchema]) -> CoreSchema:
        labelled = [
            (choice, _label(schema, place))
            for place, (schema, choice) in enumerate(zip(schemas, choices, strict=True))
            if schema != {"type": "null"}
        ]
        if not labelled:
            return self.core.none_schema()
        one = len(labelled) == 1
        union = labelled[0][0] if one else self.core.union_schema([*labelled], mode="left_to_right")
        return self.core.nullable_schema(union) if len(labelled) < len(schemas) else union

    def _at_most_one_of(self, choices: list[CoreSchema]) -> CoreSchema:
        """Hands the value to each of the choices, as a tuple to a tuple, and counts those that take it."""
        fits = [self.core.no_info_wrap_validator_function(_fits, choice) for choice in choices]
        count = self.core.no_info_before_validator_function(
            lambda value: (value,) * len(choices), self.core.tuple_schema([*fits])
        )
        return self.core.no_info_wrap_validator_function(_fits_at_most_one, count)

    def _pattern(self, pattern: str, at: str) -> CoreSchema:
        """Matched by pydantic's engine, in linear time; by Python's only if there are look-arounds."""
        from pydantic_core import SchemaError, SchemaValidator

        schema = self.core.str_schema(pattern=pattern)
        try:
            SchemaValidator(schema)
        except SchemaError:
            try:
                search = re.compile(pattern).search
            except re.error as error:
                raise ValueError(f"The JSON schema has a faulty 'pattern' at {at}: {error}") from error
            return self.core.no_info_plain_validator_function(partial(_found, search, pattern))
        return schema


def _label(schema: Any, place: int) -> str:
    """How error messages call an alternative."""
    described = schema if _is_object(schema) else {}
    reference = str(described.get("$ref", "")).rpartition("/")[2]
    return str(described.get("title") or reference or described.get("type") or f"alternative {place + 1}")


# --- what pydantic-core does not know --------------------------------------------------------------------


def _nothing_fits(value: Any) -> Any:
    from pydantic_core import PydanticCustomError

    raise PydanticCustomError("nothing_fits", "No input is allowed here")


def _only_for(kind: type | tuple[type, ...], value: Any, check: Callable[[Any], Any]) -> Any:
    if isinstance(value, kind) and not isinstance(value, bool):
        check(value)
    return value


def _whole(value: Any, check: Callable[[Any], Any]) -> Any:
    check(int(value) if isinstance(value, float) and value.is_integer() else value)
    return value


def _bounded(holds: Callable[[Any, Any], bool], error: Any, bound: dict[str, Any], value: Any) -> Any:
    from pydantic_core import PydanticKnownError

    if not holds(value, *bound.values()):
        raise PydanticKnownError(error, bound)
    return value


def _found(search: Callable[[str], Any], pattern: str, value: str) -> str:
    from pydantic_core import PydanticKnownError

    if not search(value):
        raise PydanticKnownError("string_pattern_mismatch", {"pattern": pattern})
    return value


def _one_of(allowed: list[Any], value: Any) -> Any:
    from pydantic_core import PydanticKnownError

    if _comparable(value) not in map(_comparable, allowed):
        raise PydanticKnownError("literal_error", {"expected": " or ".join(map(repr, allowed))})
    return value


def _unique(values: list[Any]) -> list[Any]:
    from pydantic_core import PydanticCustomError

    if len(set(map(_comparable, values))) < len(values):
        raise PydanticCustomError("unique_items", "Items should be unique")
    return values


def _comparable(value: Any) -> Any:
    """Hashable, and equal exactly if two JSON values are: 1 equals 1.0, but `True` does not equal 1."""
    if _is_array(value):
        return "array", tuple(map(_comparable, value))
    if _is_object(value):
        return "object", frozenset((key, _comparable(item)) for key, item in value.items())
    return value if type(value) in (str, int, float) else (type(value), repr(value))


def _fits(value: Any, check: Callable[[Any], Any]) -> bool:
    from pydantic_core import ValidationError

    try:
        check(value)
    except ValidationError:
        return False
    return True


def _fits_at_most_one(value: Any, check: Callable[[Any], tuple[bool, ...]]) -> Any:
    from pydantic_core import PydanticCustomError

    fitting = sum(check(value))
    if fitting > 1:
        raise PydanticCustomError(
            "one_of",
            "Input should fit exactly one of the alternatives, it fits {fitting}",
            {"fitting": fitting},
        )
    return value
