"""The agent of the support desk: its tools, and what it may not do alone."""

from __future__ import annotations

import os
from typing import Any

from script import clerk

from graphkit import Agent, tool
from graphkit.checkpoint.base import BaseCheckpointSaver
from graphkit.models import Model, ScriptedModel
from graphkit.vended_plugins import ApprovalGate

ORDERS = {
    "A-17": {"customer": "ada", "article": "lamp", "price": 40},
    "B-3": {"customer": "grace", "article": "desk", "price": 320},
    "C-9": {"customer": "emmy", "article": "sofa", "price": 900},
}
LIMIT = 100
"""What the desk may give back without asking a colleague, in dollars."""


@tool
def find_order(order_id: str) -> dict[str, Any]:
    """Look up an order.

    Args:
        order_id: Its number, as in "A-17".
    """
    if order_id not in ORDERS:
        raise LookupError(f"there is no order {order_id}")
    return ORDERS[order_id]


@tool
def refund(order_id: str, amount: int) -> str:
    """Give a customer money back.

    Args:
        order_id: The order that it is for.
        amount: How much, in dollars.
    """
    print(f"    refund {order_id}: ${amount}")
    return f"${amount} will arrive in three days"


def is_large(call: Any) -> bool:
    """Whether a colleague has to agree to this call of a tool."""
    return call["name"] == "refund" and int(call["input"].get("amount", 0)) > LIMIT


def desk(saver: BaseCheckpointSaver) -> Agent:
    """One agent for all customers; each has a thread of their own."""
    return Agent(
        model(),
        tools=[find_order, refund],
        plugins=[ApprovalGate(is_large)],
        system_prompt="You help customers. Look an order up before you refund it, and refund its price.",
        checkpointer=saver,
        callback_handler=None,
    )


def model() -> Model | None:
    """None is the model that GRAPHKIT_MODEL names."""
    return None if "GRAPHKIT_MODEL" in os.environ else ScriptedModel([clerk], repeat=True)
