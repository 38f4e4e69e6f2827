"""What the members of the team say without a model, so that the example runs anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from graphkit.models import ModelRequest, ToolCall


def planner(request: ModelRequest) -> str:
    """The nouns of a question of the form "trains, ships or planes?"."""
    words = re.split(r",| or |\?", texts(request)[0])
    return "\n".join(word.strip().title() for word in words if word.strip())


def researcher(request: ModelRequest) -> Any:
    results = [
        block["toolResult"]["content"][0]["text"]
        for message in request.messages
        for block in message["content"]
        if "toolResult" in block
    ]
    return results[0] if results else ToolCall("search", {"words": texts(request)[0]})


def writer(request: ModelRequest) -> str:
    """All that was found; in its second version the first sentence of each."""
    found = [line.strip(" -").removeprefix("Agent: ") for line in "\n".join(texts(request)).splitlines()]
    facts = dict.fromkeys(
        line.split(": ", 1)[1] for line in found if re.match(r"(Trains|Ships|Planes): ", line)
    )
    shorter = any(message["role"] == "assistant" for message in request.messages)
    return "\n".join(fact.split(". ")[0].rstrip(".") + "." if shorter else fact for fact in facts)


TURNS: Mapping[str, Callable[[ModelRequest], Any]] = {
    "planner": planner,
    "researcher": researcher,
    "writer": writer,
}


def texts(request: ModelRequest) -> list[str]:
    """What was said to a member, in order."""
    return [
        block["text"]
        for message in request.messages
        if message["role"] == "user"
        for block in message["content"]
        if "text" in block
    ]
