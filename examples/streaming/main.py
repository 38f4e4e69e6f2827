"""What a run shows while it runs: `python examples/streaming/main.py tokens|progress|parts|debug`.

A small desk answers questions: a node looks the question up and says how far it is, and a graph of its own, which
is the second node, writes the answer word by word. `tokens` prints the words as they come, `progress` what the
first node says beside the updates of every node, `parts` all of it as typed parts, and `debug` has the run printed.
"""

from __future__ import annotations

import argparse
from typing import Any

from graphkit import START, MessagesState, StateGraph
from graphkit.config import get_stream_writer
from graphkit.runtime import Runtime

QUESTION = {"messages": [{"role": "user", "content": "How far is the moon?", "id": "question"}]}
ANSWER = "About 384 400 kilometres."


def look_up(state: MessagesState) -> None:
    show = get_stream_writer()
    for percent in (50, 100):
        show({"looked up": f"{percent} %"})


def write(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
    # A model would be called here, and each of its tokens passed on as it comes.
    for word in ANSWER.split(" "):
        runtime.message_writer({"role": "assistant", "content": f"{word} ", "id": "answer"})
    return {"messages": [{"role": "assistant", "content": ANSWER, "id": "answer"}]}


def build_graph() -> Any:
    writer = StateGraph(MessagesState).add_node(write).add_edge(START, "write").compile()
    desk = StateGraph(MessagesState).add_node(look_up).add_node("answer", writer)
    return desk.add_edge(START, "look_up").add_edge("look_up", "answer").compile(name="desk")


def show_tokens(graph: Any) -> None:
    for _, (message, metadata) in graph.stream(QUESTION, stream_mode="messages", subgraphs=True):
        print(f"{metadata['langgraph_node']}: {message['content']}")


def show_progress(graph: Any) -> None:
    for namespace, mode, chunk in graph.stream(QUESTION, stream_mode=["custom", "updates"], subgraphs=True):
        where = " > ".join(task.split(":")[0] for task in namespace) or "desk"
        print(f"{where}: {mode}: {chunk}")


def show_parts(graph: Any) -> None:
    for part in graph.stream(QUESTION, stream_mode=["updates", "values"], version="v2"):
        if part["type"] == "values":
            print(f"{len(part['data']['messages'])} messages")
        else:
            print(f"from {', '.join(part['data'])}")


def show_debug(graph: Any) -> None:
    graph.invoke(QUESTION, debug=True)


SHOWS = {"tokens": show_tokens, "progress": show_progress, "parts": show_parts, "debug": show_debug}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=SHOWS)
    SHOWS[parser.parse_args().what](build_graph())


if __name__ == "__main__":
    main()
