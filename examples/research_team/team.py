"""The research team: who is in it, and who follows whom."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from script import TURNS

from graphkit import Agent, Send, interrupt, tool
from graphkit.checkpoint.base import BaseCheckpointSaver
from graphkit.models import Model, ScriptedModel
from graphkit.multiagent import Graph, GraphBuilder, MultiAgentState
from graphkit.session import SessionManager

LIBRARY = Path(__file__).with_name("library.txt")
ROUNDS = 5
"""How often the writer may be asked for another version."""


@tool
def search(words: str) -> str:
    """Look for passages in the library.

    Args:
        words: What they must contain.
    """
    passages = LIBRARY.read_text(encoding="utf-8").split("\n\n")
    found = [passage for passage in passages if words.lower() in passage.lower()]
    return "\n\n".join(found) or "There is nothing about it."


def assign(task: Any, state: MultiAgentState) -> list[Send]:
    """A researcher for each line of the plan; they work side by side."""
    plan = str(state.results["planner"]).strip()
    return [Send("researcher", line.strip("-• ")) for line in plan.splitlines() if line.strip()]


def editor(task: Any, state: MultiAgentState) -> str:
    """A person, who reads each version and says "ok", or what should be changed."""
    answer: str = interrupt({"draft": str(state.results["writer"]).strip()}, name="editor")
    return answer


def wants_changes(state: MultiAgentState) -> bool:
    return str(state.results["editor"]).strip().lower() != "ok"


def research_team(saver: BaseCheckpointSaver, report: str) -> Graph:
    """The team that works at one report; whoever makes it anew goes on where it was."""
    builder = GraphBuilder()
    builder.add_node(member("planner", "Name the topics to be looked up, one a line, nothing else."))
    builder.add_node(assign)
    builder.add_node(member("researcher", "Search the library for the topic; say what it knows.", [search]))
    builder.add_node(member("writer", "Write the report, a few lines, from what the researchers have found."))
    builder.add_node(editor)
    builder.add_edge("planner", "assign")
    builder.add_edge("researcher", "writer")
    builder.add_edge("writer", "editor")
    builder.add_edge("editor", "writer", wants_changes)
    builder.set_entry_point("planner")
    builder.set_max_node_executions(20 + 2 * ROUNDS)
    builder.set_session_manager(SessionManager(saver, report))
    return builder.build()


def member(name: str, task: str, tools: Any = ()) -> Agent:
    return Agent(model(name), name=name, system_prompt=task, tools=tools, callback_handler=None)


def model(name: str) -> Model | None:
    """None is the model that GRAPHKIT_MODEL names."""
    return None if "GRAPHKIT_MODEL" in os.environ else ScriptedModel([TURNS[name]], repeat=True)
