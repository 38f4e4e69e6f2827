"""Stopping in good order: `python examples/draining/main.py [--output FOLDER]`.

The first process (`start`) prints the pages of a book and is asked to end in the middle, with SIGTERM. It finishes the
page that it is at, and ends. The second one (`resume`) knows nothing but the database, and goes on with the next page.
"""

from __future__ import annotations

import argparse
import operator
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, TypedDict

from graphkit import END, START, RunControl, StateGraph
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.errors import GraphDrained

PAGES = 4
TERMINATED_AT = 2
THREAD: Any = {"configurable": {"thread_id": "book"}}


class Book(TypedDict):
    printed: Annotated[list[int], operator.add]


def print_page(state: Book) -> Book:
    page = len(state["printed"]) + 1
    if page == TERMINATED_AT:
        os.kill(os.getpid(), signal.SIGTERM)  # somebody ends this process in the middle of a page
    print(f"[{sys.argv[1]}] page {page}")
    return {"printed": [page]}


def more(state: Book) -> str:
    return "print_page" if len(state["printed"]) < PAGES else END


def build_graph() -> StateGraph[Book]:
    builder = StateGraph(Book).add_node(print_page).add_edge(START, "print_page")
    return builder.add_conditional_edges("print_page", more, ["print_page", END])


def start(database: Path) -> None:
    control = RunControl()
    signal.signal(signal.SIGTERM, lambda number, frame: control.request_drain("SIGTERM"))
    with SqliteSaver(database) as saver:
        saver.delete_thread("book")  # what an earlier run of this program has left
        try:
            build_graph().compile(checkpointer=saver).invoke({"printed": []}, THREAD, control=control)
        except GraphDrained as drained:
            print(f"[start] stopped because of {drained.reason}")


def resume(database: Path) -> None:
    with SqliteSaver(database) as saver:
        book = build_graph().compile(checkpointer=saver).invoke(None, THREAD)
    print(f"[resume] printed {book['printed']}")


def run_both(output: Path) -> None:
    """Start in one process and, when that has ended, go on in another."""
    output.mkdir(parents=True, exist_ok=True)
    database = output / "draining.sqlite"
    for step in ("start", "resume"):
        subprocess.run([sys.executable, __file__, step, "--database", str(database)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", nargs="?", choices=["start", "resume"])
    parser.add_argument("--database", type=Path)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    if given.step:
        if given.database is None:
            parser.error("a step alone needs --database FILE")
        {"start": start, "resume": resume}[given.step](given.database)
    elif given.output:
        run_both(given.output)
    else:
        with tempfile.TemporaryDirectory() as output:
            run_both(Path(output))


if __name__ == "__main__":
    main()
