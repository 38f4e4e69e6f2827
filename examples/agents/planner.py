"""A team whose size is decided while it works: `python examples/agents/planner.py`.

A node of a plain graph plans, and sends a part of the task to an agent for each: they run side by side, and what they
have found is collected in the order of the plan.
"""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from graphkit import Agent, Command, Send, StateGraph
from graphkit.graph import START
from graphkit.models import ScriptedModel


class Research(TypedDict, total=False):
    question: str
    part: str
    found: Annotated[list[str], operator.add]


def plan(state: Research) -> Command[Any]:
    parts = state["question"].removesuffix("?").split(" or ")
    return Command(goto=[Send("researcher", {"part": part}) for part in parts])


def look_up(request: Any) -> str:
    return f"I have read all about {request.messages[-1]['content'][0]['text']}."


RESEARCHER = Agent(ScriptedModel([look_up], repeat=True), callback_handler=None)


def main() -> None:
    builder = StateGraph(Research).add_node("plan", plan, destinations=["researcher"])
    builder.add_node(
        "researcher",
        RESEARCHER.as_node(
            prompt=lambda state: state["part"], update=lambda result: {"found": [str(result).strip()]}
        ),
    )
    graph = builder.add_edge(START, "plan").compile()
    for fact in graph.invoke({"question": "trains or ships or planes?"})["found"]:
        print(fact)


if __name__ == "__main__":
    main()
