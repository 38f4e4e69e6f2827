"""Teams of any shape, with questions anywhere, answered in any order: everything happens once.

Agents with tools and with agents for tools, in swarms, graphs, and these in each other, are made up at random;
questions are asked before, in and after tools and before nodes. Each call answers some of those that are open, mostly
to a team made anew, as another process would. Whatever the shape: no model is asked twice for one turn, no tool runs
twice, an answered question is not asked again, and an open one stays open.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from graphkit import Agent, tool
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.hooks import AfterToolCallEvent, BeforeNodeCallEvent, BeforeToolCallEvent
from graphkit.models import ScriptedModel, ToolCall
from graphkit.multiagent import Graph, Swarm
from graphkit.session import SessionManager
from graphkit.types.tools import ToolContext
from graphkit_checkpoint.live import LiveSaver
from tests.conftest import response
from tests.multiagent.test_swarm import to

WHEN = ("", "before", "in", "after", "before and in")


@dataclass
class Call:
    """A call of the tool, which asks so; or of another agent."""

    id: str
    asks: str = ""
    agent: Plan | None = None
    keeps: bool = False


@dataclass
class Plan:
    """A member: an agent with the calls of its turns, or a team of `members`. `gated`: it is asked for before it."""

    kind: str
    name: str
    gated: bool
    turns: list[list[Call]] = field(default_factory=list)
    members: list[Plan] = field(default_factory=list)
    in_a_row: bool = False


class Planner:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.count = 0

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def plan(self, depth: int, kind: str | None = None) -> Plan:
        chance = self.chance
        kind = kind or chance.choice(["agent", "agent", "agent", "swarm", "graph"] if depth else ["agent"])
        plan = Plan(kind, self.new("n"), gated=chance.random() < 0.3, in_a_row=chance.random() < 0.5)
        if kind == "agent":
            plan.turns = [
                [self.call(depth) for _ in range(chance.randint(1, 3))] for _ in range(chance.randint(0, 2))
            ]
            return plan
        plan.members = [self.plan(depth - 1) for _ in range(chance.randint(1, 3))]
        if kind == "swarm":  # what comes after an orchestrator never runs
            agents = [member for member in plan.members if member.kind == "agent"]
            plan.members = [*agents, *(member for member in plan.members if member.kind != "agent")][
                : len(agents) + 1
            ]
        return plan

    def call(self, depth: int) -> Call:
        if depth and self.chance.random() < 0.4:
            keeps = self.chance.random() < 0.3
            return Call(self.new("c"), agent=self.plan(depth - 1, "agent"), keeps=keeps)
        return Call(self.new("c"), asks=self.chance.choice(WHEN))


class Workshop:
    """Makes what was planned. `done` counts what has happened."""

    def __init__(self, colour: str) -> None:
        self.colour = colour
        self.done: Counter[str] = Counter()

    def made(self, plan: Plan, next_one: str | None = None, **options: Any) -> Any:
        if plan.kind == "agent":
            return self.agent(plan, next_one, options)
        names = [member.name for member in plan.members]
        followers = [*names[1:], None] if plan.kind == "swarm" else [None] * len(names)
        members = {
            member.name: self.made(member, follower)
            for member, follower in zip(plan.members, followers, strict=True)
        }
        gated = {member.name for member in plan.members if member.gated}

        def gate(event: BeforeNodeCallEvent) -> None:
            if event.node_id in gated:
                assert event.interrupt("gate", reason=event.node_id) == f"yes, {event.node_id}"

        if plan.kind == "swarm":
            return Swarm(members, id=plan.name, hooks=[gate], **options)
        edges = list(pairwise(names)) if plan.in_a_row else []
        return Graph(members, edges, id=plan.name, hooks=[gate], **options)

    def agent(self, plan: Plan, next_one: str | None, options: dict[str, Any]) -> Agent:
        calls = [call for turn in plan.turns for call in turn]
        asks = {call.id: call.asks for call in calls}

        def asked(event: Any, when: str) -> None:
            call = event.tool_use["toolUseId"]
            if when in asks.get(call, ""):
                assert event.interrupt(when, reason=call) == f"yes, {call}"

        def before(event: BeforeToolCallEvent) -> None:
            asked(event, "before")

        def after(event: AfterToolCallEvent) -> None:
            asked(event, "after")

        def work(tool_context: ToolContext) -> str:
            asked(tool_context, "in")
            self.done[tool_context.tool_use["toolUseId"]] += 1
            return "worked"

        async def awork(tool_context: ToolContext) -> str:
            return work(tool_context)

        made: Any = work if self.colour == "sync" else awork
        helpers = [
            self.made(call.agent).as_tool(preserve_context=call.keeps)
            for call in calls
            if call.agent is not None
        ]
        return Agent(
            ScriptedModel(self.script(plan, next_one), per_thread=True),
            name=plan.name,
            tools=[tool(context=True, name="work", description="Work.")(made), *helpers],
            hooks=[before, after],
            callback_handler=None,
            **options,
        )

    def script(self, plan: Plan, next_one: str | None) -> list[Any]:
        says: list[Any] = [
            [
                ToolCall("work", {}, id=call.id)
                if call.agent is None
                else ToolCall(call.agent.name, {"input": "go"}, id=call.id)
                for call in turn
            ]
            for turn in plan.turns
        ]
        if next_one is not None:
            says = [[*says[0], to(next_one)], *says[1:]] if says else [[to(next_one)]]

        def noted(number: int, turn: Any) -> Any:
            def say(request: Any) -> Any:
                self.done[f"{plan.name}.{number}"] += 1
                return turn

            return say

        return [noted(number, turn) for number, turn in enumerate([*says, f"{plan.name} is done"])]


def expected(plan: Plan, hands_over: bool = False) -> Counter[str]:
    """What is to happen, once."""
    if plan.kind != "agent":
        found: Counter[str] = Counter()
        for number, member in enumerate(plan.members, 1):
            found += expected(member, plan.kind == "swarm" and number < len(plan.members))
        return found
    turns = len(plan.turns) + 1 + (hands_over and not plan.turns)
    found = Counter(f"{plan.name}.{number}" for number in range(turns))
    for call in (call for turn in plan.turns for call in turn):
        found += Counter([call.id]) if call.agent is None else expected(call.agent)
    return found


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("seed", range(15))
def test_everything_happens_once(seed: int, colour: str) -> None:
    chance = random.Random(f"{seed} {colour}")
    plan = Planner(chance).plan(3, chance.choice(["agent", "swarm", "graph"]))
    workshop = Workshop(colour)
    session = SessionManager(chance.choice([InMemorySaver, LiveSaver])(), "team")
    whole = workshop.made(plan, session_manager=session)

    def call(given: Any) -> Any:
        nonlocal whole
        if chance.random() < 0.7:
            whole = workshop.made(plan, session_manager=session)
        return whole(given) if colour == "sync" else asyncio.run(whole.invoke_async(given))

    answered: set[str] = set()
    result = call("go")
    while result.interrupts:
        ids = [question.id for question in result.interrupts]
        assert len(set(ids)) == len(ids) and answered.isdisjoint(ids)
        chosen = [question for question in result.interrupts if chance.random() < 0.6] or result.interrupts[
            :1
        ]
        answered |= {question.id for question in chosen}
        left = set(ids) - answered
        result = call([response(question, f"yes, {question.reason}") for question in chosen])
        assert left <= {question.id for question in result.interrupts or ()}
    assert workshop.done == expected(plan)
