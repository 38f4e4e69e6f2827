"""What an agent may be given: a prompt, answers, or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from graphkit.engine.resume import answers_in, response_blocks
from graphkit.errors import InvalidPromptError, UnserializableStateError
from graphkit.types import Command, Interrupt
from graphkit_prebuilt.content import (
    ContentBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    block_of,
)
from graphkit_prebuilt.conversation import copied

__all__ = ["AgentInput", "Given", "read_prompt", "refused"]

AgentInput: TypeAlias = (
    str
    | Sequence[Mapping[str, object]]  # of ContentBlock, Message or InterruptResponseContent
    | Sequence[Mapping[str, object] | TextBlock | ToolResultBlock]
    | Command[Any]
    | None
)
"""What an agent may be called with: see `read_prompt`."""

KINDS: Final = frozenset(ContentBlock.__optional_keys__)
"""The kinds of blocks that a prompt may have."""

NO_KINDS: Final = frozenset[Any]()
TEXTS: Final = frozenset({"text"})

ANSWERS: Final = "interruptResponse"


class Given(NamedTuple):
    """A prompt as it was read.

    `kind` is "messages" (`messages` are new ones), "answers" (`answers` is what the graph is run with), or "nothing":
    go on. `empty` says that nothing was given as an empty list, which is an error while questions are open.
    """

    kind: Literal["messages", "answers", "nothing"]
    messages: list[Message] = []  # noqa: RUF012 - of a NamedTuple; nobody changes it
    answers: list[dict[str, Any]] | Command[Any] | None = None
    empty: bool = False


def read_prompt(given: Any) -> Given:
    """What an agent was given: text, a list of content blocks, a list of messages, a list of `interruptResponse`
    blocks, `Command(resume=…)`, or None.

    Raises `InvalidPromptError` (both a `TypeError` and a `ValueError`) for anything else, and
    `UnserializableStateError` for an answer that `json.dumps` does not take. Messages are copied.
    """
    if isinstance(given, str):
        return Given("messages", [{"role": "user", "content": [{"text": given}]}])
    if given is None:
        return Given("nothing")
    if isinstance(given, Command):
        return _command(given)
    if not isinstance(given, list):
        remedy = "; give a list with it" if isinstance(given, dict) else ""
        raise InvalidPromptError(
            f"{_shown(given)} is no prompt: an agent takes text, a list of content blocks or of messages, the "
            f"answers to its questions, or None to go on{remedy}"
        )
    if not given:
        return Given("nothing", empty=True)
    plain = {dict}.issuperset(map(type, given))
    kinds: Set[Any] = NO_KINDS.union(*(given if plain else map(_kinds, given)))
    if plain and kinds == TEXTS:  # what orchestrators give their members, and most others too
        texts = [one.get("text") for one in given]
        if {str}.issuperset(map(type, texts)):
            return Given("messages", [{"role": "user", "content": [{"text": text} for text in texts]}])
    if ANSWERS in kinds:
        return _answers(given)
    if "role" in kinds:
        return Given("messages", [_message(one) for one in given])
    return Given("messages", [{"role": "user", "content": [_block(one) for one in given]}])


def refused(questions: Sequence[Interrupt]) -> InvalidPromptError:
    """The error for a prompt that comes while these questions are open."""
    return InvalidPromptError(
        f"this thread waits for answers and takes no prompt before it has them: {_listed(questions)}. Answer with a "
        f"list of {{'interruptResponse': {{'interruptId': id, 'response': …}}}} blocks or with "
        f"Command(resume={{id: …}}), or give None to have the questions again"
    )


def _listed(questions: Iterable[Interrupt]) -> str:
    return ", ".join(f"{question.id} ({question.name or question.value!r:.80})" for question in questions)


def _command(command: Command[Any]) -> Given:
    try:
        answers = answers_in(command)
    except ValueError as error:
        raise InvalidPromptError(str(error)) from error
    if answers is None:
        raise InvalidPromptError(f"{_shown(command)} answers nothing: give Command(resume=…)")
    for question, answer in {"": answers.value}.items() if answers.by_id is None else answers.by_id.items():
        _check_answer(question, answer)
    return Given("answers", answers=command)


def _answers(given: list[Any]) -> Given:
    others = [one for one in given if _kinds(one) != {ANSWERS}]
    if others:
        raise InvalidPromptError(
            f"answers to questions cannot be mixed with other content: {', '.join(map(_shown, others))}. Give the "
            f"answers alone, then the prompt"
        )
    try:
        found = response_blocks(given)
    except ValueError as error:
        raise InvalidPromptError(str(error)) from error
    for question, answer in (found or {}).items():
        _check_answer(question, answer)
    return Given("answers", answers=given)


def _check_answer(question: str, answer: Any) -> None:
    try:
        json.dumps(answer)
    except (TypeError, ValueError, RecursionError) as error:
        which = f"question {question!r}" if question else "the question"
        raise UnserializableStateError(
            f"the answer to {which} cannot be written as JSON: {error}; the question stays open"
        ) from error


def _message(given: Any) -> Message:
    if not isinstance(given, Mapping) or "role" not in given:
        raise InvalidPromptError(f"messages cannot be mixed with other content: {_shown(given)}")
    role, content = given["role"], given.get("content")
    if role not in ("user", "assistant"):
        raise InvalidPromptError(
            f"{_shown(given)}: the role of a message is 'user' or 'assistant', not {role!r:.80}"
        )
    if not isinstance(content, list) or not all(isinstance(block, Mapping) for block in content):
        raise InvalidPromptError(f"{_shown(given)}: the content of a message is a list of content blocks")
    if any(ANSWERS in block for block in content):
        raise InvalidPromptError(
            f"{_shown(given)}: answers to questions are given by themselves, as a list of blocks without a message"
        )
    message: Message = copied(given)
    return message


def _block(given: Any) -> ContentBlock:
    if isinstance(given, (TextBlock, ToolResultBlock)):
        return block_of(given)
    kinds = _kinds(given)
    if not kinds or not kinds <= KINDS:
        raise InvalidPromptError(
            f"{_shown(given)} is no content block: it needs one of the keys {', '.join(sorted(KINDS))}"
        )
    if "text" in kinds and not isinstance(given["text"], str):
        raise InvalidPromptError(
            f"{_shown(given)}: the text of a block is text, not {type(given['text']).__name__}"
        )
    block: ContentBlock = copied(given)
    return block


def _kinds(one: Any) -> Set[Any]:
    """The keys of what may be a block; none of anything else."""
    return one.keys() if type(one) is dict or isinstance(one, Mapping) else NO_KINDS


def _shown(one: Any) -> str:
    return f"{one!r:.100} ({type(one).__name__})"
