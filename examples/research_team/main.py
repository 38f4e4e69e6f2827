"""A research team with a human editor, on PostgreSQL: `python examples/research_team/main.py --database URL`.

A planner names the topics, a researcher for each looks it up in a library, side by side with the others, a writer puts
together what they have found, and a person edits: "ok", or what should be changed, as often as they like. The first
process (`begin`) works until there is a version to be read, and ends; the second one (`edit`), on this machine or
another one, knows nothing but the database and the name of the report. On a terminal the editor is asked; without one,
`answers.json` answers.

URL is SQLAlchemy's, as in `postgresql+psycopg://user:password@host/database`, and may also be given as
GRAPHKIT_DATABASE (`pip install "graphkit-engine[postgres]"`). Without a model the members follow a script. With one,
`GRAPHKIT_MODEL=anthropic:claude-sonnet-4-6` (and its key in the environment), they are that model.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

from team import research_team

from graphkit.checkpoint.postgres import PostgresSaver
from graphkit.multiagent import MultiAgentResult, Status

QUESTION = "trains, ships or planes?"


def begin(database: str, report: str, question: str) -> None:
    """Work until the editor has something to read."""
    with PostgresSaver(database) as saver:
        result = research_team(saver, report)(question)
    print(f"[begin] {' -> '.join(node.node_id for node in result.execution_order)}: {result.status.value}")


def edit(database: str, report: str) -> None:
    """Ask the editor until the report is as it should be."""
    answers = iter(json.loads(Path(__file__).with_name("answers.json").read_text(encoding="utf-8")))
    with PostgresSaver(database) as saver:
        team = research_team(saver, report)
        result: MultiAgentResult = team.thread().result
        if not result.execution_order:
            sys.exit(f"there is no report {report} in this database")
        while result.status is Status.INTERRUPTED:
            [question] = result.interrupts
            print(f"[draft]\n{question.reason['draft']}")
            answer = ask() if sys.stdin.isatty() else next(answers)
            print(f"[editor] {answer}")
            result = team([{"interruptResponse": {"interruptId": question.id, "response": answer}}])
    print(f"[edit] {result.status.value} after {len(result.execution_order)} executions")


def ask() -> str:
    try:
        return input("ok? ")
    except EOFError:
        sys.exit("\nnobody answers; the question stays open for another `edit --report NAME`")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", nargs="?", choices=["begin", "edit"])
    parser.add_argument("--database", default=os.environ.get("GRAPHKIT_DATABASE"))
    parser.add_argument("--report", help="its name; by default a new one")
    parser.add_argument("--question", default=QUESTION)
    given = parser.parse_args()
    if given.database is None:
        parser.error("name a PostgreSQL database: --database URL, or GRAPHKIT_DATABASE")
    if given.step and given.report is None:
        parser.error("a step alone needs --report NAME: the other one is to find the report")
    if given.step == "begin":
        begin(given.database, given.report, given.question)
    elif given.step == "edit":
        edit(given.database, given.report)
    else:
        os.environ["GRAPHKIT_DATABASE"] = given.database  # not among the arguments: it holds a password
        report = given.report or f"report-{uuid.uuid4().hex}"
        for step in ("begin", "edit"):
            options = ["--report", report, "--question", given.question]
            if code := subprocess.run([sys.executable, "-u", __file__, step, *options]).returncode:
                sys.exit(code)
