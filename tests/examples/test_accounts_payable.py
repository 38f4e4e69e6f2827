"""The accounts-payable demo, run as a user runs it: a program, its processes, its files.

The expected figures are worked out here from the invoice file, by rules written a second time on purpose.
"""

from __future__ import annotations

import csv
import datetime
import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "accounts_payable"
LIMITS = {"EUR": Decimal(1000), "USD": Decimal(1100)}

Totals = dict[str, tuple[int, dict[str, Decimal]]]


@dataclass(frozen=True)
class Expected:
    """What the demo must come to: the questions it asks and the totals it prints."""

    questions: list[str]
    totals: Totals
    rows: int


def is_date(text: str) -> bool:
    try:
        datetime.datetime.strptime(text, "%Y-%m-%d")
    except ValueError:
        return False
    return True


def is_valid(cells: list[str]) -> bool:
    if len(cells) != 5 or not all(cells):
        return False
    _, _, date, amount, currency = cells
    return is_date(date) and currency in LIMITS and re.fullmatch(r"\d+\.\d\d", amount) is not None


def expected() -> Expected:
    answers = json.loads((DEMO / "answers.json").read_text(encoding="utf-8"))
    with (DEMO / "invoices.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    counts: Counter[str] = Counter()
    sums: dict[str, Counter[str]] = {}
    seen: set[tuple[str, str]] = set()
    questions: list[str] = []
    for cells in rows:
        if not is_valid(cells):
            counts["malformed"] += 1
            continue
        number, vendor, _, amount, currency = cells
        outcome = "paid"
        if (vendor.lower(), number.lower()) in seen:
            outcome = "duplicates"
        elif Decimal(amount) > LIMITS[currency]:
            questions.append(number)
            outcome = "paid" if answers[number]["approve"] else "rejected"
        seen.add((vendor.lower(), number.lower()))
        counts[outcome] += 1
        cents = int(amount.replace(".", ""))
        sums.setdefault(outcome, Counter())[currency] += cents
    totals: Totals = {
        outcome: (
            count,
            {currency: Decimal(cents) / 100 for currency, cents in sums.get(outcome, {}).items()},
        )
        for outcome, count in counts.items()
    }
    return Expected(questions, totals, len(rows))


def run_demo(*arguments: str) -> str:
    """The demo's output, run without a terminal."""
    command = [sys.executable, str(DEMO / "main.py"), *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def printed_totals(output: str) -> Totals:
    totals: Totals = {}
    for outcome, count, amounts in re.findall(
        r"^  (paid|rejected|malformed|duplicates) +(\d+) *(.*)$", output, re.MULTILINE
    ):
        by_currency = {
            currency: Decimal(amount.replace(",", ""))
            for amount, currency in re.findall(r"([\d,.]+) ([A-Z]{3})", amounts)
        }
        totals[outcome] = (int(count), by_currency)
    return totals


def ledger_of(output: str) -> list[dict[str, str]]:
    [name] = re.findall(r"Ledger: (.+)$", output, re.MULTILINE)
    with Path(name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_invoice_file_shows_every_case() -> None:
    facts = expected()
    assert facts.rows >= 40
    assert set(facts.totals) == {"paid", "rejected", "malformed", "duplicates"}
    assert len(facts.questions) >= 5


def test_two_runs_pause_resume_and_come_to_the_same_totals(tmp_path: Path) -> None:
    facts = expected()
    threads: set[str] = set()
    for _ in range(2):
        output = run_demo("--output", str(tmp_path))

        processes = re.findall(
            r"^\[(start|resume)\] process (\d+), thread (\S+), database (.+)$", output, re.MULTILINE
        )
        assert [step for step, *_ in processes] == ["start", "resume"]
        (_, first_pid, thread, database), (_, second_pid, same_thread, same_database) = processes
        assert first_pid != second_pid
        assert (thread, database) == (same_thread, same_database)
        assert Path(database).parent == tmp_path
        threads.add(thread)

        assert f"{len(facts.questions)} questions are open" in output
        assert re.findall(r"^  (\S+): pay ", output, re.MULTILINE) == facts.questions
        assert re.findall(r"^  (\S+): (?:yes|no), ", output, re.MULTILINE) == facts.questions

        assert printed_totals(output) == facts.totals
        assert "Supersteps: 2 before the pause, 2 after it" in output
        assert len(ledger_of(output)) == facts.rows
    assert len(threads) == 2


def test_the_ledger_holds_every_row_once_with_its_reason(tmp_path: Path) -> None:
    ledger = ledger_of(run_demo("--output", str(tmp_path)))
    assert [int(row["line"]) for row in ledger] == list(range(2, expected().rows + 2))
    answers = json.loads((DEMO / "answers.json").read_text(encoding="utf-8"))
    for number, answer in answers.items():
        [row] = [row for row in ledger if row["number"] == number and row["outcome"] != "duplicate"]
        assert (row["outcome"], row["note"]) == (
            "paid" if answer["approve"] else "rejected",
            answer["reason"],
        )
    sums = {
        currency: sum(Decimal(row["amount"]) for row in ledger if row["currency"] == currency)
        for currency in LIMITS
    }
    for currency, total in sums.items():
        assert total == sum(amounts.get(currency, 0) for _, amounts in expected().totals.values())


def test_resuming_a_finished_thread_asks_nothing_and_changes_nothing(tmp_path: Path) -> None:
    output = run_demo("--output", str(tmp_path))
    [thread] = set(re.findall(r"thread (\S+),", output))
    place = ("--database", str(tmp_path / "accounts_payable.sqlite"), "--thread", thread)
    before = ledger_of(output)
    again = run_demo("resume", *place)
    assert printed_totals(again) == expected().totals
    assert ": yes, " not in again
    assert ledger_of(again) == before


def run_on_terminal(typed: bytes, folder: Path) -> subprocess.CompletedProcess[str]:
    """The demo, with somebody who types this."""
    keyboard, terminal = os.openpty()
    try:
        os.write(keyboard, typed)
        return subprocess.run(
            [sys.executable, str(DEMO / "main.py"), "--output", str(folder)],
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=240,
        )
    finally:
        os.close(terminal)
        os.close(keyboard)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_the_questions_are_asked_there(tmp_path: Path) -> None:
    facts = expected()
    done = run_on_terminal(b"y\nseen\n" * len(facts.questions), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Why?") == len(facts.questions)
    assert "rejected" not in {row["outcome"] for row in ledger_of(done.stdout)}
    assert sum(row["note"] == "seen" for row in ledger_of(done.stdout)) == len(facts.questions)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_where_nobody_answers_on_the_terminal_the_questions_stay_open(tmp_path: Path) -> None:
    done = run_on_terminal(b"y\nseen\n\x04", tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    [place] = re.findall(r"once more: .* resume (.*)$", done.stderr, re.MULTILINE)
    assert printed_totals(run_demo("resume", *shlex.split(place))) == expected().totals
