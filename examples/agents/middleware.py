"""Wrapping what an agent does: `python examples/agents/middleware.py`.

A middleware is a generator around `next`. One of a batch has the calls of one message: here the dear ones among them
run first, and it asks once for all of them. One of a call is around a single tool. The rest is plugins that are ready
to use: no call is made twice, and the agent stops before it has used up what it may.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from graphkit import Agent, tool
from graphkit.middleware import (
    ExecuteToolContext,
    ExecuteToolsContext,
    ExecuteToolsStage,
    ExecuteToolStage,
    MiddlewareNext,
)
from graphkit.models import ScriptedModel, ToolCall
from graphkit.tools.executors import SequentialToolExecutor
from graphkit.vended_plugins import BudgetGuard, ToolResultCache

Layer = Generator[Any, Any, Any]

SCRIPTED = ScriptedModel(
    [
        [
            ToolCall("order", {"thing": "pens", "price": 5}),
            ToolCall("order", {"thing": "desk", "price": 900}),
        ],
        [ToolCall("order", {"thing": "lamp", "price": 40}), ToolCall("stock", {"thing": "pens"})],
        ToolCall("stock", {"thing": "pens"}),
        "All is ordered.",
    ]
)


@tool
def order(thing: str, price: int) -> str:
    """Order something."""
    print(f"ordered {thing}")
    return "ordered"


@tool
def stock(thing: str) -> int:
    """How many there are."""
    print(f"counted {thing}")
    return 12


def dear_first(context: ExecuteToolsContext, next: MiddlewareNext[ExecuteToolsContext]) -> Layer:
    by_price = sorted(context.tool_uses, key=lambda use: -use.input.get("price", 0))
    total = sum(use.input.get("price", 0) for use in by_price)
    if total > 100 and context.interrupt("total", reason=total).response != "yes":
        raise PermissionError(f"{total} is too much")
    return (yield from next(context.replace(tool_uses=by_price)))


def told(context: ExecuteToolContext, next: MiddlewareNext[ExecuteToolContext]) -> Layer:
    event = yield from next(context)
    print(f"{context.tool_use.name} {context.tool_use.input['thing']}: {event.result['status']}")
    return event


def main() -> None:
    agent = Agent(
        SCRIPTED,
        tools=[order, stock],
        tool_executor=SequentialToolExecutor(),
        plugins=[ToolResultCache(["stock"]), BudgetGuard(max_turns=3)],
        callback_handler=None,
    )
    agent.add_middleware(ExecuteToolsStage, dear_first)
    agent.add_middleware(ExecuteToolStage, told)
    result = agent("Order what we need.")
    assert result.interrupts
    question = result.interrupts[0]
    print(f"{result.stop_reason}: {question.reason}")
    result = agent([{"interruptResponse": {"interruptId": question.id, "response": "yes"}}])
    print(f"{result.stop_reason}: {result.data['used']['turns']} turns")
    print(str(agent.resume("budget_guard", {"turns": 1})).strip())


if __name__ == "__main__":
    main()
