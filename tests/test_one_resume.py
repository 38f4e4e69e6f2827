"""One resume, two spellings (N2): every way of answering does the same, whatever it is that waits, and is stored the
same way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from graphkit import Agent, interrupt
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.func import entrypoint
from graphkit.hooks import BeforeModelCallEvent, BeforeNodeCallEvent
from graphkit.models import ScriptedModel
from graphkit.multiagent import Graph, Swarm
from graphkit.session import SessionManager
from graphkit.types import Interrupt
from tests.conftest import Saver, Spelling, graph_of

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Talk:
    """Something that asks "first", then "second", each time it is called anew from storage."""

    def __init__(self, kind: str, colour: str, saver: Saver) -> None:
        self.told: list[Any] = []
        self._sync = colour == "sync"
        self._saver = saver
        self._play: Callable[[Any], list[Interrupt]] = getattr(self, f"_{kind}")

    def __call__(self, given: Any) -> list[Interrupt]:
        """Goes on with what is given; the questions that are open then."""
        return self._play(given)

    def _ask(self, ask: Callable[[str], Any]) -> list[Any]:
        self.told[:] = [ask("first"), ask("second")]
        return self.told

    def _invoke(self, graph: Any, given: Any) -> list[Interrupt]:
        result = graph.invoke(given, CONFIG) if self._sync else asyncio.run(graph.ainvoke(given, CONFIG))
        return list(result.get("__interrupt__", []))

    def _graph(self, given: Any) -> list[Interrupt]:
        node = lambda state: {"log": self._ask(interrupt)}  # noqa: E731
        return self._invoke(
            graph_of({"node": node}, saver=self._saver), {"log": []} if given == "go" else given
        )

    def _workflow(self, given: Any) -> list[Interrupt]:
        @entrypoint(checkpointer=self._saver)
        def workflow(topic: str) -> dict[str, Any]:
            return {"told": self._ask(interrupt)}

        return self._invoke(workflow, given)

    def _agent(self, given: Any) -> list[Interrupt]:
        def hook(event: BeforeModelCallEvent) -> None:
            self._ask(event.interrupt)

        return self._call(self._member(hooks=[hook], session_manager=SessionManager(self._saver, "t")), given)

    def _teams_graph(self, given: Any) -> list[Interrupt]:
        return self._call(Graph([self._member()], **self._of_a_team()), given)

    def _swarm(self, given: Any) -> list[Interrupt]:
        return self._call(Swarm([self._member()], **self._of_a_team()), given)

    def _member(self, **options: Any) -> Agent:
        return Agent(ScriptedModel(["done"]), name="a", callback_handler=None, **options)

    def _of_a_team(self) -> dict[str, Any]:
        def hook(event: BeforeNodeCallEvent) -> None:
            self._ask(event.interrupt)

        return {"hooks": [hook], "session_manager": SessionManager(self._saver, "t")}

    def _call(self, agent: Any, given: Any) -> list[Interrupt]:
        result = agent(given) if self._sync else asyncio.run(agent.invoke_async(given))
        return list(result.interrupts or ())


def pending(saver: Saver) -> list[tuple[str, Any]]:
    """What is recorded beside the latest checkpoint of every thread, without the ids of its tasks."""
    return [
        (channel, value)
        for thread in saver.thread_ids()
        for found in [saver.get_tuple({"configurable": {"thread_id": thread}})]
        for _, channel, value in found.pending_writes
        if channel == "__resume__"
    ]


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("kind", ["graph", "workflow", "agent", "teams_graph", "swarm"])
def test_every_spelling_answers_whatever_waits_and_is_stored_the_same_way(
    kind: str, colour: str, spell: Spelling
) -> None:
    saver = InMemorySaver()
    talk = Talk(kind, colour, saver)
    (first,) = talk("go")
    (second,) = talk(spell(first, {"all": [1, None]}))
    assert first.id != second.id
    assert pending(saver) == [("__resume__", [{"all": [1, None]}])]
    assert talk(spell(second, False)) == []
    assert talk.told == [{"all": [1, None]}, False]
