"""Safety 3, of agents: a process dies before and after every statement and commit of a conversation; another goes on.

Nothing whose outcome was recorded happens again: no tool runs whose result is there, no model is asked whose answer is
there. And whoever looks in between sees a conversation without open ends.
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
from graphkit.hooks import BeforeToolCallEvent, HookEvent
from graphkit.models import ScriptedModel, ToolCall
from graphkit.session import SessionManager
from graphkit_prebuilt.thread import AgentThread
from tests.conftest import response
from tests.faults import When, Witness, die_at, fork_child, points
from tests.safety.conftest import Report
from tests.safety.figures import SCALE
from tests.safety.forks import ENOUGH, Fork, rehearse
from tests.safety.scenes import COLOURS, effects, open_saver
from tests.safety.test_crash_points import moments

PROMPTS = ("go", "more")
TOOLS = ("alpha", "beta", "gamma")
ANSWERS: list[Any] = [[ToolCall(name, {}, id=name) for name in TOOLS], "done", "bye"]
"""What the model says: it calls three tools, of which a hook asks for the second; then once for each prompt."""
TOGETHER = (frozenset({"model0"}), frozenset(TOOLS), frozenset({"model1"}), frozenset({"model2"}))
"""What belongs to one superstep, and so may happen once more after a crash."""


# --- The scene ----------------------------------------------------------------------------------------


class Scene:
    """The agents of one process. Each effect of one is noted with its thread before anything comes of it."""

    def __init__(self, database: str, colour: str, heard: bool, witness: Witness) -> None:
        # One task at a time, recorded at once: then every conversation reaches the same points.
        recording.BATCH_DELAY = 0.0
        AgentThread.config = property(one_by_one)  # type: ignore[method-assign, assignment]
        self.saver = open_saver(database)
        self.colour, self.heard, self.witness = colour, heard, witness

    def agent(self, name: str) -> Agent:
        """A fresh agent on a thread."""
        agent = Agent(
            model=ScriptedModel([lambda request: self.answer(name, request.messages)], repeat=True),
            tools=[self.tool(name, tool_name) for tool_name in TOOLS],
            hooks=[ask_for_beta],
            session_manager=SessionManager(self.saver, name),
            callback_handler=None,
        )
        if self.heard:  # every event, so that every node has something to do
            agent.add_hook(lambda event: None, HookEvent)
        return agent

    def answer(self, name: str, messages: list[Any]) -> Any:
        number = said(messages)
        self.witness.note(f"{name} model{number}")
        return ANSWERS[number]

    def tool(self, name: str, tool_name: str) -> Any:
        def work() -> str:
            self.witness.note(f"{name} {tool_name}")
            return f"{tool_name} is done"

        async def awork() -> str:
            return work()

        return tool(name=tool_name, description="Work.")(awork if self.colour == "async" else work)

    def call(self, agent: Agent, prompt: Any) -> None:
        if self.colour == "sync":
            agent(prompt)
        else:
            asyncio.run(agent.invoke_async(prompt))

    def finish(self, name: str) -> None:
        """Bring the conversation to its end, wherever it is, with a fresh agent for each call."""
        while (given := next_prompt(agent := self.agent(name))) is not None:
            self.call(agent, given[0])


def one_by_one(thread: AgentThread) -> Any:
    return {"configurable": {"thread_id": thread.id}, "max_concurrency": 1}


def ask_for_beta(event: BeforeToolCallEvent) -> None:
    if event.tool_use["name"] == "beta":
        event.interrupt("approval", reason="beta?")


def said(messages: list[Any]) -> int:
    """How many answers of the model there are."""
    return sum(message["role"] == "assistant" for message in messages)


def next_prompt(agent: Agent) -> tuple[Any] | None:
    """What a client that knows nothing but the thread says next; None at the end."""
    snapshot = agent.graph.get_state(agent.thread().config)
    if snapshot.interrupts:
        return ([response(question, "yes") for question in snapshot.interrupts],)
    if snapshot.next:
        return (None,)
    prompts = [
        block for message in agent.messages for block in message["content"] if message["role"] == "user"
    ]
    count = sum("text" in block for block in prompts)
    return (PROMPTS[count],) if count < len(PROMPTS) else None


# --- What is there ------------------------------------------------------------------------------------


def recorded(agent: Agent) -> set[str]:
    """The effects whose outcome is stored."""
    snapshot = agent.graph.get_state(agent.thread().config)
    stored = snapshot.values.get("messages", [])
    found = {f"model{number}" for number in range(said(stored))}
    blocks = [block for message in stored for block in message["content"]]
    blocks += [task.result["messages"] for task in snapshot.tasks if task.result and task.name == "tools"]
    return found | {block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block}


def open_ends(messages: list[Any]) -> set[str]:
    """The calls without a result."""
    blocks = [block for message in messages for block in message["content"]]
    called = {block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block}
    return called - {block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block}


class View(NamedTuple):
    """A conversation as it is seen from outside, without ids and times."""

    messages: list[Any]
    history: list[tuple[int, str, tuple[str, ...]]]


def view(agent: Agent) -> View:
    messages = [{"role": message["role"], "content": message["content"]} for message in agent.messages]
    history = []
    for snapshot in agent.graph.get_state_history(agent.thread().config):
        assert snapshot.metadata is not None
        history.append((snapshot.metadata["step"], snapshot.metadata["source"], snapshot.next))
    return View(messages, history)


# --- The episodes -------------------------------------------------------------------------------------


class Found(NamedTuple):
    """What the process that went on found of a thread, and what it made of it."""

    open_ends: set[str]
    repeated: set[str]
    view: View


class Episodes:
    """All episodes, each on a thread of its own. Lives in a nursery."""

    def __init__(self, database: str, colour: str, heard: bool, folder: str) -> None:
        self.database, self.colour, self.heard = database, colour, heard
        self.witness = Witness(Path(folder, "witness"))

    def scene(self) -> Scene:
        return Scene(self.database, self.colour, self.heard, self.witness)

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
        agent = scene.agent(name)
        done = recorded(agent)
        before = effects(self.witness).get(name, Counter())
        ends = open_ends(agent.messages)
        scene.finish(name)
        since = effects(self.witness).get(name, Counter()) - before
        return Found(ends, done & since.keys(), view(scene.agent(name)))

    def play(self) -> tuple[int, int]:
        """Die at every point and go on; how many points there are, and how many processes died."""
        found = Fork(self.run, "whole").result()
        episodes = {f"{when} {number}": (number, when) for number, when in moments(len(found))}
        died = sum(Fork(self.die, name, *point).died() for name, point in episodes.items())
        whole, *resumed = Fork(self.resume, ["whole", *episodes]).result()
        seen = effects(self.witness)
        assert seen["whole"] == Counter([*TOOLS, "model0", "model1", "model2"])
        assert len(whole.view.messages) == 6 and not open_ends(whole.view.messages)
        for name, end in zip(episodes, resumed, strict=True):
            what = f"{name}, {found[episodes[name][0] - 1]!r}"
            assert not end.open_ends, f"{what}: a call without a result"
            assert not end.repeated, f"{what}: its outcome was recorded"
            assert end.view == whole.view, what
            assert not seen["whole"] - seen[name], what
            again = seen[name] - seen["whole"]
            assert all(count == 1 for count in again.values()), f"{what}: {again}"
            assert any(again.keys() <= names for names in TOGETHER), f"{what}: {again}"
        return len(found), died


def hold_a_conversation(database: str, colour: str, heard: bool) -> None:
    scene = Scene(database, colour, heard, Witness(os.devnull))
    scene.finish("warm")
    view(scene.agent("warm"))


def play(database: str, colour: str, heard: bool, folder: str) -> tuple[int, int]:
    rehearse(hold_a_conversation, database, colour, heard)
    return Episodes(database, colour, heard, folder).play()


SCENES = [(colour, heard) for colour in COLOURS for heard in (False, True)]


@pytest.mark.parametrize(
    ("colour", "heard"), SCENES if SCALE else [("sync", False), ("async", True)], ids=repr
)
def test_a_conversation_whose_process_dies_at_any_point_goes_on(
    database: str, colour: str, heard: bool, tmp_path: Path, reports: Report
) -> None:
    kind = make_url(database).get_backend_name()
    if heard and kind == "postgresql" and not SCALE:
        pytest.skip("takes half a minute: `make chaos`")
    count, died = fork_child(play, database, colour, heard, str(tmp_path)).result(ENOUGH)
    name = "agent, every event heard" if heard else "agent"
    reports("3 crash points", f"{name}, {kind}, {colour}: {died} deaths at {count} points, {died} resumed")
    assert died == len(moments(count)) > 20
