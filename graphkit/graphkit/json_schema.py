"""JSON schemas checked by pydantic's own validator: a schema is translated into pydantic-core's building blocks, in
which references, recursion and error locations come for free.

The translation follows the JSON schema specification literally: each keyword speaks only of values of its own
kind (`minLength` of strings), everything that is said must hold, and what a keyword says depends on no other schema
around it. Types are strict: "5" is no integer, `True` is none either, 5.0 is one. `format` and the like are
annotations, as the specification has it by default. Any other keyword that is not understood is an error, never
skipped.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from graphkit.json_checks import (
    bounded,
    fits,
    fits_at_most_one,
    found,
    is_object,
    nothing_fits,
    one_of,
    only_for,
    unique,
    whole,
)

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator
    from pydantic_core.core_schema import CoreSchema, TypedDictField

_ANNOTATIONS = frozenset(
    {"$comment", "$id", "$schema", "contentEncoding", "contentMediaType", "contentSchema", "default"}
    | {"deprecated", "description", "discriminator", "examples", "format", "readOnly", "title", "writeOnly"}
)


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


def json_validator(schema: dict[str, Any]) -> SchemaValidator:
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
            return self.core.no_info_plain_validator_function(nothing_fits)
        if schema is not True and not is_object(schema):
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
            yield self.core.no_info_plain_validator_function(partial(one_of, [schema["const"]]))
        if "enum" in schema:
            yield self.core.no_info_plain_validator_function(partial(one_of, schema["enum"]))
        for keywords, kind, translate in (
            (_OF_NUMBERS, _NUMBER, self._numbers),
            (_OF_STRINGS, str, self._strings),
            (_OF_ARRAYS, list, self._arrays),
            (_OF_OBJECTS, dict, self._objects),
        ):
            if not keywords.keys().isdisjoint(schema):
                of_kind = self.core.chain_schema(list(translate(schema, at)))
                yield self.core.no_info_wrap_validator_function(partial(only_for, kind), of_kind)
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
            target = target.get(step) if is_object(target) else None
        if start != "#" or target is None:
            raise ValueError(f"The JSON schema refers to {reference!r} at {at}, which is not in it.")
        return target

    def _numbers(self, schema: dict[str, Any], at: str) -> Iterator[CoreSchema]:
        for keyword, (holds, error, name) in _BOUNDS.items():
            if keyword in schema:
                bound = partial(bounded, holds, error, {name: schema[keyword]})
                yield self.core.no_info_plain_validator_function(bound)

    def _strings(self, schema: dict[str, Any], at: str) -> Iterator[CoreSchema]:
        yield self.core.str_schema(min_length=schema.get("minLength"), max_length=schema.get("maxLength"))
        if "pattern" in schema:
            yield self._pattern(schema["pattern"], at)

    def _arrays(self, schema: dict[str, Any], at: str) -> Iterator[CoreSchema]:
        yield self.core.list_schema(min_length=schema.get("minItems"), max_length=schema.get("maxItems"))
        if schema.get("uniqueItems"):
            yield self.core.no_info_plain_validator_function(unique)
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
                return self.core.no_info_wrap_validator_function(whole, self.core.int_schema(strict=True))
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
        counted = [self.core.no_info_wrap_validator_function(fits, choice) for choice in choices]
        count = self.core.no_info_before_validator_function(
            lambda value: (value,) * len(choices), self.core.tuple_schema([*counted])
        )
        return self.core.no_info_wrap_validator_function(fits_at_most_one, count)

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
            return self.core.no_info_plain_validator_function(partial(found, search, pattern))
        return schema


def _label(schema: Any, place: int) -> str:
    """How error messages call an alternative."""
    described = schema if is_object(schema) else {}
    reference = str(described.get("$ref", "")).rpartition("/")[2]
    return str(described.get("title") or reference or described.get("type") or f"alternative {place + 1}")
