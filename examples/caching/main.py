"""A cached node: `python examples/caching/main.py FILE [--fresh]`.

Exchange rates are dear to look up, so each is looked up once an hour, whichever thread or process asks: the
node's results are kept in FILE under what its `key_func` says, here the currency alone. Run it twice: the second
time nothing is looked up. `--fresh` forgets what is cached.
"""

from __future__ import annotations

import argparse
from decimal import Decimal
from typing import Any, TypedDict

from graphkit import START, StateGraph
from graphkit.cache.sqlite import SqliteCache
from graphkit.types import CachePolicy

RATES = {"EUR": Decimal("1.08"), "GBP": Decimal("1.27")}
"""What a service far away would say."""


class State(TypedDict, total=False):
    currency: str
    amount: Decimal
    rate: Decimal
    dollars: Decimal


def look_up_rate(state: State) -> State:
    print(f"  looking up {state['currency']} ...")
    return {"rate": RATES[state["currency"]]}


def convert(state: State) -> State:
    return {"dollars": state["amount"] * state["rate"]}


def build_graph(cache: SqliteCache) -> Any:
    hourly = CachePolicy(key_func=lambda state: state["currency"], ttl=3600)
    builder = StateGraph(State).add_node(look_up_rate, cache_policy=hourly).add_node(convert)
    builder.add_edge(START, "look_up_rate").add_edge("look_up_rate", "convert")
    return builder.compile(cache=cache)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file")
    parser.add_argument("--fresh", action="store_true", help="forget the cached rates first")
    arguments = parser.parse_args()
    with SqliteCache(arguments.file) as cache:
        graph = build_graph(cache)
        if arguments.fresh:
            graph.clear_cache(["look_up_rate"])
        for currency, amount in (("EUR", Decimal(100)), ("GBP", Decimal(20)), ("EUR", Decimal(5))):
            result = graph.invoke({"currency": currency, "amount": amount})
            print(f"{amount} {currency} = {result['dollars']} USD")


if __name__ == "__main__":
    main()
