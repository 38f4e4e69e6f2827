"""The acceptance story of the plugin request (S164, N12): interrupts, and the rest of the loop, as plugins.

`interrupt_plugin` is an interrupt system of about 60 lines on the public API. The tests of rows S1 to S27 that the
interrupts of the library have to pass (tests/seeds/test_interrupt_rules.py) are run here once more, with that plugin
in place of the library's own interrupts: sync and async, on one agent object and with a fresh one for each request.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphkit import Agent, AgentResult, tool
from graphkit.agent import (
    ModelRetryStrategy,
    NullConversationManager,
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from graphkit.errors import ContextWindowOverflowException, ModelThrottledException
from graphkit.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AgentInitializedEvent,
    BeforeInvocationEvent,
    BeforeToolCallEvent,
)
from graphkit.models import ScriptedModel
from graphkit.models.scripted import ToolCall
from graphkit.plugins import Plugin, hook
from graphkit.session import FileSessionManager
from graphkit_prebuilt.hooks.event import AsksMixin
from tests.agents import interrupt_plugin
from tests.agents.conftest import Session, agent_of, script
from tests.agents.interrupt_plugin import Interrupts
from tests.conftest import response
from tests.seeds import test_interrupt_rules as rules
from tests.seeds.conftest import Play, Scene, slept

tools, slept = rules.tools, slept
globals().update(
    {
        name: test
        for name, test in vars(rules).items()
        if (row := re.match(r"test_s(\d+)_", name)) is not None and int(row[1]) <= 27
    }
)


@pytest.fixture(params=["call", "invoke_async"])
def door(request: pytest.FixtureRequest) -> str:
    """A resume has these two; that a halt comes through every door is shown in test_halting."""
    found: str = request.param
    return found


class PluginScene(Scene):
    """A conversation in which what asks, asks the plugin, and answers resume it."""

    def ask(self, prompt: Any) -> AgentResult:
        if not isinstance(prompt, list):
            return self._shown(super().ask(prompt))
        if self._storage is not None:
            self._renew()
        if self._door.name == "call":
            return self._shown(self.agent.resume("interrupts", prompt))
        return self._shown(asyncio.run(self.agent.resume_async("interrupts", prompt)))

    def _shown(self, result: AgentResult) -> AgentResult:
        assert result.interrupts is None
        return replace(result, interrupts=Interrupts().questions(result) or None)


@pytest.fixture(params=["object", "session"])
def play(request: pytest.FixtureRequest, door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Begins a `PluginScene` of these turns."""

    def ask(asking: Any, name: str, reason: Any = None) -> Any:
        return asking.agent.plugins["interrupts"].ask(asking, name, reason)

    def begin(*turns: Any, **options: Any) -> Scene:
        storage = tmp_path / "sessions" if request.param == "session" else None
        return PluginScene(door, storage, turns, {**options, "plugins": [Interrupts()]})

    # The rules ask with `event.interrupt()`: the spelling stays, what is behind it is the plugin.
    monkeypatch.setattr(AsksMixin, "interrupt", ask)
    return begin


def test_all_27_rows_are_here() -> None:
    rows = {int(found[1]) for name in globals() if (found := re.match(r"test_s(\d+)_", name))}
    assert rows == set(range(1, 28))


def test_the_interrupt_plugin_is_about_60_lines_on_the_public_api() -> None:
    source = Path(interrupt_plugin.__file__).read_text()
    lines = [
        line for line in source.splitlines() if line.strip() and not line.lstrip().startswith(('"""', "#"))
    ]
    assert len(lines) <= 60
    imported = [node.module or "" for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    ours = {name for name in imported if name.split(".")[0].startswith("graphkit")}
    assert ours == {"graphkit", "graphkit.errors", "graphkit.plugins", "graphkit.types"}
    tree = ast.walk(ast.parse(source))
    private = [node.attr for node in tree if isinstance(node, ast.Attribute) and node.attr.startswith("_")]
    assert set(private) <= {"_asked", "__name__"}


# --- One kind of plugin -----------------------------------------------------------------------------------


class AsPlugin(Plugin):
    """Makes a plugin of a hook provider."""

    def __init__(self, name: str, provider: Any) -> None:
        self.name = name
        self.provider = provider

    def init_agent(self, agent: Agent) -> None:
        self.provider.register_hooks(agent.hooks)


MANAGERS: list[Any] = [
    lambda: SlidingWindowConversationManager(window_size=4),
    lambda: SummarizingConversationManager(
        preserve_recent_messages=2,
        summarization_agent=Agent(ScriptedModel(["short"], repeat=True), callback_handler=None),
    ),
]


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_conversation_manager_is_a_plugin(manager: Any) -> None:
    def played(**options: Any) -> Any:
        overflow = ContextWindowOverflowException("too long")
        agent = agent_of("one", "two", "three", overflow, "four", **options)
        for prompt in ("a", "b", "c", "d"):
            agent(prompt)
        return agent.messages, [request.messages for request in script(agent).requests]

    as_option = played(conversation_manager=manager())
    as_plugin = played(
        conversation_manager=NullConversationManager(), plugins=[AsPlugin("manager", manager())]
    )
    assert as_plugin == as_option
    assert len(as_option[0]) < 8


class Window(Plugin):
    """A conversation manager written as a plugin: drops the oldest exchange when the model cannot read them all."""

    name = "window"
    state_type = int

    @hook
    def reduce(self, event: AfterModelCallEvent) -> None:
        if isinstance(event.exception, ContextWindowOverflowException) and len(event.agent.messages) > 1:
            del event.agent.messages[:2]
            dropped = event.agent.get_plugin_state(self.name)
            event.agent.set_plugin_state(self.name, dropped + 2)
            event.retry = True


def test_a_plugin_manages_the_conversation(session: Session) -> None:
    overflow = ContextWindowOverflowException("too long")
    turns = ["one", "two", overflow, overflow, "three"]
    options = {"plugins": [Window()], "conversation_manager": NullConversationManager()}
    for prompt in ("a", "b", "c"):
        session.agent(*turns, **options)(prompt) if prompt == "a" else session.agent()(prompt)
    agent = session.agent()
    assert [message["content"][0]["text"] for message in agent.messages] == ["c", "three"]
    assert agent.get_plugin_state("window") == 4


def test_a_retry_strategy_is_a_plugin(slept: list[float]) -> None:
    def played(**options: Any) -> str:
        throttled = ModelThrottledException("slow down")
        return str(agent_of(throttled, throttled, "done", **options)("go"))

    strategy = AsPlugin("retry", ModelRetryStrategy(max_attempts=3, initial_delay=1, max_delay=2))
    assert played(retry_strategy=None, plugins=[strategy]) == played() == "done\n"
    assert len(slept) == 4


class Sessions(Plugin):
    """A session manager as a plugin: what is said and set is in a file, and a new agent goes on from there."""

    name = "sessions"

    def __init__(self, path: Path) -> None:
        self.path = path

    @hook
    def restore(self, event: AgentInitializedEvent) -> None:
        if self.path.exists():
            kept = json.loads(self.path.read_text())
            event.agent.messages, event.agent.state = kept["messages"], kept["state"]

    @hook
    def save(self, event: AfterInvocationEvent) -> None:
        kept = {"messages": event.agent.messages, "state": event.agent.state.get()}
        self.path.write_text(json.dumps(kept))


def test_a_session_manager_is_a_plugin(tmp_path: Path) -> None:
    def remember(event: BeforeInvocationEvent) -> None:
        event.agent.state.set("turns", (event.agent.state.get("turns") or 0) + 1)

    def played(**options: Any) -> Any:
        agent = agent_of("one", hooks=[remember], **options)
        agent("a")
        later = agent_of("two", hooks=[remember], **options)
        later("b")
        return later.messages, later.state.get(), [request.messages for request in script(later).requests]

    as_plugin = played(plugins=[Sessions(tmp_path / "session.json")])
    as_option = played(session_manager=FileSessionManager("s", str(tmp_path)))
    assert as_plugin == as_option
    assert (len(as_plugin[0]), as_plugin[1]) == (4, {"turns": 2})


def test_the_library_s_own_questions_have_a_plugin_for_a_face() -> None:
    """What asks, what is shown, and what goes on, in one plugin over `event.interrupt()`."""

    class Approval(Plugin):
        name = "approval"

        @hook
        def ask(self, event: BeforeToolCallEvent) -> None:
            if event.interrupt("approval", reason=event.tool_use["name"]) != "y":
                event.cancel_tool = "denied"

        @tool
        def work(self) -> str:
            """Work."""
            return "worked"

    agent = agent_of([ToolCall("work", {})], "done", plugins=[Approval()])
    (question,) = agent("go").interrupts or []
    assert (question.name, question.reason) == ("approval", "work")
    assert agent([response(question, "y")]).stop_reason == "end_turn"
