"""A support desk that asks before it gives much money away: `python examples/support_desk/main.py [--output FOLDER]`.

The first process (`take`) answers the letters of all customers, each in a thread of their own, and ends; where a
refund is large a question stays open. The second one (`decide`) knows nothing but the SQLite file: it finds the open
questions of all threads, collects the answers of a colleague, and the agent goes on where it was. On a terminal the
questions are asked; without one, `answers.json` answers, and a question without an answer there stays open.

Without a model the answers come from a script. With one, `GRAPHKIT_MODEL=anthropic:claude-sonnet-4-6` (and its key in
the environment), the same program talks to it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from desk import desk

from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.types import Interrupt

FOLDER = Path(__file__).parent


def take(database: Path) -> None:
    """Answer all letters; what needs a colleague waits."""
    letters = json.loads((FOLDER / "letters.json").read_text(encoding="utf-8"))
    with SqliteSaver(database) as saver:
        agent = desk(saver)
        for customer, letter in letters.items():
            saver.delete_thread(customer)  # what an earlier run of this program has left
            result = agent(letter, thread_id=customer)
            waits = result.stop_reason == "interrupt"
            print(f"[take] {customer}: {'waits for a colleague' if waits else str(result).strip()}")


def decide(database: Path) -> None:
    """Answer the open questions of all threads."""
    with SqliteSaver(database, create=False) as saver:
        agent = desk(saver)
        for customer in sorted(saver.thread_ids()):
            thread = agent.thread(customer)
            answers = [
                {"interruptResponse": {"interruptId": question.id, "response": answer}}
                for question in thread.interrupts
                if (answer := ask(customer, question)) is not None
            ]
            if answers:
                print(f"[decide] {customer}: {str(thread.invoke(answers)).strip()}")


def ask(customer: str, question: Interrupt) -> str | None:
    """A colleague's answer; None if there is none yet."""
    call: Any = question.reason
    prompt = f"[decide] {customer}: {call['tool']} {call['input']}?"
    if sys.stdin.isatty():
        try:
            return input(f"{prompt} (yes, or why not) ")
        except EOFError:
            print("stays open")
            return None
    scripted: dict[str, str] = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))
    answer = scripted.get(customer)
    print(f"{prompt} {'stays open' if answer is None else answer}")
    return answer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", nargs="?", choices=["take", "decide"])
    parser.add_argument("--output", type=Path, help="where the SQLite file is; by default nowhere for long")
    given = parser.parse_args()
    if given.output is not None:
        given.output.mkdir(parents=True, exist_ok=True)
    elif given.step is not None:
        parser.error("a step alone needs --output FOLDER: the other one is to find the SQLite file")
    if given.step is not None:
        {"take": take, "decide": decide}[given.step](given.output / "desk.sqlite")
    else:
        with tempfile.TemporaryDirectory() as folder:
            for step in ("take", "decide"):
                command = [sys.executable, "-u", __file__, step, "--output", str(given.output or folder)]
                subprocess.run(command, check=True)
