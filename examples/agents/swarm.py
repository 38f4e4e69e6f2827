"""Agents that hand a task over to each other: `python examples/agents/swarm.py`.

The triage agent hands the case over, together with what it has found; a tool of the billing agent asks a person before
it pays. The answer is given to a fresh swarm, as another process would make it: nobody works twice.
"""

from __future__ import annotations

import tempfile

from graphkit import Agent, tool
from graphkit.models import ScriptedModel, ToolCall
from graphkit.multiagent import Status, Swarm
from graphkit.session import FileSessionManager
from graphkit.types.tools import ToolContext

TO_BILLING = {
    "agent_name": "billing",
    "message": "The lamp came broken; give the money back.",
    "context": {"order": "A-17", "price": 40},
}
TRIAGE = ScriptedModel([ToolCall("handoff_to_agent", TO_BILLING), "This is for billing."], per_thread=True)
BILLING = ScriptedModel([ToolCall("refund", {"amount": 40}), "Your $40 are on their way."], per_thread=True)


@tool(context=True)
def refund(amount: int, tool_context: ToolContext) -> str:
    """Give money back.

    Args:
        amount: How many dollars.
    """
    if tool_context.interrupt("refund", reason=f"refund ${amount}?") != "yes":
        return "A person has denied it."
    print(f"[refund] ${amount}")
    return "paid"


def team(folder: str) -> Swarm:
    return Swarm(
        [
            Agent(TRIAGE, name="triage", description="Finds out whose case it is.", callback_handler=None),
            Agent(BILLING, name="billing", description="Pays.", tools=[refund], callback_handler=None),
        ],
        session_manager=FileSessionManager("case-1", folder),
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = team(folder)("My lamp is broken.")
        while result.status is Status.INTERRUPTED:
            [question] = result.interrupts
            print(f"[asked] {question.reason}")
            response = {"interruptResponse": {"interruptId": question.id, "response": "yes"}}
            result = team(folder)([response])
        print(" -> ".join(node.node_id for node in result.node_history))
        print(result)


if __name__ == "__main__":
    main()
