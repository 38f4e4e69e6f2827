"""What a model may look like, what it is given, and which one is meant."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from graphkit.errors import ModelStreamError, StructuredOutputException
from graphkit.models import Model, ScriptedModel, ToolCall, resolve_model
from graphkit_prebuilt.content import assistant, user
from graphkit_prebuilt.models.model import call_model
from graphkit_prebuilt.models.resolve import MissingModel

SPEC: Any = {"name": "add", "description": "Adds.", "inputSchema": {"json": {"type": "object"}}}
CHUNKS: Any = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"delta": {"text": "hi"}}},
    {"contentBlockStop": {}},
    {"messageStop": {"stopReason": "end_turn"}},
]


class Asked:
    """What a model is told of the request that calls it."""

    def __init__(self) -> None:
        self.invocation_state = {"user": "me"}
        self.cancel = threading.Event()


class Provider:
    """A provider in the shape of Strands' base class; `given` is what it was called with."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def get_config(self) -> Any:
        return {}

    def update_config(self, **model_config: Any) -> None:
        pass


class Newest(Provider):
    async def stream(
        self,
        messages: Any,
        tool_specs: Any = None,
        system_prompt: Any = None,
        *,
        tool_choice: Any = None,
        system_prompt_content: Any = None,
        invocation_state: Any = None,
        cancel_signal: Any = None,
        agent_metadata: Any = "nothing",
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        self.given = {**locals()}
        for chunk in CHUNKS:
            yield chunk


class Oldest(Provider):
    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None
    ) -> AsyncIterator[Any]:
        self.given = {**locals()}
        for chunk in CHUNKS:
            yield chunk


class Middle(Provider):
    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, *, tool_choice: Any = None
    ) -> AsyncIterator[Any]:
        self.given = {**locals()}
        for chunk in CHUNKS:
            yield chunk


class WithoutALoop(Provider):
    def stream(self, messages: Any, *others: Any, **kwargs: Any) -> Any:
        self.given = {"messages": messages, **kwargs}
        return iter(CHUNKS)


def read(model: Any, *args: Any) -> list[Any]:
    async def streamed() -> list[Any]:
        stream: Any = call_model(model, *args)
        if hasattr(stream, "__aiter__"):
            return [chunk async for chunk in stream]
        return list(stream)

    return asyncio.run(streamed())


def test_a_provider_is_given_what_its_stream_takes() -> None:
    asked = Asked()
    call: Any = ([user("hi")], [SPEC], "Be short.", {"any": {}}, asked)
    newest, middle, oldest, looser = Newest(), Middle(), Oldest(), WithoutALoop()
    for model in (newest, middle, oldest, looser):
        assert read(model, *call) == CHUNKS
        assert model.given["messages"] == [user("hi")]
    assert newest.given["tool_specs"] == [SPEC]
    assert newest.given["system_prompt"] == "Be short."
    assert newest.given["system_prompt_content"] == [{"text": "Be short."}]
    assert newest.given["tool_choice"] == {"any": {}}
    assert newest.given["invocation_state"] is asked.invocation_state
    assert newest.given["cancel_signal"] is asked.cancel
    assert newest.given["agent_metadata"] == "nothing"
    assert newest.given["kwargs"] == {}
    assert middle.given["tool_choice"] == {"any": {}}
    assert "invocation_state" not in middle.given
    assert oldest.given["tool_specs"] == [SPEC]
    assert looser.given["invocation_state"] is asked.invocation_state


def test_what_there_is_not_is_none() -> None:
    model = Newest()
    read(model, [user("hi")])
    given = {
        name: model.given[name] for name in ("tool_specs", "system_prompt", "tool_choice", "invocation_state")
    }
    assert set(given.values()) == {None}


def test_a_system_prompt_of_blocks_is_also_given_as_text() -> None:
    blocks: Any = [{"text": "Be short."}, {"cachePoint": {"type": "default"}}, {"text": "Be kind."}]
    model = Newest()
    read(model, [user("hi")], [], blocks)
    assert model.given["system_prompt"] == "Be short.\nBe kind."
    assert model.given["system_prompt_content"] == blocks


@pytest.mark.parametrize("nothing", ["", [], None])
def test_an_empty_system_prompt_is_none(nothing: Any) -> None:
    model = Newest()
    read(model, [user("hi")], [], nothing)
    assert (model.given["system_prompt"], model.given["system_prompt_content"]) == (None, None)


def test_what_we_keep_with_a_message_is_not_for_a_provider() -> None:
    model = Newest()
    said: Any = {**assistant("a"), "metadata": {"usage": {}}}
    read(model, [user("hi"), said, user("more")])
    assert model.given["messages"] == [user("hi"), assistant("a"), user("more")]
    assert "metadata" in said


@pytest.mark.parametrize("blank", [[], [{"text": ""}, {"text": " \n"}]])
def test_an_answer_without_a_word_is_sent_as_one_that_says_so(blank: Any) -> None:
    model = Newest()
    call: Any = {"toolUse": {"toolUseId": "t", "name": "look", "input": {}}}
    given: Any = [
        user("hi"),
        {"role": "assistant", "content": blank},
        {"role": "user", "content": [{"text": ""}]},
        {"role": "assistant", "content": [*blank, call]},
    ]
    read(model, given)
    said = model.given["messages"]
    assert [said[0], *said[2:]] == [given[0], given[2], {"role": "assistant", "content": [call]}]
    (word,) = said[1]["content"]
    assert word["text"].strip() and given[1]["content"] == blank


def test_a_stream_that_cannot_be_read_is_named() -> None:
    class Wrong(Provider):
        def stream(self, *args: Any, **kwargs: Any) -> Any:
            return 7

    with pytest.raises(ModelStreamError, match=r"Wrong\.stream\(\) gave 7"):
        call_model(Wrong(), [])


# --- Structured output ---


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


def outputs(model: Any, **kwargs: Any) -> list[Any]:
    async def streamed() -> list[Any]:
        return [event async for event in model.structured_output(Person, [user("who?")], **kwargs)]

    return asyncio.run(streamed())


def test_structured_output_comes_last() -> None:
    model = ScriptedModel([["Well.", ToolCall("Person", {"name": "Ada", "age": 36})]])
    *chunks, last = outputs(model, system_prompt="Be short.")
    assert last == {"output": Person(name="Ada", age=36)}
    assert "messageStart" in chunks[0]
    request = model.requests[0]
    assert request.tool_choice == {"tool": {"name": "Person"}}
    assert request.system_prompt == "Be short."
    (spec,) = request.tool_specs or []
    assert (spec["name"], spec["description"]) == ("Person", "Somebody.")
    assert spec["inputSchema"]["json"]["required"] == ["name", "age"]


def test_structured_output_that_is_refused() -> None:
    with pytest.raises(StructuredOutputException, match="Person"):
        outputs(ScriptedModel(["I will not."]))
    with pytest.raises(StructuredOutputException):
        outputs(ScriptedModel([ToolCall("Animal", {})]))
    with pytest.raises(ValidationError):
        outputs(ScriptedModel([ToolCall("Person", {"name": "Ada"})]))
    with pytest.raises(ModelStreamError):
        outputs(ScriptedModel([[]]))


# --- Which model is meant ---


def test_a_model_is_itself() -> None:
    provider: Any = Newest()
    scripted = ScriptedModel([])
    assert resolve_model(provider) is provider
    assert resolve_model(scripted) is scripted


def test_an_agent_without_a_model_says_how_to_give_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHKIT_MODEL", raising=False)
    model = resolve_model(None)
    assert isinstance(model, MissingModel)
    assert model.get_config() == {}
    for act in (lambda: call_model(model, []), lambda: model.update_config(a=1)):
        with pytest.raises(ValueError, match="GRAPHKIT_MODEL") as caught:
            act()
        assert "Agent(model=" in str(caught.value)
        assert "Agent.default_model" in str(caught.value)


def test_the_environment_may_name_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHKIT_MODEL", "openai-chat:some")
    assert resolve_model(None).get_config() == {"model_id": "openai-chat:some"}
    monkeypatch.setenv("GRAPHKIT_MODEL", "some")
    with pytest.raises(ValueError, match="some"):
        resolve_model(None)


@pytest.mark.parametrize("name", ["", "gpt", "us.amazon.nova", ":gpt", "openai:", ":"])
def test_a_name_without_a_provider_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="provider:model"):
        resolve_model(name)


@pytest.mark.parametrize("thing", [7, {}, object(), b"openai:gpt", Newest, ScriptedModel, lambda: None])
def test_what_is_no_model_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="no model"):
        resolve_model(thing)


def test_a_class_in_the_place_of_a_model_is_named_as_such() -> None:
    with pytest.raises(TypeError, match="make an instance"):
        resolve_model(ScriptedModel)


def test_a_model_must_stream() -> None:
    class Silent(Model):
        def get_config(self) -> Any:
            return {}

        def update_config(self, **model_config: Any) -> None: ...

    with pytest.raises(TypeError, match="stream"):
        Silent()  # type: ignore[abstract]


def imported_by(program: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        check=True,
        text=True,
    )
    return set(shown.stdout.split())


def test_models_import_no_provider_and_no_pydantic_before_they_are_used() -> None:
    program = """
from graphkit.models import ScriptedModel, resolve_model
from graphkit_prebuilt.models.model import call_model
resolve_model(None)
list(call_model(resolve_model(ScriptedModel(["a"])), []))
"""
    assert not imported_by(program) & {"pydantic", "pydantic_ai", "openai", "anthropic", "langchain_core"}


def test_a_named_model_without_the_extra_says_what_to_install() -> None:
    program = """
import sys
sys.modules["pydantic_ai"] = None
from graphkit.models import resolve_model
try:
    resolve_model("openai:gpt")
except ImportError as error:
    assert "graphkit-engine[models]" in str(error), error
else:
    raise SystemExit("no error")
"""
    assert "graphkit.models" in imported_by(program)
