"""What the samples of the seeds stand on: a scripted model for agents that are made without one, and typed answers."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from graphkit.agent import Agent, AgentResult
from graphkit.models.scripted import ScriptedModel
from graphkit.session import FileSessionManager
from tests.agents.conftest import DOORS, Door


class Typed:
    """A person at the keyboard, who gives these answers and remembers what was asked."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.asked: list[str] = []

    def __call__(self, prompt: str = "") -> str:
        self.asked.append(prompt)
        return self.answers.pop(0)


@pytest.fixture
def typed_in(monkeypatch: pytest.MonkeyPatch) -> Typed:
    typed = Typed()
    monkeypatch.setattr("builtins.input", typed)
    return typed


# --- Every door, with and without storage -----------------------------------------------------------------


def responses(result: AgentResult, answer: Any) -> list[Any]:
    """The answer to every question of a result: one for all, by name (a mapping), or a function of the question."""

    def of(interrupt: Any) -> Any:
        if callable(answer):
            return answer(interrupt)
        return answer[interrupt.name] if isinstance(answer, Mapping) else answer

    return [
        {"interruptResponse": {"interruptId": interrupt.id, "response": of(interrupt)}}
        for interrupt in result.interrupts or []
    ]


class Scene:
    """One conversation through one door: on one agent object, or on a fresh one for each request, with a session."""

    def __init__(self, door: str, storage: Path | None, turns: Any, options: dict[str, Any]) -> None:
        self.model = ScriptedModel(turns, per_thread=True)
        self.agent: Agent
        self._door = Door(door)
        self._storage = storage
        self._options = options
        self._renew()

    def ask(self, prompt: Any) -> AgentResult:
        if self._storage is not None:
            self._renew()
        return self._door(self.agent, prompt)

    def answer(self, result: AgentResult, answer: Any) -> AgentResult:
        return self.ask(responses(result, answer))

    @property
    def results(self) -> list[Any]:
        """(status, text) of every tool result in the conversation, in its order."""
        return [
            (block["toolResult"]["status"], block["toolResult"]["content"][0]["text"])
            for message in self.agent.messages
            for block in message["content"]
            if "toolResult" in block
        ]

    def _renew(self) -> None:
        options = {"callback_handler": None, **self._options}
        if self._storage is not None:
            options["session_manager"] = FileSessionManager("s", str(self._storage))
        self.agent = Agent(self.model, **options)


Play = Callable[..., Scene]


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(params=["object", "session"])
def play(request: pytest.FixtureRequest, door: str, tmp_path: Path) -> Play:
    """Begins a `Scene` of these turns."""

    def begin(*turns: Any, **options: Any) -> Scene:
        return Scene(door, tmp_path / "sessions" if request.param == "session" else None, turns, options)

    return begin


# --- Samples that call `agent(...)` themselves ------------------------------------------------------------


@pytest.fixture(params=["call", "invoke_async"])
def either_colour(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, model: ScriptedModel
) -> None:
    """Runs a test twice: as it is, and with `agent(...)` going through `invoke_async`. The model gives one turn for
    each call."""
    model.per_thread = False
    if request.param == "invoke_async":

        def call(agent: Agent, *args: Any, **kwargs: Any) -> Any:
            return asyncio.run(agent.invoke_async(*args, **kwargs))

        monkeypatch.setattr(Agent, "__call__", call)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """The model of agents that are made without one; its `turns` are the test's to set, one for each call."""
    model = ScriptedModel([])
    Agent.default_model = model
    yield model
    Agent.default_model = None


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Lets `asyncio.sleep()` return at once; the list has the seconds."""
    seconds: list[float] = []
    sleep = asyncio.sleep

    async def noted(delay: float, result: Any = None) -> Any:
        seconds.append(delay)
        return await sleep(0, result)

    monkeypatch.setattr(asyncio, "sleep", noted)
    return seconds


# --- Samples as they stand in the documents, moved over by the command ---------------------------------------


SAMPLES = Path(__file__).with_name("samples")
"""The Python samples of the documents, with the imports of LangGraph and Strands; those that build on each other are
one file. What a document left out around them is its test's."""


class Sample:
    """A sample after `python -m graphkit.migrate --write`; `names` are its globals."""

    def __init__(self, path: Path) -> None:
        self.names: dict[str, Any] = {"__name__": path.stem}
        self._path = path

    def __call__(self, replaced: tuple[str, str] = ("", ""), **around: Any) -> dict[str, Any]:
        """Runs it among the names of what stands around it; what it has defined comes with them."""
        source = self._path.read_text().replace(*replaced)
        assert not re.search(r"^\s*(from|import) (langgraph|strands)\b", source, re.M)
        self.names |= around
        exec(compile(source, self._path, "exec"), self.names)
        return self.names

    def later(self, name: str) -> Callable[..., Any]:
        """A function that it will define."""
        return lambda *args: self.names[name](*args)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all samples after the command."""
    pytest.importorskip("libcst")
    folder = tmp_path_factory.mktemp("samples")
    for sample in SAMPLES.iterdir():
        (folder / f"{sample.stem}.py").write_text(sample.read_text())
    command = [sys.executable, "-m", "graphkit.migrate", str(folder), "--write"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def sample(request: pytest.FixtureRequest, migrated: Path) -> Iterator[Sample]:
    """The sample that the test is named after."""
    name = request.function.__name__.removeprefix("test_")
    sample = Sample(migrated / f"{name}.py")
    yield sample
    sample.names.clear()  # what its agents have opened is closed with them, not when garbage is collected
