"""What an agent may be given, read before anything runs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from graphkit.errors import InvalidPromptError, UnserializableStateError
from graphkit.types import Command, Interrupt
from graphkit_prebuilt.content import TextBlock, ToolResultBlock, assistant, tool_result, user
from graphkit_prebuilt.prompts import Given, read_prompt, refused

ID, OTHER = "a" * 32, "b" * 32


def answer(question: Any, response: Any) -> dict[str, Any]:
    return {"interruptResponse": {"interruptId": question, "response": response}}


@pytest.mark.parametrize("text", ["hello", ""])
def test_text_is_a_message_of_the_user(text: str) -> None:
    assert read_prompt(text) == Given("messages", [user(text)])


BLOCKS: list[Any] = [
    {"text": "look"},
    {"image": {"format": "png", "source": {"bytes": b"\x89"}}},
    {"document": {"format": "pdf", "name": "d", "source": {"bytes": b"%"}}},
    {"toolResult": tool_result("a", "success", "fine")},
    {"cachePoint": {"type": "default"}},
]


def test_blocks_are_one_message_of_the_user() -> None:
    assert read_prompt(BLOCKS) == Given("messages", [{"role": "user", "content": BLOCKS}])


def test_blocks_may_be_objects() -> None:
    result = ToolResultBlock("a", "success", [{"text": "fine"}])
    assert read_prompt([TextBlock("look"), result]).messages == [
        user({"text": "look"}, {"toolResult": tool_result("a", "success", "fine")})
    ]


def test_messages_are_taken_as_they_are() -> None:
    said: Any = [
        user("a"),
        {**assistant("b"), "metadata": {"usage": {}}},
        {"role": "user", "content": [{"later": 1}]},
    ]
    assert read_prompt(said) == Given("messages", said)


@pytest.mark.parametrize("given", [[{"text": "a"}], [user("a")]], ids=["blocks", "messages"])
def test_what_is_given_is_copied(given: Any) -> None:
    read = read_prompt(given)
    given[0]["text" if "text" in given[0] else "content"] = "changed"
    assert read.messages == [user("a")]


def test_nothing() -> None:
    assert read_prompt(None) == Given("nothing")
    assert read_prompt([]) == Given("nothing", empty=True)


@pytest.mark.parametrize("response", [None, False, "", 0, [], {}, "yes", {"a": [1]}], ids=repr)
def test_answers(response: Any) -> None:
    blocks = [answer(ID, response), answer(OTHER, 1)]
    assert read_prompt(blocks) == Given("answers", answers=blocks)


@pytest.mark.parametrize(
    "command", [Command(resume="yes"), Command(resume={ID: None}), Command(resume=False)], ids=repr
)
def test_commands_are_answers(command: Command[Any]) -> None:
    assert read_prompt(command) == Given("answers", answers=command)


NO_PROMPTS: dict[str, tuple[Any, str]] = {
    "a number": (5, "5 (int) is no prompt"),
    "a bool": (True, "True (bool) is no prompt"),
    "bytes": (b"hi", "b'hi' (bytes) is no prompt"),
    "a tuple": (({"text": "a"},), "(tuple) is no prompt"),
    "a dict": (user("a"), "or None to go on; give a list with it"),
    "a generator": (iter([]), "is no prompt"),
    "a list of text": (["a"], "'a' (str) is no content block"),
    "a list of lists": ([[]], "[] (list) is no content block"),
    "nothing in a list": ([None], "None (NoneType) is no content block"),
    "an empty block": ([{}], "{} (dict) is no content block"),
    "an unknown block": ([{"text": "a"}, {"telepathy": 1}], "{'telepathy': 1} (dict) is no content block"),
    "a block with more": ([{"text": "a", "telepathy": 1}], "is no content block"),
    "text that is none": ([{"text": 5}], "the text of a block is text, not int"),
    "an unknown role": ([{"role": "system", "content": []}], "'user' or 'assistant', not 'system'"),
    "a role that is none": ([{"role": ["user"], "content": []}], "'user' or 'assistant'"),
    "no content": ([{"role": "user"}], "the content of a message is a list of content blocks"),
    "content that is text": ([{"role": "user", "content": "hi"}], "the content of a message is a list"),
    "content of text": ([{"role": "user", "content": ["hi"]}], "the content of a message is a list"),
    "messages and blocks": (
        [user("a"), {"text": "b"}],
        "messages cannot be mixed with other content: {'text': 'b'}",
    ),
    "blocks and messages": (
        [{"text": "b"}, user("a")],
        "messages cannot be mixed with other content: {'text': 'b'}",
    ),
    "answers and text": ([answer(ID, 1), {"text": "b"}], "cannot be mixed with other content: {'text': 'b'}"),
    "answers and a string": (["b", answer(ID, 1)], "cannot be mixed with other content: 'b'"),
    "answers and messages": ([answer(ID, 1), user("a")], "cannot be mixed with other content"),
    "an answer with more": ([{**answer(ID, 1), "text": "b"}], "cannot be mixed with other content"),
    "an answer in a message": ([user(answer(ID, 1))], "answers to questions are given by themselves"),  # type: ignore[arg-type]
    "an answer without id": ([{"interruptResponse": {"response": 1}}], "needs 'interruptId'"),
    "an answer without response": ([{"interruptResponse": {"interruptId": ID}}], "and 'response'"),
    "an answer that is none": ([{"interruptResponse": "yes"}], "is no interruptResponse"),
    "an id that is none": ([answer(5, 1)], "needs 'interruptId' (a string)"),
    "an answer given twice": ([answer(ID, 1), answer(ID, 2)], "answered twice"),
    "an empty command": (Command(), "answers nothing"),
    "a command that answers nothing": (Command(update={"messages": []}), "answers nothing"),
    "a command with an empty map": (Command(resume={}), "answers nothing"),
}


@pytest.mark.parametrize("case", NO_PROMPTS)
def test_what_is_no_prompt_is_refused(case: str) -> None:
    given, message = NO_PROMPTS[case]
    with pytest.raises(InvalidPromptError, match=re.escape(message)) as refusal:
        read_prompt(given)
    assert isinstance(refusal.value, TypeError)
    assert isinstance(refusal.value, ValueError)


@pytest.mark.parametrize(
    "response",
    [object(), {1, 2}, b"x", {"a": {"b": b""}}, float],
    ids=["object", "set", "bytes", "bytes inside", "class"],
)
def test_an_answer_that_is_no_json_is_refused(response: Any) -> None:
    for given, which in (
        ([answer(ID, response)], ID),
        (Command(resume={ID: 1, OTHER: response}), OTHER),
        (Command(resume=response), "the question"),
    ):
        with pytest.raises(UnserializableStateError, match=f"the answer to .*{which}.*stays open"):
            read_prompt(given)


def test_an_answer_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UnserializableStateError, match=ID):
        read_prompt([answer(ID, endless)])


def test_the_refusal_names_the_questions() -> None:
    questions = [Interrupt(value="Delete it?", id=ID), Interrupt(value={"a": 1}, id=OTHER, name="approval")]
    error = refused(questions)
    assert isinstance(error, InvalidPromptError)
    assert f"{ID} ('Delete it?'), {OTHER} ('approval')" in str(error)
