"""Attempts at a node: `python examples/attempts/main.py`.

Three suppliers are asked for a price. One fails twice and is tried again. One never answers: after a while in which
it shows nothing, its error handler answers for it. One is slow, but says that it gets on.
"""

from __future__ import annotations

import operator
import sys
import threading
from typing import Annotated, TypedDict

from graphkit import START, StateGraph
from graphkit.errors import NodeError, NodeTimeoutError
from graphkit.runtime import Runtime
from graphkit.types import RetryPolicy, TimeoutPolicy

PAGES = 3


class Offers(TypedDict):
    prices: Annotated[dict[str, int | None], operator.or_]


def say(line: str) -> None:
    """One line in one write: the nodes run side by side."""
    sys.stdout.write(f"{line}\n")


def flaky(state: Offers, runtime: Runtime) -> Offers:
    say(f"flaky: attempt {runtime.attempt}")
    if runtime.attempt < 3:
        raise ConnectionError("connection reset")
    return {"prices": {"flaky": 100}}


def silent(state: Offers) -> Offers:
    threading.Event().wait()  # blocking; the run does not wait for it all the same
    raise AssertionError("never")


def no_offer(state: Offers, error: NodeError) -> Offers:
    """Called once the node has failed for good. A crash in here would not make the node run again."""
    assert isinstance(error.error, NodeTimeoutError)
    say(f"{error.node}: nothing for {error.error.timeout:g} s, going on without it")
    return {"prices": {error.node: None}}


def slow(state: Offers, runtime: Runtime) -> Offers:
    for page in range(1, PAGES + 1):
        runtime.heartbeat()  # the idle timeout begins anew
        say(f"slow: page {page} of {PAGES}")
    return {"prices": {"slow": 90}}


def cheapest(state: Offers) -> None:
    offered = {name: price for name, price in state["prices"].items() if price is not None}
    print(f"cheapest of {len(offered)}: {min(offered, key=lambda name: offered[name])}")


def build_graph() -> StateGraph[Offers]:
    builder = StateGraph(Offers)
    builder.add_node("flaky", flaky, retry_policy=RetryPolicy(initial_interval=0.01, max_attempts=3))
    builder.add_node("silent", silent, timeout=TimeoutPolicy(idle_timeout=0.2), error_handler=no_offer)
    builder.add_node("slow", slow, timeout=TimeoutPolicy(run_timeout=600, idle_timeout=60))
    builder.add_node("cheapest", cheapest)
    for supplier in ("flaky", "silent", "slow"):
        builder.add_edge(START, supplier)
    builder.add_edge(["flaky", "silent", "slow"], "cheapest")
    return builder


if __name__ == "__main__":
    build_graph().compile().invoke({"prices": {}})
