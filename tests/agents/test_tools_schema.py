"""What a model is told of a function, and what the function is given of what the model says."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from graphkit.tools import InvalidToolUseNameException, tool
from graphkit.types.tools import ToolContext
from graphkit_prebuilt.tools.docstrings import described
from graphkit_prebuilt.tools.function import FunctionTool
from graphkit_prebuilt.tools.schema import input_schema_of

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers


class Point(BaseModel):
    """Where."""

    x: int
    title: int = 2


@dataclass
class Size:
    width: int


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class NoSchema:
    pass


def shown(made: FunctionTool[..., Any]) -> dict[str, Any]:
    schema: dict[str, Any] = made.tool_spec["inputSchema"]["json"]
    return schema


def given(made: FunctionTool[..., Any], **values: Any) -> dict[str, Any]:
    args, kwargs = made.schema.arguments(values, {"context": "the context", "agent": "the agent"})
    assert args == ()
    return kwargs


# --- The schema -------------------------------------------------------------------------------------------


def test_signature_and_docstring_say_everything() -> None:
    @tool
    def find(query: str, limit: int = 10, *, kind: Literal["file", "folder"] = "file") -> list[str]:
        """Find things.

        Looks everywhere.

        Args:
            query: What to look for,
                in words.
            limit (int): How many.

        Returns:
            Their names.
        """
        return []

    assert find.tool_spec == {
        "name": "find",
        "description": "Find things.\n\nLooks everywhere.\n\nReturns:\n    Their names.",
        "inputSchema": {
            "json": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What to look for,\nin words."},
                    "limit": {"type": "integer", "description": "How many.", "default": 10},
                    "kind": {
                        "type": "string",
                        "enum": ["file", "folder"],
                        "description": "Parameter kind",
                        "default": "file",
                    },
                },
                "required": ["query"],
            }
        },
    }
    assert find.tool_type == "function"


def test_a_parameter_is_described_by_its_annotation_before_the_docstring() -> None:
    @tool
    def act(
        text: Annotated[str, "from the annotation"],
        field: Annotated[int, Field(description="from the field", ge=0)],
        default: int = Field(default=3, description="from the default", le=9),
        docstring: int = 0,
        both: Annotated[int, Field(gt=1)] = 5,
    ) -> None:
        """Act.

        Args:
            text: not this
            field: not this
            default: not this
            docstring: from the docstring
            both: beside the field
        """

    properties = shown(act)["properties"]
    assert {name: part["description"] for name, part in properties.items()} == {
        "text": "from the annotation",
        "field": "from the field",
        "default": "from the default",
        "docstring": "from the docstring",
        "both": "beside the field",
    }
    assert (properties["field"]["minimum"], properties["default"]["maximum"]) == (0, 9)
    assert properties["both"]["exclusiveMinimum"] == 1
    assert given(act, text="a", field=1) == {"text": "a", "field": 1, "default": 3}
    with pytest.raises(ValidationError, match="field"):
        given(act, text="a", field=-1)


def test_types_of_all_kinds_have_a_schema_without_titles() -> None:
    @tool
    def draw(  # type: ignore[no-untyped-def]
        point: Point,
        size: Size,
        colour: Colour,
        maybe: str | None = None,
        table: dict[str, int] = {},  # noqa: B006
        anything=None,
    ) -> None:
        "Draw."

    text = json.dumps(shown(draw))
    assert '"title": "' not in text
    assert shown(draw)["$defs"]["Point"]["properties"]["title"] == {"type": "integer", "default": 2}
    assert shown(draw)["properties"]["anything"] == {"description": "Parameter anything", "default": None}
    assert shown(draw)["properties"]["table"]["additionalProperties"] == {"type": "integer"}
    assert shown(draw)["required"] == ["point", "size", "colour"]


def test_names_that_pydantic_has_a_use_for_are_names_like_others() -> None:
    @tool
    def odd(json: int, schema: int, model_config: int, copy: int, _private: int, title: int) -> None:
        "Odd."

    values = dict.fromkeys(("json", "schema", "model_config", "copy", "_private", "title"), 1)
    assert list(shown(odd)["properties"]) == list(values)
    assert given(odd, **values) == values


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    @tool
    def now() -> str:
        return ""

    assert shown(now) == {"type": "object", "properties": {}}
    assert now.tool_spec["description"] == "now"
    assert given(now, sneaked="in") == {}


def test_variable_parameters() -> None:
    @tool
    def loose(first: int, *rest: int, **others: Any) -> None:
        "Loose."

    assert list(shown(loose)["properties"]) == ["first"]
    assert shown(loose)["additionalProperties"] is True
    assert given(loose, first=1, rest=[2], more=3) == {"first": 1, "rest": [2], "more": 3}


def test_positional_only_parameters_are_given_by_position() -> None:
    def power(base: int, exponent: int = 2, /, *, shift: int = 0) -> int:
        return 0

    schema = tool(power).schema
    assert schema.arguments({"base": "3"}, {}) == ((3, 2), {})
    assert schema.arguments({"base": 3, "exponent": 4, "shift": 5}, {}) == ((3, 4), {"shift": 5})


def test_a_default_that_json_cannot_say_is_left_out_of_the_schema() -> None:
    default = object()

    @tool
    def act(thing: Any = default) -> None:
        "Act."

    assert shown(act)["properties"]["thing"] == {"description": "Parameter thing"}
    assert given(act) == {}


def test_a_schema_of_ones_own_is_shown_and_the_signature_still_checks() -> None:
    own = {"type": "object", "properties": {"z": {"type": "integer"}}, "required": ["z"]}

    def act(z: int) -> int:
        return z

    for spelled in ({"inputSchema": own}, {"inputSchema": {"json": own}}, {"input_schema": own}):
        made = tool(name="renamed", description="What it does.", **spelled)(act)
        assert made.tool_spec == {
            "name": "renamed",
            "description": "What it does.",
            "inputSchema": {"json": own},
        }
        with pytest.raises(ValidationError):
            given(made, z="no number")
    with pytest.raises(ValueError, match="two spellings"):
        tool(inputSchema=own, input_schema=own)(act)


def test_the_schema_of_a_function_alone_is_plain() -> None:
    def act(x: int, hidden: str) -> None: ...

    schema = input_schema_of(act, lambda name, annotation: "it" if name == "hidden" else None)
    assert schema.json_schema == {
        "type": "object",
        "properties": {"x": {"type": "integer", "description": "Parameter x"}},
        "required": ["x"],
    }
    assert schema.arguments({"x": 1, "hidden": "from the model"}, {"it": "from us"}) == (
        (),
        {"x": 1, "hidden": "from us"},
    )


# --- What cannot be a tool --------------------------------------------------------------------------------


def test_the_same_parameters_of_plain_types_are_one_pydantic_class() -> None:
    """A program may make its tools anew for each request; what pydantic makes of them takes longest of all."""

    def search(text: str, number: int = 1) -> str:
        return text

    first, again = input_schema_of(search), input_schema_of(search)
    assert again.model is first.model
    first.json_schema["properties"].clear()
    assert [*again.json_schema["properties"]] == [*input_schema_of(search).json_schema["properties"]]
    search.__defaults__ = (True,)
    other = input_schema_of(search)
    assert other.json_schema["properties"]["number"]["default"] is True
    search.__doc__ = "Searches.\n\nArgs:\n    number: How many."
    told = input_schema_of(search).json_schema["properties"]
    assert told["number"]["description"] == "How many."
    assert again.json_schema["properties"]["number"]["description"] == "Parameter number"


def test_an_annotation_that_is_not_there_is_refused_by_name() -> None:
    def act(number: OnlyForCheckers) -> None: ...

    with pytest.raises(ValueError, match=r"parameter 'number' of 'act'.*OnlyForCheckers"):
        tool(act)


def test_a_type_without_a_schema_is_refused_by_name() -> None:
    def act(thing: NoSchema) -> None: ...

    with pytest.raises(ValueError, match=r"'act' have no JSON schema.*NoSchema"):
        tool(act)


@pytest.mark.parametrize("name", ["has space", "x" * 65, "", "ä", "a.b", 5])
def test_a_name_that_no_model_can_call_is_refused_at_once(name: Any) -> None:
    with pytest.raises(InvalidToolUseNameException, match="no name for a tool"):
        tool(name=name)(lambda: 1)
    assert issubclass(InvalidToolUseNameException, ValueError)


def test_a_function_without_a_name_needs_one() -> None:
    def scaled(factor: int, number: int) -> int:
        return factor * number

    partly = functools.partial(scaled, 2)
    with pytest.raises(InvalidToolUseNameException):
        tool(partly)
    assert list(shown(tool(name="doubled")(partly))["properties"]) == ["number"]


@pytest.mark.parametrize("thing", [5, "text", Point, [1]])
def test_what_is_no_function_is_no_tool(thing: Any) -> None:
    with pytest.raises(TypeError, match="makes a tool of a function"):
        tool(thing)


def test_a_tool_of_a_tool_is_refused() -> None:
    with pytest.raises(TypeError, match="makes a tool of a function"):
        tool(tool(described))


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), True, "5"])
def test_a_timeout_is_a_positive_number(timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout= of a tool"):
        tool(timeout=timeout)(described)


# --- What the function gets -------------------------------------------------------------------------------


def test_values_are_what_the_annotations_say() -> None:
    @tool
    def draw(point: Point, size: Size, colour: Colour, many: list[Point], count: int) -> None:
        "Draw."

    values = given(
        draw, point={"x": "1"}, size={"width": 2}, colour="blue", many=[{"x": 3}], count="4", extra=5
    )
    assert values == {
        "point": Point(x=1),
        "size": Size(2),
        "colour": Colour.BLUE,
        "many": [Point(x=3)],
        "count": 4,
    }


def test_what_a_model_leaves_out_is_left_to_the_function() -> None:
    @tool
    def act(a: int = 1, b: list[int] = []) -> None:  # noqa: B006
        "Act."

    assert given(act) == {}
    assert given(act, b=[2]) == {"b": [2]}


@pytest.mark.parametrize("value", ["{}", "cut of", None, [], 5])
def test_input_that_is_no_object_is_refused(value: Any) -> None:
    @tool
    def act() -> None:
        "Act."

    with pytest.raises(ValueError, match="no JSON object"):
        act.schema.arguments(value, {})


def test_a_function_cannot_change_what_the_model_said() -> None:
    @tool
    def act(exact: list[int], loose: dict[str, Any], bare: list, untyped) -> None:  # type: ignore
        "Act."

    said = {"exact": [1], "loose": {"a": [1]}, "bare": [[1]], "untyped": {"a": [1]}}
    before = json.dumps(said)
    values = given(act, **said)
    values["exact"].append(2)
    values["loose"]["a"].append(2)
    values["bare"][0].append(2)
    values["untyped"]["a"].append(2)
    assert json.dumps(said) == before


def test_the_context_and_the_agent_are_no_part_of_the_schema() -> None:
    @tool(context=True)
    def one(x: int, tool_context: ToolContext) -> None: ...

    @tool(context="ctx")
    def two(ctx, x: int) -> None: ...  # type: ignore[no-untyped-def]

    @tool
    def three(x: int, told: ToolContext | None = None, agent: Any = None) -> None: ...

    for made, expected in (
        (one, {"tool_context": "the context"}),
        (two, {"ctx": "the context"}),
        (three, {"told": "the context", "agent": "the agent"}),
    ):
        assert list(shown(made)["properties"]) == ["x"]
        hack = dict.fromkeys(expected, "from the model")
        assert given(made, x=1, **hack) == {"x": 1, **expected}


def test_a_parameter_agent_that_is_said_to_be_text_is_the_models() -> None:
    @tool
    def call(agent: str) -> None: ...

    assert list(shown(call)["properties"]) == ["agent"]


@pytest.mark.parametrize("context", [True, "other"])
def test_a_context_parameter_that_is_not_there_is_refused(context: Any) -> None:
    with pytest.raises(ValueError, match="has no parameter"):
        tool(context=context)(described)


# --- In classes -------------------------------------------------------------------------------------------


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    def sell(self, item: str) -> str:
        """Sell something."""
        return f"{self.name}: {item}"

    @tool
    @staticmethod
    def price(item: str) -> int:
        """Tell the price."""
        return len(item)

    @classmethod
    @tool
    def kind(cls, item: str) -> str:
        """Tell the kind."""
        return f"{cls.__name__} {item}"

    @tool
    @classmethod
    def other_kind(cls, item: str) -> str:
        """Tell the kind."""
        return f"{cls.__name__} {item}"

    @staticmethod
    @tool
    def weight(item: str) -> int:
        """Tell the weight."""
        return len(item)


def test_methods_bind_and_can_be_called() -> None:
    shop = Shop("corner")
    assert shop.sell("tea") == "corner: tea"
    assert (shop.price("tea"), Shop.price("tea"), shop.weight("tea")) == (3, 3, 3)
    assert (shop.kind("tea"), Shop.kind("tea"), Shop.other_kind("tea")) == ("Shop tea",) * 3
    assert shop.other_kind("tea") == "Shop tea"
    for made in (shop.sell, shop.price, Shop.price, shop.other_kind, shop.weight):
        assert isinstance(made, FunctionTool)
        assert list(shown(made)["properties"]) == ["item"]


def test_the_method_of_one_object_is_one_tool() -> None:
    one, other = Shop("one"), Shop("other")
    assert one.sell == one.sell
    assert hash(one.sell) == hash(one.sell)
    assert one.sell != other.sell
    assert Shop.sell.needs_owner and not one.sell.needs_owner


def test_a_bound_method_becomes_a_tool() -> None:
    class Till:
        def open(self, key: str) -> str:
            """Open it."""
            return key

    assert list(shown(tool(Till().open))["properties"]) == ["key"]


def test_a_tool_is_called_like_its_function() -> None:
    @tool(name="other_name")
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    assert (add(1), add(1, b=2), add.__name__, add.__doc__) == (2, 3, "add", "Add.")


# --- Docstrings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "docstring",
    [
        "Do.\n\nArgs:\n    a: the a\n      goes on\n    b (int, optional): the b\n\nRaises:\n    X: never",
        "Do.\n\nArguments:\n    a: the a\n      goes on\n\n    b: the b\n\nRaises:\n    X: never",
        "Do.\n\n:param a: the a\n    goes on\n:param int b: the b\n\nRaises:\n    X: never",
    ],
)
def test_docstrings(docstring: str) -> None:
    text, parameters = described(docstring)
    assert text == "Do.\n\nRaises:\n    X: never"
    assert parameters == {"a": "the a\ngoes on", "b": "the b"}


def test_a_docstring_that_says_little() -> None:
    assert described(None) == ("", {})
    assert described("Only this.") == ("Only this.", {})
    assert described("Text.\n\nArgs:\n") == ("Text.", {})
    assert described("Act.\nArgs:\n    *rest: all\n    no entry\n") == ("Act.", {"rest": "all\nno entry"})
