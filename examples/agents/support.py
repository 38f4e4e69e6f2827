"""A support agent that may not give money away alone: `python examples/agents/support.py [--output FOLDER] [--deny]`.

The first process (`start`) takes the customer's message until somebody has to agree to a refund, and really ends.
The second one (`resume`) knows nothing but the session: it finds the question there, answers it, and the agent goes
on where it was; nothing that was done is done again.

Without a model the answers come from a script. With one, `GRAPHKIT_MODEL=anthropic:claude-sonnet-4-6` (and its key in
the environment), the same program talks to it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from graphkit import Agent, tool
from graphkit.hooks import BeforeToolCallEvent
from graphkit.models import Model, ModelRequest, ScriptedModel, ToolCall
from graphkit.session import FileSessionManager

SESSION = "customer-7"
LETTER = "My order A-17 arrived broken. I want my money back!"
ORDERS = {"A-17": {"article": "lamp", "price": 40}}


@tool
def find_order(order_id: str) -> dict[str, Any]:
    """Look up an order.

    Args:
        order_id: Its number, as in "A-17".
    """
    print(f"[tool] find_order {order_id}")
    return ORDERS[order_id]


@tool
def refund(order_id: str, amount: int) -> str:
    """Give a customer money back.

    Args:
        order_id: The order that it is for.
        amount: How much, in dollars.
    """
    print(f"[tool] refund {order_id}: ${amount}")
    return f"${amount} will arrive in three days"


def agree_to_refunds(event: BeforeToolCallEvent) -> None:
    """Runs before every tool. `interrupt` pauses the agent the first time and gives the answer the second time."""
    if event.tool_use["name"] != "refund":
        return
    if event.interrupt("refund", reason=event.tool_use["input"]) != "yes":
        event.cancel_tool = "a colleague has decided against it"


def closing_words(request: ModelRequest) -> str:
    result = request.messages[-1]["content"][0]["toolResult"]
    return (
        "Your money is on its way." if result["status"] == "success" else "I am sorry, I cannot refund this."
    )


def model() -> Model | None:
    """None is the model that GRAPHKIT_MODEL names."""
    if "GRAPHKIT_MODEL" in os.environ:
        return None
    return ScriptedModel(
        [
            ["Let me see.", ToolCall("find_order", {"order_id": "A-17"})],
            ToolCall("refund", {"order_id": "A-17", "amount": 40}),
            closing_words,
        ],
        per_thread=True,  # the second process goes on in the script where the conversation is
    )


def support(folder: Path) -> Agent:
    return Agent(
        model(),
        tools=[find_order, refund],
        hooks=[agree_to_refunds],
        system_prompt="You help customers. Look an order up before you refund it, and refund its price.",
        session_manager=FileSessionManager(SESSION, storage_dir=str(folder)),
        callback_handler=None,
    )


def start(folder: Path) -> None:
    agent = support(folder)
    agent.thread().delete()  # what an earlier run of this program has left
    result = agent(LETTER)
    print(f"[start] stopped because of {result.stop_reason}")
    for question in result.interrupts or ():
        print(f"[start] open: {question.name} {question.reason}")


def resume(folder: Path, answer: str) -> None:
    agent = support(folder)
    questions = agent.interrupts
    print(
        f"[resume] {len(agent.messages)} messages are there, {len(questions)} question is open; answer: {answer}"
    )
    result = agent(
        [{"interruptResponse": {"interruptId": each.id, "response": answer}} for each in questions]
    )
    print(f"[resume] stopped because of {result.stop_reason}: {str(result).strip()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", nargs="?", choices=["start", "resume"])
    parser.add_argument("--output", type=Path, help="where the session is kept; by default nowhere for long")
    parser.add_argument("--deny", action="store_true", help="answer no")
    given = parser.parse_args()
    if given.step and given.output is None:
        parser.error("a step alone needs --output FOLDER: the other one is to find the session")
    if given.step == "start":
        start(given.output)
    elif given.step == "resume":
        resume(given.output, "no" if given.deny else "yes")
    else:
        with tempfile.TemporaryDirectory() as folder:
            options = ["--output", str(given.output or folder), *["--deny"][: given.deny]]
            for step in ("start", "resume"):
                subprocess.run([sys.executable, "-u", __file__, step, *options], check=True)
