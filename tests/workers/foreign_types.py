"""A graph whose state holds a type that test_bad_input.py does not know until it imports this."""

from dataclasses import dataclass
from typing import Any, TypedDict

from graphkit import START, StateGraph
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.types import RunnableConfig


@dataclass
class Invoice:
    number: int


class Billing(TypedDict, total=False):
    value: Invoice


def billing(saver: Any) -> Any:
    builder: StateGraph[Any] = StateGraph(Billing).add_node("bill", lambda state: {"value": Invoice(7)})
    return builder.add_edge(START, "bill").compile(saver)


def write(path: str, config: RunnableConfig) -> None:
    saver = SqliteSaver(path)
    billing(saver).invoke({}, config)
    saver.close()
