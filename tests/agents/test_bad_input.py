"""Whatever an agent is given: a clear error before anything has happened, and a conversation that can go on."""

import re
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.errors import (
    AlreadyAnsweredError,
    AmbiguousResumeError,
    InvalidPromptError,
    NoPendingInterruptError,
    UnknownInterruptError,
    UnserializableStateError,
)
from graphkit.hooks import BeforeToolCallEvent
from graphkit.models import ToolCall
from graphkit.types import Command
from tests.agents.conftest import agent_of, names
from tests.conftest import response


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def ask(event: BeforeToolCallEvent) -> None:
    answer = event.interrupt("sure", reason={"a": event.tool_use["input"]["a"]})
    if answer != "y":
        event.cancel_tool = f"no: {answer!r}"


CALLS = [ToolCall("add", {"a": 1, "b": 1}), ToolCall("add", {"a": 2, "b": 2})]

WRONG_TYPES: list[Any] = [
    5,
    1.5,
    True,
    b"bytes",
    ("a", "tuple"),
    {"text": "a block without a list"},
    {"role": "user", "content": [{"text": "a message without a list"}]},
    {"a", "set"},
    object(),
    ["a", "list of text"],
    [5],
    [None],
    [{}],
    [{"unknown": "kind"}],
    [{"text": 5}],
    [{"text": "a"}, 5],
    [{"text": "a"}, {"role": "user", "content": []}],
    Command(goto="model"),
    Command(update={"messages": []}),
]
WRONG_MESSAGES: list[Any] = [
    [{"role": "system", "content": [{"text": "x"}]}],
    [{"role": "user", "content": "text"}],
    [{"role": "user"}],
    [{"role": "user", "content": ["text"]}],
    [{"role": None, "content": []}],
]


def short(value: Any) -> str:
    shown = sorted(value, key=repr) if isinstance(value, set) else value  # the same in every process
    return re.sub(r" at 0x[0-9a-f]+", "", repr(shown))[:40]


@pytest.mark.parametrize("given", [*WRONG_TYPES, *WRONG_MESSAGES], ids=short)
def test_what_is_no_prompt(given: Any, door: Any, watched: Any) -> None:
    agent = agent_of("one")
    heard = watched(agent)
    with pytest.raises(InvalidPromptError) as caught:
        door(agent, given)
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, ValueError)
    assert heard == [] and agent.messages == [] and agent.graph.get_state(agent.thread().config).values == {}
    assert str(door(agent, "hi")) == "one\n"


@pytest.mark.parametrize(
    "given",
    [
        "",
        "text",
        [{"text": "a"}, {"text": "b"}],
        [{"role": "user", "content": [{"text": "a"}]}],
        [{"role": "user", "content": [{"text": "a"}]}, {"role": "assistant", "content": [{"text": "b"}]}],
        [{"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}],
        None,
        [],
    ],
    ids=short,
)
def test_what_is_a_prompt(given: Any, door: Any) -> None:
    agent = agent_of("one")
    assert str(door(agent, given)) == "one\n"
    said = agent.messages[:-1]
    if isinstance(given, str):
        assert said == [{"role": "user", "content": [{"text": given}]}]
    elif not given:
        assert said == []
    elif "role" in given[0]:
        assert said == given
    else:
        assert said == [{"role": "user", "content": given}]


def test_a_prompt_is_copied(door: Any) -> None:
    given = [{"text": "as it was"}]
    agent = agent_of("one", "two")
    door(agent, given)
    given[0]["text"] = "changed"
    assert agent.messages[0]["content"] == [{"text": "as it was"}]


# --- While questions are open ---------------------------------------------------------------------------


def halted(session: Any, door: Any) -> tuple[Agent, Any]:
    agent = session.agent(CALLS, "done", "more", tools=[add], hooks=[ask])
    result = door(agent, "go")
    assert result.stop_reason == "interrupt" and len(result.interrupts) == 2
    return session.agent(), result


@pytest.mark.parametrize(
    "given",
    ["a prompt", "", [{"text": "a"}], [{"role": "user", "content": [{"text": "a"}]}], [], *WRONG_TYPES],
    ids=short,
)
def test_nothing_but_answers_is_taken_while_questions_are_open(given: Any, door: Any, watched: Any) -> None:
    agent = agent_of(CALLS, "done", tools=[add], hooks=[ask])
    result = door(agent, "go")
    heard = watched(agent)
    with pytest.raises(InvalidPromptError):
        door(agent, given)
    assert heard == []
    assert [question.id for question in agent.interrupts] == [question.id for question in result.interrupts]
    assert str(door(agent, [response(question, "y") for question in result.interrupts])) == "done\n"


def test_the_refusal_names_the_questions(door: Any, session: Any) -> None:
    agent, result = halted(session, door)
    with pytest.raises(InvalidPromptError, match="interruptResponse") as caught:
        door(agent, "a prompt")
    assert all("sure" in str(caught.value) for _ in result.interrupts)


def test_nothing_shows_the_questions_again(door: Any, session: Any) -> None:
    agent, result = halted(session, door)
    open_ids = [question.id for question in result.interrupts]
    if door.shows_events:
        assert list(agent.stream()) == []
    else:
        again = door(agent)
        assert again.stop_reason == "interrupt"
        assert [question.id for question in again.interrupts] == open_ids
    assert [question.id for question in session.agent().interrupts] == open_ids
    assert len(session.model.requests) == 1


def test_answers_when_nothing_is_open(door: Any, watched: Any) -> None:
    agent = agent_of("one")
    heard = watched(agent)
    spellings: list[Any] = [[response("any", "y")], Command(resume="y"), Command(resume={"a" * 32: "y"})]
    for given in spellings:
        with pytest.raises(NoPendingInterruptError):
            door(agent, given)
    assert heard == []
    assert str(door(agent, "hi")) == "one\n"


def test_answers_mixed_with_something_else(door: Any, session: Any) -> None:
    agent, result = halted(session, door)
    mixed = [response(result.interrupts[0], "y"), {"text": "and by the way"}]
    with pytest.raises(InvalidPromptError, match="and by the way"):
        door(agent, mixed)
    with pytest.raises(InvalidPromptError, match="and by the way"):
        door(agent_of("one"), mixed)


@pytest.mark.parametrize(
    "block",
    [
        {"interruptResponse": None},
        {"interruptResponse": "y"},
        {"interruptResponse": {"response": "y"}},
        {"interruptResponse": {"interruptId": 5, "response": "y"}},
        {"interruptResponse": {"interruptId": "i"}},
    ],
    ids=short,
)
def test_a_malformed_answer(block: Any, door: Any) -> None:
    agent = agent_of(CALLS, "done", tools=[add], hooks=[ask])
    door(agent, "go")
    with pytest.raises((TypeError, ValueError)):
        door(agent, [block])
    assert len(agent.interrupts) == 2


def test_an_unknown_question(door: Any, session: Any) -> None:
    agent, result = halted(session, door)
    with pytest.raises(UnknownInterruptError, match="f" * 32):
        door(agent, [response("f" * 32, "y")])
    with pytest.raises(UnknownInterruptError):
        door(agent, [response(result.interrupts[0], "y"), response("f" * 32, "y")])
    # Nothing of it was recorded.
    assert len(session.agent().interrupts) == 2


def test_one_answer_for_two_questions(door: Any, session: Any) -> None:
    agent, _ = halted(session, door)
    with pytest.raises(AmbiguousResumeError):
        door(agent, Command(resume="y"))
    assert len(session.agent().interrupts) == 2


@pytest.mark.parametrize("answer", [object(), {1, 2}, b"bytes", print, [object()], {"k": {1}}], ids=short)
def test_an_answer_that_cannot_be_written_as_json(answer: Any, door: Any, watched: Any) -> None:
    agent = agent_of(CALLS, "done", tools=[add], hooks=[ask])
    result = door(agent, "go")
    heard = watched(agent)
    spellings: list[Any] = [
        [response(result.interrupts[0], answer)],
        Command(resume={result.interrupts[0].id: answer}),
    ]
    for given in spellings:
        with pytest.raises(UnserializableStateError, match=result.interrupts[0].id) as caught:
            door(agent, given)
        assert isinstance(caught.value, TypeError)
    assert heard == [] and len(agent.interrupts) == 2


@pytest.mark.parametrize("answer", [None, False, 0, "", [], {}, "n", 1.5, {"k": [1, None]}], ids=short)
def test_any_json_is_an_answer(answer: Any, door: Any, session: Any) -> None:
    agent, result = halted(session, door)
    done = door(agent, [response(question, answer) for question in result.interrupts])
    assert str(done) == "done\n"
    shown = [block["toolResult"]["content"][0]["text"] for block in agent.messages[2]["content"]]
    assert shown == [f"no: {answer!r}"] * 2


def test_the_same_answer_again_and_another_one(door: Any, session: Any) -> None:
    agent, result = halted(session, door)
    first, second = result.interrupts
    partly = door(agent, [response(first, "y")])
    assert partly.stop_reason == "interrupt" and [q.id for q in partly.interrupts] == [second.id]
    if not door.shows_events:
        again = door(session.agent(), [response(first, "y")])
        assert [question.id for question in again.interrupts] == [second.id]
    with pytest.raises(AlreadyAnsweredError):
        door(session.agent(), [response(first, "n")])
    assert str(door(session.agent(), [response(second, "y")])) == "done\n"
    assert len(session.model.requests) == 2


# --- Options --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"limits": 5}, "limits"),
        ({"limits": {"turns": 0}}, "turns"),
        ({"limits": {"turns": True}}, "turns"),
        ({"limits": {"turns": "5"}}, "turns"),
        ({"limits": {"calls": 5}}, "calls"),
        ({"structured_output_model": dict}, "pydantic"),
        ({"structured_output_model": 5}, "pydantic"),
        ({"invocation_state": 5}, "invocation_state"),
        ({"cancel_signal": 5}, "cancel_signal"),
        ({"callback_handler": 5}, "callback_handler"),
    ],
)
def test_options_of_a_wrong_type(options: dict[str, Any], says: str, door: Any, watched: Any) -> None:
    agent = agent_of("one")
    heard = watched(agent)
    with pytest.raises(TypeError, match=says):
        door(agent, "hi", **options)
    assert heard == [] and agent.messages == []
    assert str(door(agent, "hi")) == "one\n"


# --- What a user puts into the conversation ---------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [5, "text", {"role": "user"}, {"content": []}, {"role": "user", "content": "x"}]
)
def test_what_is_no_message_in_the_conversation(bad: Any, door: Any) -> None:
    agent = agent_of("one", "two")
    door(agent, "hi")
    agent.messages.append(bad)
    with pytest.raises(ValueError, match="no message"):
        door(agent, "more")
    agent.messages.pop()
    assert str(door(agent, "more")) == "two\n"


def test_a_call_without_a_result_put_into_the_conversation(door: Any) -> None:
    """It gets one before the next message: no model accepts it otherwise."""
    agent = agent_of("one")
    agent.messages.append({"role": "user", "content": [{"text": "a"}]})
    agent.messages.append(
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "add", "input": {}}}]}
    )
    assert str(door(agent, "hi")) == "one\n"
    (result,) = agent.messages[2]["content"]
    assert result["toolResult"]["toolUseId"] == "t" and result["toolResult"]["status"] == "error"
    assert agent.messages[3]["content"] == [{"text": "hi"}]


def test_a_turn_that_failed_goes_on_and_a_new_prompt_leaves_it(door: Any, session: Any) -> None:
    agent = session.agent(ConnectionError("lost"), "one", ConnectionError("lost"), "two", tools=[add])
    with pytest.raises(ConnectionError):
        door(agent, "first")
    assert str(door(session.agent())) == "one\n"
    with pytest.raises(ConnectionError):
        door(session.agent(), "second")
    assert str(door(session.agent(), "third")) == "two\n"
    texts = [message["content"][0].get("text") for message in session.agent().messages]
    assert texts == ["first", "one", "second", "third", "two"]


def test_a_refused_call_is_not_heard_by_the_typed_stream() -> None:
    agent = agent_of("one")
    with pytest.raises(InvalidPromptError):
        next(iter(agent.stream(5)))  # type: ignore[arg-type]
    assert names(agent.stream("hi"))[0] == "BeforeInvocation"
