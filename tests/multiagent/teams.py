"""What tests of orchestrators use: all doors to one, members that say what they are told, and their storage."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from graphkit import Agent
from graphkit.hooks import AgentResultEvent, BaseHookEvent, MultiAgentResultEvent
from graphkit.models import ScriptedModel
from graphkit.multiagent import MultiAgentResult, Status
from graphkit.session import SessionManager
from tests.agents.conftest import Door
from tests.conftest import response

RESULTS = (AgentResultEvent, MultiAgentResultEvent)


class TeamDoor(Door):
    """One way to call an orchestrator, or an agent; whichever it is, it gives the result."""

    def __call__(self, agent: Any, prompt: Any = None, **options: Any) -> Any:
        return super().__call__(agent, prompt, **options)

    def _of_events(self, events: Iterable[BaseHookEvent]) -> Any:
        return [event.result for event in events if isinstance(event, RESULTS)][-1]

    async def _awaited(self, agent: Any, prompt: Any, options: Mapping[str, Any]) -> Any:
        if self.name == "stream_async" and hasattr(agent, "nodes"):
            shown = [each async for each in agent.stream_async(prompt, **options)]
            assert [each["type"] for each in shown].count("multiagent_result") == 1
            return shown[-1]["result"]
        return await super()._awaited(agent, prompt, options)


class Scripts:
    """The models of a team by name; they outlive the agents that are made of them, as a provider does."""

    def __init__(self) -> None:
        self.models: dict[str, ScriptedModel] = {}

    def agent(self, name: str, /, *turns: Any, **options: Any) -> Agent:
        model = self.models.setdefault(name, ScriptedModel(turns))
        return Agent(model, callback_handler=None, **options)

    @property
    def calls(self) -> dict[str, int]:
        """How often each model was called."""
        return {name: len(model.requests) for name, model in self.models.items() if model.requests}

    def prompt(self, name: str, call: int = 0) -> list[str]:
        """The texts of the last message that a model was given."""
        return [block["text"] for block in self.models[name].requests[call].messages[-1]["content"]]


LONGER = (0.05, 0.5, 5.0)
"""Timeouts, of which a slow machine needs a later one for what shall end in time."""


class Storage:
    """Gives every orchestrator a saver of its own on the same storage, where there can be several."""

    def __init__(self, open_saver: Callable[[], Any]) -> None:
        self.open_saver = open_saver

    @property
    def session(self) -> SessionManager:
        return SessionManager(self.open_saver(), "session")


def answers(result: MultiAgentResult, value: Any = "y") -> list[dict[str, Any]]:
    """The same answer to all open questions of a result."""
    assert result.status is Status.INTERRUPTED and result.interrupts
    return [response(question, value) for question in result.interrupts]


def statuses(result: MultiAgentResult) -> dict[str, str]:
    """How each node ended, in the order of the results."""
    return {key: node.status.value for key, node in result.results.items()}


def order(result: MultiAgentResult) -> list[str]:
    return [node.node_id for node in result.execution_order]
