"""Accounts payable, in two processes: `python examples/accounts_payable/main.py [--output FOLDER]`.

The first process (`start`) runs the workflow until people are needed, and really ends. The second one
(`resume`) knows nothing but the database and the thread id: it finds the open questions there, collects
the answers and finishes the run. On a terminal the questions are asked; without one, `answers.json` answers.
Where nobody answers (Ctrl-D), the questions stay open for another `resume`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import uuid
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from workflow import LedgerEntry, build_graph

from graphkit import Command
from graphkit.checkpoint.sqlite import SqliteSaver

FOLDER = Path(__file__).parent
CAPTIONS = {"paid": "paid", "rejected": "rejected", "malformed": "malformed", "duplicate": "duplicates"}


def run_both(output: Path) -> None:
    """Start a fresh thread in one process and, when that has ended, resume it in another."""
    output.mkdir(parents=True, exist_ok=True)
    database = str(output / "accounts_payable.sqlite")
    thread_id = f"invoices-{uuid.uuid4().hex}"
    for step in ("start", "resume"):
        command = [sys.executable, __file__, step, "--database", database, "--thread", thread_id]
        if subprocess.run(command).returncode:
            sys.exit(f"{step} did not come to its end; once more: {shlex.join(command)}")


def start(database: Path, thread_id: str) -> None:
    """Run until the workflow is finished or waits for answers."""
    announce("start", database, thread_id)
    files = {
        "invoice_file": str(FOLDER / "invoices.csv"),
        "ledger_file": str(database.with_name(f"ledger-{thread_id}.csv")),
    }
    with SqliteSaver.from_conn_string(str(database)) as saver:
        app = build_graph().compile(checkpointer=saver)
        result = app.invoke(files, thread(thread_id))
    questions = result.get("__interrupt__", ())
    print(f"{len(questions)} questions are open:")
    for question in questions:
        print(f"  {describe(question.value)}")


def resume(database: Path, thread_id: str) -> None:
    """Answer all open questions of the thread at once and run to the end."""
    announce("resume", database, thread_id)
    config = thread(thread_id)
    with SqliteSaver.from_conn_string(str(database)) as saver:
        app = build_graph().compile(checkpointer=saver)
        paused = app.get_state(config)
        if not paused.values:
            sys.exit(f"there is no thread {thread_id} in {database}")
        before = count_supersteps(app, config)
        if paused.interrupts:
            answers = collect_answers([question.value for question in paused.interrupts])
            by_id = {question.id: answer for question, answer in zip(paused.interrupts, answers, strict=True)}
            app.invoke(Command(resume=by_id), config)
        state = app.get_state(config).values
        after = count_supersteps(app, config) - before
    print(f"Ledger: {state['ledger_file']}")
    print_totals(state["entries"])
    print(f"Supersteps: {before} before the pause, {after} after it")


def thread(thread_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id}}


def announce(step: str, database: Path, thread_id: str) -> None:
    print(f"[{step}] process {os.getpid()}, thread {thread_id}, database {database}")


def describe(question: dict[str, str]) -> str:
    return "{number}: pay {amount} {currency} to {vendor}? (limit {limit})".format_map(question)


def count_supersteps(app: Any, config: dict[str, Any]) -> int:
    """Finished supersteps of the thread: each has a checkpoint, numbered from 1 after the input's own."""
    return sum(snapshot.metadata["step"] > 0 for snapshot in app.get_state_history(config))


def collect_answers(questions: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
    """One answer per question, from the terminal or, where there is none, from the file."""
    if sys.stdin.isatty():
        return [ask(question) for question in questions]
    scripted = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))
    return [look_up(question, scripted) for question in questions]


def ask(question: dict[str, str]) -> dict[str, Any]:
    try:
        approve = input(f"  {describe(question)} [y/N] ").strip().lower() in {"y", "yes"}
        return {"approve": approve, "reason": input("    Why? ").strip()}
    except EOFError:
        sys.exit("\nnobody answers; the questions stay open")


def look_up(question: dict[str, str], scripted: dict[str, dict[str, Any]]) -> dict[str, Any]:
    number = question["number"]
    if number not in scripted:
        sys.exit(f"answers.json has no answer for invoice {number}; the question stays open")
    answer = scripted[number]
    print(f"  {number}: {'yes' if answer['approve'] else 'no'}, {answer['reason']}")
    return answer


def print_totals(entries: Sequence[LedgerEntry]) -> None:
    """One line per outcome: how many rows, and what they add up to in each currency."""
    for outcome, caption in CAPTIONS.items():
        chosen = [entry for entry in entries if entry.outcome == outcome]
        sums: defaultdict[str, Decimal] = defaultdict(Decimal)
        for entry in chosen:
            if entry.amount is not None and entry.currency is not None:
                sums[entry.currency] += entry.amount
        amounts = ", ".join(f"{sums[currency]:,.2f} {currency}" for currency in sorted(sums))
        print(f"  {caption:<10} {len(chosen):>3}   {amounts}".rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description="Pay the invoices of a file; ask about the large ones.")
    parser.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="folder for the files written"
    )
    steps = parser.add_subparsers(dest="step", title="the two halves, each a process of its own")
    for name, function in (("start", start), ("resume", resume)):
        step = steps.add_parser(name, help=function.__doc__)
        step.add_argument("--database", type=Path, required=True)
        step.add_argument("--thread", required=True)
        step.set_defaults(function=function)
    arguments = parser.parse_args()
    if arguments.step is None:
        run_both(arguments.output)
    else:
        arguments.function(arguments.database, arguments.thread)


if __name__ == "__main__":
    main()
