"""Safety 3, of teams: a process dies before and after statements and commits of three agents with one open question
each, in a graph or a swarm; another process goes on.

Nothing whose outcome was recorded happens again, in whatever agent: no model is asked whose answer is there, no tool
runs whose result is there, no question is asked that was answered.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import make_url

from graphkit import Agent, tool
from graphkit.engine import recording
from graphkit.hooks import BeforeToolCallEvent, HookableEvent
from graphkit.models import ScriptedModel, ToolCall
from graphkit.multiagent import GraphBuilder, MultiAgentBase, Swarm
from graphkit.session import SessionManager
from graphkit.types import StateSnapshot
from graphkit_prebuilt.models.scripted import ModelRequest
from graphkit_prebuilt.multiagent.request import TeamRequest
from tests.conftest import response
from tests.faults import When, Witness, die_at, fork_child, points
from tests.safety.conftest import Report
from tests.safety.figures import SCALE, chance, size
from tests.safety.forks import ENOUGH, Fork, rehearse
from tests.safety.scenes import COLOURS, effects, open_saver
from tests.safety.test_crash_points import moments

AGENTS = ("left", "right", "last")
"""In a graph the first two run in one superstep, the third one after both; in a swarm each hands over to the next."""
EFFECTS = tuple(f"{agent}.{effect}" for agent in AGENTS for effect in ("model0", "work", "model1"))
POINTS = size(9, 120)
"""About how many of some hundreds of points are taken."""


# --- The scene ----------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """What is played: "graph" or "swarm", in which colour, and whether every event is heard."""

    team: str
    colour: str
    heard: bool


class Scene:
    """The teams of one process. Each effect in one is noted with its thread before anything comes of it."""

    def __init__(self, database: str, kind: Kind, witness: Witness) -> None:
        # One task at a time, recorded at once: then every turn reaches the same points.
        recording.BATCH_DELAY = 0.0
        TeamRequest.config = property(one_by_one)  # type: ignore[method-assign, assignment]
        self.saver = open_saver(database)
        self.kind, self.witness = kind, witness

    def team(self, name: str) -> MultiAgentBase:
        """A fresh team on a thread."""
        agents = {agent: self.agent(name, agent) for agent in AGENTS}
        session = SessionManager(self.saver, name)
        team: MultiAgentBase
        if self.kind.team == "graph":
            builder = GraphBuilder()
            for agent in AGENTS:
                builder.add_node(agents[agent], agent, join="all" if agent == "last" else "any")
            for first in AGENTS[:2]:
                builder.set_entry_point(first)
                builder.add_edge(first, AGENTS[2])
            builder.set_session_manager(session)
            team = builder.build()
        else:
            team = Swarm(agents, session_manager=session)
        if self.kind.heard:  # every event, so that everything has something to do
            team.add_hook(lambda event: None, HookableEvent)
        return team

    def agent(self, name: str, agent: str) -> Agent:
        calls = [ToolCall("work", {}, id="work")]
        if self.kind.team == "swarm" and agent != AGENTS[-1]:
            following = AGENTS[AGENTS.index(agent) + 1]
            calls.append(ToolCall("handoff_to_agent", {"agent_name": following, "message": "go on"}))

        def answer(request: ModelRequest) -> Any:
            number = len(request.messages) // 2
            assert len(request.messages) == 1 + 2 * number, "the conversation has an open end"
            self.witness.note(f"{name} {agent}.model{number}")
            return f"{agent} is done" if number else calls

        def work() -> str:
            self.witness.note(f"{name} {agent}.work")
            return "worked"

        async def awork() -> str:
            return work()

        made = tool(name="work", description="Work.")(awork if self.kind.colour == "async" else work)
        return Agent(ScriptedModel([answer], repeat=True), tools=[made], hooks=[ask], callback_handler=None)

    def call(self, team: MultiAgentBase, given: Any) -> None:
        if self.kind.colour == "sync":
            team(given)
        else:
            asyncio.run(team.invoke_async(given))

    def finish(self, name: str) -> None:
        """Bring the turn to its end, wherever it is, with a fresh team for each call."""
        while (given := next_input(team := self.team(name))) is not None:
            self.call(team, given[0])


def one_by_one(request: TeamRequest) -> Any:
    return {"configurable": {"thread_id": request.thread_id}, "max_concurrency": 1}


def ask(event: BeforeToolCallEvent) -> None:
    if event.tool_use["name"] == "work":
        assert event.interrupt("sure", reason="work?") == "yes"


def snapshot_of(team: MultiAgentBase) -> StateSnapshot:
    snapshot = team.graph.get_state(team.thread().config, subgraphs=True)
    assert isinstance(snapshot, StateSnapshot)
    return snapshot


def next_input(team: MultiAgentBase) -> tuple[Any] | None:
    """What a client that knows nothing but the thread gives next; None at the end."""
    snapshot = snapshot_of(team)
    if snapshot.interrupts:
        return ([response(question, "yes") for question in snapshot.interrupts],)
    if snapshot.next:
        return (None,)
    return ("go",) if snapshot.metadata is None else None


# --- What is there ------------------------------------------------------------------------------------


def recorded(team: MultiAgentBase) -> set[str]:
    """The effects whose outcome is stored."""
    snapshot = snapshot_of(team)
    ended = {*snapshot.values.get("results", {}), *(task.name for task in snapshot.tasks if task.result)}
    found = {effect for effect in EFFECTS if effect.partition(".")[0] in ended}
    for task in snapshot.tasks:
        if isinstance(task.state, StateSnapshot):
            found |= {f"{task.name}.{effect}" for effect in _recorded_in(task.state)}
    return found


def _recorded_in(agent: StateSnapshot) -> set[str]:
    log = agent.values.get("messages", [])
    found = {f"model{number}" for number in range(sum(message["role"] == "assistant" for message in log))}
    blocks = [block for message in log for block in message["content"]]
    blocks += [task.result["messages"] for task in agent.tasks if task.result and task.name == "tools"]
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    return found | {"work" for result in results if result["toolUseId"] == "work"}


class View(NamedTuple):
    """A turn as it is seen from outside, without ids and times."""

    results: dict[str, tuple[str, str]]
    tokens: dict[str, int]
    order: list[str]
    history: list[tuple[int, str, tuple[str, ...]]]


def view(team: MultiAgentBase) -> View:
    state = team.state
    history = []
    for snapshot in team.graph.get_state_history(team.thread().config):
        assert snapshot.metadata is not None
        history.append((snapshot.metadata["step"], snapshot.metadata["source"], snapshot.next))
    results = {key: (result.status.value, str(result)) for key, result in state.results.items()}
    tokens = {key: result.accumulated_usage["totalTokens"] for key, result in state.results.items()}
    return View(results, tokens, [node.node_id for node in state.execution_order], history)


# --- The episodes -------------------------------------------------------------------------------------


class Found(NamedTuple):
    """What the process that went on found of a thread, and what it made of it."""

    recorded: set[str]
    repeated: set[str]
    view: View


class Episodes:
    """All episodes, each on a thread of its own. Lives in a nursery."""

    def __init__(self, database: str, kind: Kind, folder: str) -> None:
        self.database, self.kind = database, kind
        self.witness = Witness(Path(folder, "witness"))

    def scene(self) -> Scene:
        return Scene(self.database, self.kind, self.witness)

    def run(self, name: str) -> list[str]:
        scene = self.scene()
        return points(scene.saver.engine, lambda: scene.finish(name))

    def die(self, name: str, number: int, when: When) -> None:
        scene = self.scene()
        die_at(scene.saver.engine, number, when)
        scene.finish(name)

    def resume(self, names: list[str]) -> list[Found]:
        scene = self.scene()
        return [self.go_on(scene, name) for name in names]

    def go_on(self, scene: Scene, name: str) -> Found:
        done = recorded(scene.team(name))
        before = effects(self.witness).get(name, Counter())
        scene.finish(name)
        since = effects(self.witness).get(name, Counter()) - before
        return Found(done, done & since.keys(), view(scene.team(name)))

    def play(self) -> tuple[int, int]:
        """Die at the points and go on; how many points there are, and how many processes died."""
        found = Fork(self.run, "whole").result()
        episodes = {f"{when} {number}": (number, when) for number, when in chosen(len(found))}
        died = sum(Fork(self.die, name, *point).died() for name, point in episodes.items())
        whole, *resumed = Fork(self.resume, ["whole", *episodes]).result()
        seen = effects(self.witness)
        assert seen["whole"] == Counter(EFFECTS)
        assert whole.view.results == {name: ("completed", f"{name} is done\n") for name in AGENTS}
        for name, end in zip(episodes, resumed, strict=True):
            what = f"{name}, {found[episodes[name][0] - 1]!r}"
            assert not end.repeated, f"{what}: its outcome was recorded"
            assert end.view == whole.view, what
            assert not seen["whole"] - seen[name], what
            again = seen[name] - seen["whole"]
            assert again.total() <= 1, f"{what}: {again}"  # the one in flight
        assert len({len(end.recorded) for end in resumed}) > 4, "none died half way through an agent"
        return len(found), died


def chosen(count: int) -> list[tuple[int, When]]:
    """When to die: moments at even distances, in the long form from wherever chance begins."""
    everything = moments(count)
    step = len(everything) // POINTS
    return everything[chance("team").randrange(step) if SCALE else 0 :: step]


def take_a_turn(database: str, kind: Kind) -> None:
    scene = Scene(database, kind, Witness(os.devnull))
    scene.finish("warm")
    view(scene.team("warm"))


def play(database: str, kind: Kind, folder: str) -> tuple[int, int]:
    rehearse(take_a_turn, database, kind)
    return Episodes(database, kind, folder).play()


SCENES = [
    (database, Kind(team, colour, heard))
    for database in ("sqlite", "postgres")
    for team in ("graph", "swarm")
    for colour in COLOURS
    for heard in (False, True)
]


@pytest.mark.parametrize(
    ("database", "kind"),
    SCENES
    if SCALE
    else [("postgres", Kind("graph", "async", heard=True)), ("sqlite", Kind("swarm", "sync", heard=False))],
    ids=str,
    indirect=["database"],
)
def test_a_team_whose_process_dies_at_any_point_goes_on(
    database: str, kind: Kind, tmp_path: Path, reports: Report
) -> None:
    count, died = fork_child(play, database, kind, str(tmp_path)).result(ENOUGH)
    name = f"{kind.team} of three agents" + (", every event heard" if kind.heard else "")
    backend = make_url(database).get_backend_name()
    reports(
        "3 crash points", f"{name}, {backend}, {kind.colour}: {died} deaths at {count} points, {died} resumed"
    )
    assert died == len(chosen(count)) >= POINTS
