"""Drawing a graph and where a thread stands in it: `python examples/drawing/main.py [--output FOLDER]`.

A draft is written, checked by a nested graph and published, if a person agrees. The program draws the graph as it
was built, runs it until the question, and draws it again with the question in it: as text here, as pictures
(`graph.png`, `thread.svg`) in the folder (`pip install "graphkit-engine[draw]"`). Nothing is asked of the network.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, TypedDict

from graphkit import END, START, StateGraph, interrupt
from graphkit.checkpoint.memory import InMemorySaver


class Text(TypedDict, total=False):
    text: str
    faults: int


def write(state: Text) -> Text:
    return {"text": "A graph is worth a thousand logs."}


def find_faults(state: Text) -> Text:
    return {"faults": state["text"].count("?")}


def ask_editor(state: Text) -> Text:
    return {"faults": interrupt(f"How many faults has {state['text']!r}?")}


def publish(state: Text) -> Text:
    return {}


def doubtful(state: Text) -> str:
    return "no" if state["faults"] else "yes"


def faulty(state: Text) -> str:
    return "faults" if state["faults"] else "none"


def build() -> Any:
    check = StateGraph(Text).add_node(find_faults).add_node(ask_editor)
    check.add_edge(START, "find_faults")
    check.add_conditional_edges("find_faults", doubtful, {"yes": "ask_editor", "no": END})
    check.add_edge("ask_editor", END)
    builder = StateGraph(Text).add_node(write).add_node("check", check.compile()).add_node(publish)
    builder.add_edge(START, "write").add_edge("write", "check")
    builder.add_conditional_edges("check", faulty, {"faults": "write", "none": "publish"})
    builder.add_edge("publish", END)
    return builder.compile(checkpointer=InMemorySaver(), interrupt_before=["publish"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw a graph and where a thread stands in it.")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for the pictures")
    folder: Path = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    graph = build()
    print(graph.get_graph().draw_mermaid())  # paste it into any page that shows Mermaid
    drawing = graph.get_graph(xray=True)  # nested graphs in their place
    drawing.draw_png(folder / "graph.png")

    config = {"configurable": {"thread_id": "draft-1"}}
    graph.invoke({"text": ""}, config)
    standing = drawing.marked(graph.get_state(config))
    standing.print_ascii()
    standing.draw_svg(folder / "thread.svg")
    print(f"\nPictures: {folder / 'graph.png'}, {folder / 'thread.svg'}")


if __name__ == "__main__":
    main()
