"""What every test of agents may use: all doors to an agent, and fresh agents on one conversation.

A scenario is written once: `door` takes it through the five ways of calling an agent, `session` makes agents that find
each other's conversation in memory, on SQLite and on PostgreSQL, as another process would.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import pytest

from graphkit import Agent, AgentResult
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.hooks import AgentResultEvent, BaseHookEvent, HookEvent
from graphkit.models import ScriptedModel
from graphkit.session import SessionManager
from graphkit_checkpoint.live import LiveSaver
from tests.conftest import response

Watched: TypeAlias = list[BaseHookEvent]
Answers: TypeAlias = Callable[[AgentResult, Any], list[dict[str, Any]]]


class Door:
    """One way to call an agent; whichever it is, it gives the result."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, agent: Any, prompt: Any = None, **options: Any) -> AgentResult:
        """`agent` may also be an `AgentThread`."""
        if self.name == "call":
            result: AgentResult = agent(prompt, **options)
            return result
        if self.name == "stream":
            return self._of_events(agent.stream(prompt, **options))
        return asyncio.run(self._awaited(agent, prompt, options))

    @property
    def shows_events(self) -> bool:
        """Whether it gives events: nothing at all of a request in which nothing happens."""
        return self.name in ("stream", "astream")

    async def _awaited(self, agent: Any, prompt: Any, options: Mapping[str, Any]) -> AgentResult:
        if self.name == "invoke_async":
            result: AgentResult = await agent.invoke_async(prompt, **options)
            return result
        if self.name == "astream":
            return self._of_events([event async for event in agent.astream(prompt, **options)])
        shown = [each async for each in agent.stream_async(prompt, **options)]
        last: AgentResult = shown[-1]["result"]
        assert [list(each) for each in shown].count(["result"]) == 1
        return last

    def _of_events(self, events: Iterable[BaseHookEvent]) -> AgentResult:
        results = [event.result for event in events if isinstance(event, AgentResultEvent)]
        last: AgentResult = results[-1]
        return last


DOORS = ["call", "invoke_async", "stream", "astream", "stream_async"]


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Door:
    return Door(request.param)


def agent_of(*turns: Any, **options: Any) -> Agent:
    """An agent that says these turns, and prints nothing."""
    return Agent(**{"model": ScriptedModel(turns), "callback_handler": None, **options})


def script(agent: Agent) -> ScriptedModel:
    """The scripted model of an agent."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


class Session:
    """Makes agents that go on with one conversation, each with a saver of its own where there can be several."""

    def __init__(self, open_saver: Callable[[], Any]) -> None:
        self.open_saver = open_saver
        self.model = ScriptedModel([])
        self._options: dict[str, Any] = {}

    def agent(self, *turns: Any, **options: Any) -> Agent:
        """A fresh agent. Without turns the script of the one before goes on; options are those of the one before
        unless given."""
        if turns:
            self.model = ScriptedModel(turns)
        self._options |= options
        return agent_of(
            **{
                "model": self.model,
                "session_manager": SessionManager(self.open_saver(), "session"),
                **self._options,
            }
        )


SESSIONS = ["live", "memory", "sqlite", "postgres"]


@pytest.fixture(params=SESSIONS)
def session(request: pytest.FixtureRequest) -> Session:
    if request.param in ("live", "memory"):
        saver = LiveSaver() if request.param == "live" else InMemorySaver()
        return Session(lambda: saver)
    return Session(request.getfixturevalue(f"open_{request.param}"))


@pytest.fixture
def watched() -> Callable[[Agent], Watched]:
    """Collects every event of an agent, in order."""

    def watch(agent: Agent) -> Watched:
        heard: Watched = []
        agent.add_hook(heard.append, HookEvent)
        return heard

    return watch


def names(events: Iterable[BaseHookEvent]) -> list[str]:
    """The events' names without "Event"."""
    return [type(event).__name__.removesuffix("Event") for event in events]


@pytest.fixture
def answers() -> Answers:
    """The answers to all open questions of a result: one value for each, or one by name."""

    def answer(result: AgentResult, value: Any) -> list[dict[str, Any]]:
        assert result.stop_reason == "interrupt" and result.interrupts
        return [
            response(question, value[question.name] if isinstance(value, dict) else value)
            for question in result.interrupts
        ]

    return answer
