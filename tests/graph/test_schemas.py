"""The schemas of a graph as JSON schemas."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel

from graphkit import START, MessagesState, StateGraph, entrypoint
from graphkit.managed import RemainingSteps


class Foreign:
    """A class that pydantic knows nothing of."""


class State(TypedDict):
    text: str
    count: NotRequired[int]
    log: Annotated[list[str], operator.add]
    thing: Foreign
    left: RemainingSteps


class Question(BaseModel):
    text: str
    limit: int = 3


@dataclass
class Answer:
    text: str
    sure: bool = True


class Context(TypedDict, total=False):
    user: str


def compiled(state: Any, **schemas: Any) -> Any:
    return StateGraph(state, **schemas).add_node("node", lambda state: {}).add_edge(START, "node").compile()


def fields(schema: Any) -> tuple[dict[str, Any], list[str]]:
    """The type of each property, and which must be there."""
    types = {name: part.get("type") for name, part in schema["properties"].items()}
    return types, schema.get("required", [])


def test_of_a_state() -> None:
    graph = compiled(State)
    wanted = {"text": "string", "count": "integer", "log": "array", "thing": None}, ["text", "log", "thing"]
    assert fields(graph.get_input_jsonschema()) == fields(graph.get_output_jsonschema()) == wanted
    assert graph.get_input_jsonschema()["title"] == "State"
    assert graph.get_context_jsonschema() is None


def test_of_a_state_of_typing_extensions() -> None:
    class Mine(MessagesState):
        thing: Foreign
        left: RemainingSteps

    names, required = fields(compiled(Mine).get_input_jsonschema())
    assert (names, required) == ({"messages": "array", "thing": None}, ["messages", "thing"])


def test_of_what_goes_in_and_out() -> None:
    graph = compiled(State, input_schema=Question, output_schema=Answer, context_schema=Context)
    assert fields(graph.get_input_jsonschema()) == ({"text": "string", "limit": "integer"}, ["text"])
    assert fields(graph.get_output_jsonschema({})) == ({"text": "string", "sure": "boolean"}, ["text"])
    assert fields(graph.get_context_jsonschema()) == ({"user": "string"}, [])


@pytest.mark.parametrize("schema", [int, Annotated[int, operator.add]], ids=["int", "annotated"])
def test_of_a_single_value(schema: Any) -> None:
    assert compiled(schema).get_input_jsonschema() == {"type": "integer"}


def test_an_entrypoint_says_nothing_of_what_it_takes() -> None:
    @entrypoint()
    def flow(given: int) -> int:
        return given

    assert flow.get_input_jsonschema() == flow.get_output_jsonschema() == {}
