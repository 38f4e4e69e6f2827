"""What every test of the prebuilt agent may use: scripted agents on the test's saver, and real clients of a local
server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from graphkit.models.scripted import ScriptedModel
from graphkit.prebuilt import create_react_agent
from tests.agents.llm_server import Serve, serving
from tests.conftest import Graph, Saver

Agent = Callable[..., Graph]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    with serving(monkeypatch) as start:
        yield start


def agent_of(turns: Sequence[Any], tools: Any = (), **options: Any) -> Graph:
    """A `create_react_agent` that says these turns; its `model` is the scripted one."""
    return create_react_agent(ScriptedModel(list(turns)), tools, **options)


@pytest.fixture
def agent(saver: Saver) -> Agent:
    """`agent_of` on the test's saver."""

    def made(turns: Sequence[Any], tools: Any = (), **options: Any) -> Graph:
        return agent_of(turns, tools, **{"checkpointer": saver, **options})

    return made


def said(*texts: str) -> dict[str, Any]:
    """The input of a run: what a person says."""
    return {"messages": [{"role": "user", "content": text} for text in texts]}


def results(values: Any) -> list[str]:
    """The contents of the tools' messages, in their order."""
    return [message.content for message in values["messages"] if getattr(message, "type", None) == "tool"]
