"""The context of a run: `python examples/context/main.py`.

What belongs to a call and not to the thread (who is calling, a connection, a limit) is passed as `context=`. It is
checked against the graph's `context_schema` before anything runs, reaches every node as `runtime.context`, and is
never stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from graphkit import START, StateGraph
from graphkit.errors import InvalidContextError
from graphkit.runtime import Runtime, get_runtime


class Ledger:
    """Stands for a connection: it could not be stored, and need not be."""

    def __init__(self) -> None:
        self.entries: list[str] = []


@dataclass
class Context:
    user: str
    limit: int = 100
    ledger: Ledger = field(default_factory=Ledger)


class State(TypedDict, total=False):
    amount: int
    outcome: str


def decide(state: State, runtime: Runtime[Context]) -> State:
    outcome = "paid" if state["amount"] <= runtime.context.limit else "refused"
    return {"outcome": outcome}


def book(state: State) -> State:
    context = get_runtime(Context).context  # the same, for code that has no parameter for it
    context.ledger.entries.append(f"{context.user}: {state['amount']} {state['outcome']}")
    return {}


def main() -> None:
    builder = StateGraph(State, context_schema=Context).add_sequence([decide, book])
    graph = builder.add_edge(START, "decide").compile(name="payments")

    ledger = Ledger()
    print(graph.invoke({"amount": 70}, context=Context("ada", ledger=ledger))["outcome"])
    print(graph.invoke({"amount": 70}, context={"user": "bob", "limit": "50", "ledger": ledger})["outcome"])
    print(ledger.entries)

    for wrong in ({"limit": 50}, {"user": "eve", "limits": 50}, Context("eve", limit="a lot"), None):
        try:
            graph.invoke({"amount": 70}, context=wrong)
        except InvalidContextError as error:
            print(error)


if __name__ == "__main__":
    main()
