"""Going back: `python examples/time_travel/main.py FILE`.

Every superstep is a checkpoint that one can return to. Running from an older one makes a branch and leaves what
came after it as it was. That goes for the checkpoints of a graph inside another one too: the run goes on *there*,
without repeating what ran before it, and then the graph around goes on.
"""

from __future__ import annotations

import argparse
from typing import Any, TypedDict

from graphkit import START, StateGraph
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.types import RunnableConfig, StateSnapshot


class Draft(TypedDict, total=False):
    topic: str
    outline: str
    text: str


class Page(TypedDict, total=False):
    topic: str
    text: str
    printed: str


def outline(state: Draft) -> Draft:
    print(f"  outlining {state['topic']}")
    return {"outline": f"three facts about {state['topic']}"}


def write(state: Draft) -> Draft:
    print("  writing")
    return {"text": f"{state['outline']}, at length"}


def choose(state: Page) -> Page:
    print("  choosing a topic")
    return {"topic": "bees"}


def publish(state: Page) -> Page:
    print("  publishing")
    return {"printed": state["text"].upper()}


def build_graph(saver: SqliteSaver) -> Any:
    author = StateGraph(Draft).add_sequence([outline, write]).add_edge(START, "outline").compile()
    pages = StateGraph(Page).add_sequence([choose, ("author", author), publish]).add_edge(START, "choose")
    return pages.compile(checkpointer=saver)


def before(graph: Any, config: RunnableConfig, node: str) -> StateSnapshot:
    """The newest checkpoint that this node follows."""
    found: StateSnapshot = next(state for state in graph.get_state_history(config) if state.next == (node,))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file")
    config: RunnableConfig = {"configurable": {"thread_id": "page"}}
    with SqliteSaver.from_conn_string(parser.parse_args().file) as saver:
        saver.delete_thread("page")  # what an earlier run of this program has left
        graph = build_graph(saver)
        print("the first time:")
        print(graph.invoke({}, config)["printed"])

        print("with another topic:")
        branch = graph.update_state(
            before(graph, config, "author").config, {"topic": "ants"}, as_node="choose"
        )
        print(graph.invoke(None, branch)["printed"])

        print("with another outline, inside the author:")
        (task,) = before(graph, config, "author").tasks
        inside = before(graph, task.state, "write")
        edited = graph.update_state(inside.config, {"outline": "one fact about ants"}, as_node="outline")
        print(graph.invoke(None, edited)["printed"])
        print(f"checkpoints: {len(list(graph.get_state_history(config)))}")


if __name__ == "__main__":
    main()
