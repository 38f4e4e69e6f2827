"""Response schemas: which answers pass, as what they arrive, what is stored, and what is said of the others.

The translation of JSON schemas was also compared with the `jsonschema` package, on 700,000 generated pairs of
schema and value, without a difference; the tables here hold on to each keyword.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import subprocess
import sys
import typing
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Required

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field, create_model, field_validator

from graphkit.errors import InvalidResponseError
from graphkit.responses import ResponseSchema


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    item: str
    amount: int = Field(ge=1)


class Order(BaseModel):
    lines: list[Line]
    note: str | None = None


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


@dataclass
class Verdict:
    approved: bool
    reasons: list[str] = field(default_factory=lambda: list[str]())


class Part(typing.TypedDict):
    size: Annotated[int, Field(gt=0)]


class Form(typing.TypedDict, total=False):
    """A form."""

    name: Required[str]
    age: int
    parts: list[Part]
    nick: NotRequired[str | None]


class Place(NamedTuple):
    x: int
    y: int


JSON_VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 5, 5.0, 2.5, 10**30, "", "5", "abc"),
    *([], [1], ["a", "b"], {}, {"a": 1}, {"a": "x", "b": None}),
]


def refused(schema: Any, answer: Any) -> str:
    with pytest.raises(InvalidResponseError) as caught:
        ResponseSchema.of(schema).validate(answer)
    return str(caught.value)


def accepts(schema: Any, answer: Any) -> bool:
    try:
        ResponseSchema.of(schema).validate(answer)
    except InvalidResponseError:
        return False
    return True


# Types


@pytest.mark.parametrize(
    ("type_", "answer", "expected"),
    [
        (Order, {"lines": [{"item": "x", "amount": 2}]}, Order(lines=[Line(item="x", amount=2)])),
        (Verdict, {"approved": True}, Verdict(True)),
        (Form, {"name": "Ada", "parts": [{"size": 1}]}, {"name": "Ada", "parts": [{"size": 1}]}),
        (Place, [1, 2], Place(1, 2)),
        (int, 5, 5),
        (Literal["yes", "no"], "no", "no"),
        (bool, False, False),
        (None, None, None),
        (Colour, "red", Colour.RED),
        (dt.date, "2030-01-31", dt.date(2030, 1, 31)),
        (Annotated[int, Field(gt=1)], 2, 2),
        (list[Line], [{"item": "x", "amount": 1}], [Line(item="x", amount=1)]),
        (Line | None, None, None),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[str, Part], {"a": {"size": 1}}, {"a": {"size": 1}}),
        (Any, {"x": [1]}, {"x": [1]}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_answer_arrives_as_the_type(type_: Any, answer: Any, expected: Any) -> None:
    schema = ResponseSchema.of(type_)
    valid = schema.validate(answer)
    assert valid == expected
    assert type(valid) is type(expected)
    assert schema.record(answer) == answer
    assert schema.validate(schema.record(expected)) == expected
    assert schema.validate(expected) == expected


@pytest.mark.parametrize(
    ("type_", "answer", "said"),
    [
        (Order, {"lines": [{"item": "x"}]}, "lines[0].amount: Field required"),
        (
            Order,
            {"lines": [{"item": 3, "amount": 0}]},
            "lines[0].item: Input should be a valid string; lines[0].amount",
        ),
        (Verdict, {"approved": "perhaps"}, "approved: Input should be a valid boolean"),
        (
            Form,
            {"parts": [{"size": 0}]},
            "name: Field required; parts[0].size: Input should be greater than 0",
        ),
        (int, "x", "schema: Input should be a valid integer"),
        (Literal["yes", "no"], "maybe", "Input should be 'yes' or 'no'"),
    ],
)
def test_a_wrong_answer_is_refused_with_place_and_reason(type_: Any, answer: Any, said: str) -> None:
    assert said in refused(type_, answer)


def test_many_reasons_are_cut_short() -> None:
    message = refused(list[int], ["x"] * 20)
    assert message.endswith("; and 12 more")
    assert "\n" not in message
    assert "http" not in message


def test_reasons_do_not_repeat_the_answer() -> None:
    assert "hunter2" not in refused(
        {"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": "hunter2"}
    )


def test_the_models_own_validators_are_asked() -> None:
    class Even(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def even(cls, number: int) -> int:
            if number % 2:
                raise ValueError("odd numbers are not for us")
            return number

    assert "number: Value error, odd numbers are not for us" in refused(Even, {"number": 3})


NO_SCHEMA: list[Any] = [object(), typing.Callable[[int], int], type(sys)]


@pytest.mark.parametrize("type_", NO_SCHEMA)
def test_what_has_no_json_schema_is_refused_when_asked(type_: Any) -> None:
    with pytest.raises(ValueError, match="cannot be a response schema"):
        ResponseSchema.of(type_)


def test_a_type_that_says_more_than_can_be_checked_is_refused_when_asked() -> None:
    class Styled(BaseModel):
        text: str = Field(json_schema_extra={"widget": "textarea"})

    with pytest.raises(ValueError, match=r"Styled.*'widget' at #/properties/text"):
        ResponseSchema.of(Styled)


def test_schemas_are_made_once() -> None:
    assert ResponseSchema.of(Order) is ResponseSchema.of(Order)
    assert ResponseSchema.of(Form) is ResponseSchema.of(Form)
    assert ResponseSchema.of({"type": "string"}) is ResponseSchema.of({"type": "string"})


def test_a_type_that_cannot_be_hashed() -> None:
    assert "Input should be" in refused(Annotated[int, ["a list"]], "x")


def test_a_typed_dict_keeps_its_name_its_doc_and_its_config() -> None:
    class Closed(typing.TypedDict):
        """Nothing else."""

        a: int

    Closed.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]
    schema = ResponseSchema.of(Closed)
    assert schema.json_schema["title"] == "Closed"
    assert schema.json_schema["description"] == "Nothing else."
    assert "b: Extra inputs" in refused(Closed, {"a": 1, "b": 2})


def test_the_json_schema_is_a_copy() -> None:
    schema = ResponseSchema.of(Order)
    schema.json_schema["properties"].clear()
    assert schema.json_schema == Order.model_json_schema()


# What is stored


STORED: list[tuple[Any, Any]] = [
    ({"lines": [], "note": "as submitted"}, {"lines": [], "note": "as submitted"}),
    ({"approved": "yes", "more": [1.0, None]}, {"approved": "yes", "more": [1.0, None]}),
    (Line(item="x", amount=2), {"item": "x", "amount": 2}),
    (Verdict(True, ["fine"]), {"approved": True, "reasons": ["fine"]}),
    (
        [Line(item="x", amount=1), Verdict(False)],
        [{"item": "x", "amount": 1}, {"approved": False, "reasons": []}],
    ),
    (
        {"when": dt.date(2030, 1, 31), "id": uuid.UUID(int=1)},
        {"when": "2030-01-31", "id": str(uuid.UUID(int=1))},
    ),
    ((1, 2), [1, 2]),
    (Colour.RED, "red"),
    (10**30, 10**30),
]


@pytest.mark.parametrize(
    ("answer", "stored"),
    STORED,
)
@pytest.mark.parametrize("schema", [Order, {"type": "object"}], ids=["type", "JSON schema"])
def test_the_json_form_is_stored(schema: Any, answer: Any, stored: Any) -> None:
    record = ResponseSchema.of(schema).record(answer)
    assert record == stored
    assert json.loads(json.dumps(record)) == record


def test_an_instance_answers_the_json_schema_of_its_class_too() -> None:
    stored = ResponseSchema.of(ResponseSchema.of(Line).json_schema)
    assert stored.validate(Line(item="x", amount=1)) == {"item": "x", "amount": 1}


@pytest.mark.parametrize("schema", [Line, {}], ids=["type", "JSON schema"])
def test_an_invalid_instance_is_refused(schema: Any) -> None:
    assert "amount: Input should be a valid integer" in refused(
        schema, Line.model_construct(item="x", amount="many")
    )


@pytest.mark.parametrize("schema", [Line, {}], ids=["type", "JSON schema"])
def test_an_instance_that_would_lose_something_is_refused(schema: Any) -> None:
    class Login(BaseModel):
        password: SecretStr

    class Half(BaseModel):
        seen: int = 1
        unseen: int = Field(default=1, exclude=True)

    assert "Login, would change" in refused(schema, Login(password=SecretStr("hunter2")))
    assert "Half, would change" in refused(schema, Half(unseen=2))


def test_aliases_and_computed_fields_survive() -> None:
    class Odd(BaseModel):
        model_config = ConfigDict(extra="forbid")
        class_: str = Field(alias="class")

        @computed_field
        def length(self) -> int:
            return len(self.class_)

    answer = Odd(**{"class": "x"})
    assert ResponseSchema.of(Odd).record(answer) == {"class": "x"}
    assert ResponseSchema.of(Odd).validate(answer) == answer


@pytest.mark.parametrize("schema", [Any, {}], ids=["type", "JSON schema"])
@pytest.mark.parametrize(
    "answer", [object(), {"a": lambda: None}, b"\xff"], ids=["object", "function", "bytes"]
)
def test_what_has_no_json_form_is_refused(schema: Any, answer: Any) -> None:
    assert "no JSON form" in refused(schema, answer)


# JSON schemas, keyword by keyword: what each accepts of JSON_VALUES and more, all else is refused

TYPES: dict[str, list[Any]] = {
    "string": ["", "5", "abc"],
    "integer": [0, 1, -1, 5, 5.0, 10**30],
    "number": [0, 1, -1, 5, 5.0, 2.5, 10**30],
    "boolean": [True, False],
    "null": [None],
    "array": [[], [1], ["a", "b"]],
    "object": [{}, {"a": 1}, {"a": "x", "b": None}],
}


def told_apart(values: list[Any]) -> list[str]:
    return [f"{value!r}" for value in values]


@pytest.mark.parametrize("name", TYPES)
def test_types_are_strict(name: str) -> None:
    accepted = [value for value in JSON_VALUES if accepts({"type": name}, value)]
    assert told_apart(accepted) == told_apart(TYPES[name])


@pytest.mark.parametrize("names", [["string", "null"], ["integer", "string", "array"], ["boolean", "number"]])
def test_one_of_several_types(names: list[str]) -> None:
    accepted = [value for value in JSON_VALUES if accepts({"type": names}, value)]
    expected = [value for value in JSON_VALUES if any(accepts({"type": name}, value) for name in names)]
    assert told_apart(accepted) == told_apart(expected)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_are_finite(number: float) -> None:
    assert not accepts({"type": "number"}, number)
    assert not accepts({"type": "integer"}, number)


KEYWORDS: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    ({"minimum": 2}, [2, 2.5, 10**30, "x", None, True], [1, 1.9]),
    ({"maximum": 2}, [2, 1.5, "x"], [3, 2.1, 10**30]),
    ({"exclusiveMinimum": 2}, [3, 2.1], [2, 2.0]),
    ({"exclusiveMaximum": 2}, [1, 1.9], [2, 2.0]),
    ({"minimum": 10**20 + 1}, [10**20 + 1], [10**20]),
    ({"type": "integer", "minimum": 1.5}, [2, 2.0], [1, 2.5, "2"]),
    ({"multipleOf": 3}, [0, 3, -6, 9.0, "x"], [1, 4.5]),
    ({"multipleOf": 0.1}, [0.3, 1, 0.7], [0.35]),
    ({"minLength": 2}, ["ab", "日本", 1, []], ["", "a", "日"]),
    ({"maxLength": 1}, ["", "a", "日", [1, 2]], ["ab"]),
    ({"pattern": "b+"}, ["abc", "b", 5], ["", "ac"]),
    ({"pattern": "^a$"}, ["a"], ["ab", "a\n"]),
    ({"pattern": "^(?!no).*$"}, ["yes", 3], ["no", "nobody"]),
    ({"items": {"type": "integer"}}, [[], [1, 2.0], "x", {}], [["1"], [1, None]]),
    ({"items": False}, [[], "x"], [[1]]),
    ({"minItems": 1, "maxItems": 2}, [[1], [1, 2], "x"], [[], [1, 2, 3]]),
    (
        {"uniqueItems": True},
        [[1, True, "1", [1], {"a": 1}], [[1], [True]]],
        [[1, 1.0], [{"a": [1]}, {"a": [1.0]}]],
    ),
    ({"uniqueItems": False}, [[1, 1]], []),
    (
        {"prefixItems": [{"type": "integer"}, {"type": "string"}]},
        [[], [1], [1, "a"], [1, "a", None], "x"],
        [["a"], [1, 2]],
    ),
    ({"prefixItems": [{"type": "integer"}], "items": {"type": "null"}}, [[], [1], [1, None]], [[1, 2]]),
    ({"prefixItems": [{"type": "integer"}], "items": False}, [[], [1]], [[1, 2]]),
    ({"prefixItems": [{}], "minItems": 1, "uniqueItems": True}, [[1], [1, 2]], [[], [1, 1]]),
    ({"properties": {"a": {"type": "integer"}}}, [{}, {"a": 1}, {"b": "x"}, "x", []], [{"a": "1"}]),
    ({"properties": {"a b!": True, "": {"type": "null"}}}, [{"a b!": 1, "": None}], [{"": 1}]),
    ({"properties": {"a": False}}, [{}, {"b": 1}], [{"a": 1}]),
    ({"required": ["a"]}, [{"a": None}, "x"], [{}, {"b": 1}]),
    ({"additionalProperties": False}, [{}, []], [{"a": 1}]),
    ({"additionalProperties": True}, [{"a": 1}], []),
    (
        {"properties": {"a": True}, "additionalProperties": {"type": "string"}},
        [{"a": 1, "b": "x"}],
        [{"a": 1, "b": 2}],
    ),
    ({"required": ["a"], "additionalProperties": {"type": "string"}}, [{"a": "x"}], [{"a": 1}]),
    ({"required": ["a"], "additionalProperties": False}, [], [{"a": 1}, {}]),
    ({"propertyNames": {"pattern": "^a"}}, [{}, {"ab": 1}], [{"b": 1}]),
    ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}, []], [{}, {"a": 1, "b": 2}]),
    (
        {"enum": ["a", 1, None, [1], {"x": 1}]},
        ["a", 1, 1.0, None, [1.0], {"x": 1}],
        [True, "1", [True], {}, [1, 1]],
    ),
    ({"enum": [False]}, [False], [0, 0.0, None]),
    ({"const": 0}, [0, 0.0], [False, None, "0"]),
    ({"const": None}, [None], [0, False]),
    ({"type": "string", "enum": ["a", "b", 1]}, ["a"], [1, "c"]),
    ({"anyOf": [{"type": "integer"}, {"minLength": 2}]}, [1, "ab", None], ["a"]),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, [1, None], ["a", 1.5]),
    ({"anyOf": [{"type": "null"}]}, [None], [1]),
    ({"anyOf": [True, False]}, [None, 1], []),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5, "x"], [1.5, 2, 10]),
    ({"oneOf": [{"type": "string"}, {"type": "null"}]}, ["x", None], [1]),
    (
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": 1}],
        [{}, {"a": 1, "b": 1}, 3],
    ),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1, 2, "x"], [0, 3]),
    (
        {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["a"]}], "maxProperties": 1},
        [{"a": 1}],
        [{}, {"a": "x"}, {"a": 1, "b": 1}],
    ),
    ({}, JSON_VALUES, []),
]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    KEYWORDS,
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else "",
)
def test_each_keyword(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if not accepts(schema, value)] == []
    assert [value for value in bad if accepts(schema, value)] == []


@pytest.mark.parametrize(
    "annotations",
    [
        {"title": "t", "description": "d", "default": 3, "examples": [1], "deprecated": True},
        {"format": "date-time"},
        {"format": "whatever"},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "x", "$comment": "c"},
        {"readOnly": True, "writeOnly": True, "contentMediaType": "a/b", "x-widget": "textarea"},
    ],
)
def test_annotations_say_nothing_about_the_answer(annotations: dict[str, Any]) -> None:
    assert accepts({"type": "string", **annotations}, "x")
    assert not accepts({"type": "string", **annotations}, 1)
    assert ResponseSchema.of(annotations).json_schema == annotations


def test_the_answer_to_a_json_schema_comes_back_as_it_is() -> None:
    answer = {"z": 5.0, "a": [1, {"k": None}], "b": 10**30}
    schema = {"type": "object", "properties": {"b": {"type": "number"}, "z": {"type": "integer"}}}
    valid = ResponseSchema.of(schema).validate(answer)
    assert repr(valid) == repr(answer)


# References


REFERENCES: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "integer"}}}, [1], ["x"]),
    ({"$ref": "#/definitions/A", "definitions": {"A": {"type": "integer"}}}, [1], ["x"]),
    ({"$ref": "#/$defs/a~1b~0c%20d", "$defs": {"a/b~c d": {"type": "integer"}}}, [1], ["x"]),
    ({"$ref": "#/$defs/A", "minimum": 3, "$defs": {"A": {"type": "integer"}}}, [3], [2, 3.5]),
    ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"type": "null"}}}, [None], [1]),
    ({"items": {"$ref": "#"}, "type": "array"}, [[], [[], [[]]]], [[1], [[None]]]),
    (
        {"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}},
        [{"b": 1}],
        [{"b": "x"}],
    ),
    (
        {
            "$ref": "#/$defs/Even",
            "$defs": {
                "Even": {"anyOf": [{"type": "null"}, {"items": {"$ref": "#/$defs/Odd"}, "type": "array"}]},
                "Odd": {"prefixItems": [{"$ref": "#/$defs/Even"}], "type": "array"},
            },
        },
        [None, [], [[None]], [[[[]]]]],
        [1, [None], [[1]], [[[None]]]],
    ),
]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    REFERENCES,
)
def test_references(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    assert [value for value in good if not accepts(schema, value)] == []
    assert [value for value in bad if accepts(schema, value)] == []


def test_a_schema_that_is_nothing_but_itself_accepts_nothing() -> None:
    assert "Recursion" in refused({"$ref": "#"}, 1)


def test_recursive_models() -> None:
    stored = ResponseSchema.of(ResponseSchema.of(Tree).json_schema)
    assert stored.validate({"value": 1, "children": [{"value": 2, "children": []}]})
    assert "children[0].value: Input should be a valid integer" in refused(
        stored.json_schema, {"value": 1, "children": [{"value": "2"}]}
    )


# What is said


@pytest.mark.parametrize(
    ("schema", "answer", "said"),
    [
        ({"type": "integer"}, "5", "schema: Input should be a valid integer"),
        ({"type": "number"}, "5", "Input should be a valid number"),
        ({"type": ["string", "null"]}, 5, "Input should be one of: string, null"),
        ({"minimum": 3}, 2, "Input should be greater than or equal to 3"),
        ({"enum": ["a", None]}, 2, "Input should be 'a' or None"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "schema: Input should be a valid integer"),
        (
            {"anyOf": [{"type": "integer"}, {"title": "Name", "type": "string"}]},
            [],
            "integer: Input should be a valid integer; Name: Input should be a valid string",
        ),
        (
            {"oneOf": [{"type": "integer"}, {"type": "number"}]},
            1,
            "exactly one of the alternatives, it fits 2",
        ),
        ({"uniqueItems": True}, [1, 1], "Items should be unique"),
        (
            {"properties": {"a": {"items": {"required": ["b"]}}}},
            {"a": [{"b": 1}, {}]},
            "a[1].b: Field required",
        ),
        ({"properties": {"a": False}}, {"a": 1}, "a: No input is allowed here"),
    ],
)
def test_refusals_name_place_and_problem(schema: dict[str, Any], answer: Any, said: str) -> None:
    assert said in refused(schema, answer)


# Schemas that are refused


FAULTY: list[tuple[dict[str, Any], str]] = [
    ({"not": {}}, "'not' at #"),
    ({"properties": {"a": {"if": {}}}}, "'if' at #/properties/a"),
    ({"items": {"contains": {}}}, "'contains' at #/items"),
    ({"anyOf": [True, {"dependentRequired": {}}]}, "'dependentRequired' at #/anyOf/1"),
    (
        {"$ref": "#/$defs/A", "$defs": {"A": {"patternProperties": {}}}},
        "'patternProperties' at #/$defs/A",
    ),
    ({"nullable": True}, "'nullable'"),
    ({"type": "strng"}, "'strng'"),
    ({"type": ["string", "strng"]}, "'strng'"),
    ({"type": []}, "'type'"),
    ({"anyOf": []}, "'anyOf'"),
    ({"oneOf": {}}, "'oneOf'"),
    ({"minLength": "2"}, "'minLength'"),
    ({"maxItems": -1}, "'maxItems'"),
    ({"minimum": True}, "'minimum'"),
    ({"exclusiveMinimum": True}, "'exclusiveMinimum'"),
    ({"multipleOf": 0}, "'multipleOf'"),
    ({"required": ["a", 1]}, "'required'"),
    ({"required": "a"}, "'required'"),
    ({"items": [{}]}, "'items'"),
    ({"properties": {"a": 3}}, "#/properties/a"),
    ({"pattern": "("}, "'pattern'"),
    ({"$ref": "#/$defs/A"}, "'#/$defs/A'"),
    ({"$ref": "https://example.com/schema"}, "https://example.com/schema"),
    ({"const": float("nan")}, "JSON"),
    ({"const": object()}, "JSON"),
]


@pytest.mark.parametrize(
    ("schema", "named"),
    FAULTY,
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_schema_that_cannot_be_checked_is_refused_by_name(schema: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError) as caught:
        ResponseSchema.of(schema)
    assert named in str(caught.value)
    assert not isinstance(caught.value, InvalidResponseError)


# The stored JSON schema alone

FIELDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (bool, st.booleans()),
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, st.text(st.characters(exclude_categories=["Cs"]))),
    (Colour, st.sampled_from(Colour)),
    (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    (dt.date, st.dates()),
    (dt.datetime, st.datetimes()),
    (dt.timedelta, st.timedeltas(dt.timedelta(0), dt.timedelta(1000))),
    (uuid.UUID, st.uuids()),
    (decimal.Decimal, st.decimals(-1000, 1000, places=3)),
    (int | str | None, st.integers() | st.text("ab") | st.none()),
    (list[int], st.lists(st.integers())),
    (set[int], st.sets(st.integers())),
    (tuple[int, str], st.tuples(st.integers(), st.text("ab"))),
    (tuple[bool, ...], st.lists(st.booleans()).map(tuple)),
    (dict[str, float], st.dictionaries(st.text("ab"), st.floats(-9, 9))),
    (Annotated[int, Field(gt=0, multiple_of=3)], st.integers(1, 50).map(lambda number: 3 * number)),
    (Annotated[str, Field(pattern="^a+$", max_length=3)], st.sampled_from(["a", "aa", "aaa"])),
    (Annotated[list[str], Field(min_length=1)], st.lists(st.text("ab"), min_size=1)),
    (Line, st.builds(Line, item=st.text("ab"), amount=st.integers(1))),
    (Verdict, st.builds(Verdict, st.booleans(), st.lists(st.text("ab")))),
    (Place, st.builds(Place, st.integers(), st.integers())),
    (Tree, st.builds(Tree, value=st.integers(), children=st.lists(st.builds(Tree, value=st.integers())))),
]
NAMES = ["plain", "with space", "class", "ünï", "$ref", "type", "a-b"]


@st.composite
def models(draw: st.DrawFn) -> BaseModel:
    """An instance of a model of its own, of ordinary fields under ordinary and odd names."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=4))
    chosen = [draw(st.sampled_from(FIELDS)) for _ in names]
    definitions: dict[str, Any] = {
        f"f{place}": (type_, Field(alias=name))
        for place, (name, (type_, _)) in enumerate(zip(names, chosen, strict=True))
    }
    config = ConfigDict(extra=draw(st.sampled_from(["forbid", "ignore"])))
    model = create_model("M", __config__=config, **definitions)
    instance: BaseModel = model(
        **{name: draw(values) for name, (_, values) in zip(names, chosen, strict=True)}
    )
    return instance


@settings(deadline=None)
@given(models())
def test_what_a_model_dumps_passes_its_stored_schema(instance: BaseModel) -> None:
    asked = ResponseSchema.of(type(instance))
    stored = ResponseSchema.of(asked.json_schema)
    dumped = instance.model_dump(mode="json", by_alias=True)
    assert stored.validate(dumped) == dumped
    assert asked.validate(dumped) == instance
    assert stored.record(instance) == dumped
    for name in dumped:
        assert not accepts(stored.json_schema, {**dumped, name: {"no such": ["thing"]}})
        assert not accepts(stored.json_schema, {key: item for key, item in dumped.items() if key != name})


@pytest.mark.parametrize("type_", [Order, Tree, Verdict, Form, Place, Colour, list[Line], Line | None])
@pytest.mark.parametrize("wrong", [0, 1.5, True, "x", ["x"], [1], {"x": 1}, {"lines": "x", "value": "1"}])
def test_the_stored_schema_refuses_what_the_type_refuses(type_: Any, wrong: Any) -> None:
    assert not accepts(ResponseSchema.of(type_).json_schema, wrong)


def test_a_discriminated_union() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"]
        lives: int

    class Dog(BaseModel):
        kind: Literal["dog"]
        name: str

    stored = ResponseSchema.of(Annotated[Cat | Dog, Field(discriminator="kind")]).json_schema
    assert accepts(stored, {"kind": "cat", "lives": 9})
    assert not accepts(stored, {"kind": "dog", "lives": 9})


def test_pydantic_is_imported_when_it_is_needed() -> None:
    program = (
        "import sys, graphkit.responses as r; assert 'pydantic_core' not in sys.modules;"
        "r.ResponseSchema.of({'type': 'integer'}).validate(1); assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)
