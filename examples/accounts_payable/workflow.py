"""The accounts-payable workflow: what happens to an invoice between the mailbox and the ledger.

    validate → deduplicate → decide (one task per invoice) → write_ledger

Small invoices are paid without asking. A large one asks a person with `interrupt`: its task stops there,
the others go on, and the run ends. Whoever answers, in whatever process and on whatever day, resumes it.
Every row of the invoice file ends up in the ledger exactly once, whatever became of it.
"""

from __future__ import annotations

import csv
import datetime
import operator
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from graphkit import END, START, Send, StateGraph, interrupt

# Up to its currency's limit an invoice is paid without asking. Other currencies are not accepted.
APPROVAL_LIMITS = {"EUR": Decimal("1000.00"), "USD": Decimal("1100.00")}

Outcome = Literal["paid", "rejected", "malformed", "duplicate"]


@dataclass(frozen=True)
class Invoice:
    """A valid row of the invoice file; `line` is where it stands there."""

    line: int
    number: str
    vendor: str
    date: datetime.date
    amount: Decimal
    currency: str


@dataclass(frozen=True)
class LedgerEntry:
    """What became of one row. A malformed row has no amount that could be trusted."""

    line: int
    number: str
    vendor: str
    outcome: Outcome
    amount: Decimal | None
    currency: str | None
    note: str


class State(TypedDict, total=False):
    """What the nodes share. `entries` has a reducer: tasks that run side by side each add their own."""

    invoice_file: str
    ledger_file: str
    invoices: list[Invoice]
    entries: Annotated[list[LedgerEntry], operator.add]


class DecideInput(TypedDict):
    """What `fan_out` sends to one task of `decide`."""

    invoice: Invoice


def validate(state: State) -> State:
    """Read the invoice file and set aside what is not an invoice."""
    invoices: list[Invoice] = []
    malformed: list[LedgerEntry] = []
    for line, row in read_rows(Path(state["invoice_file"])):
        try:
            invoices.append(parse_invoice(line, row))
        except ValueError as error:
            malformed.append(
                LedgerEntry(line, row["number"], row["vendor"], "malformed", None, None, note=str(error))
            )
    return {"invoices": invoices, "entries": malformed}


def deduplicate(state: State) -> State:
    """Keep the first of several invoices with the same vendor and number, however they are spelled."""
    first_lines: dict[tuple[str, str], int] = {}
    kept: list[Invoice] = []
    repeated: list[LedgerEntry] = []
    for invoice in state["invoices"]:
        key = (invoice.vendor.casefold(), invoice.number.casefold())
        first_line = first_lines.setdefault(key, invoice.line)
        if first_line == invoice.line:
            kept.append(invoice)
        else:
            repeated.append(entry(invoice, "duplicate", f"repeats line {first_line}"))
    return {"invoices": kept, "entries": repeated}


def fan_out(state: State) -> list[Send] | str:
    """One task per invoice, so that those waiting for an answer do not hold up the others."""
    return [Send("decide", {"invoice": invoice}) for invoice in state["invoices"]] or "write_ledger"


def decide(task: DecideInput) -> State:
    """Pay a small invoice; ask about a large one and do as the answer says."""
    invoice = task["invoice"]
    limit = APPROVAL_LIMITS[invoice.currency]
    if invoice.amount <= limit:
        return {"entries": [entry(invoice, "paid", "within the limit")]}
    # On resume this function runs again from its top, and `interrupt` returns the answer.
    answer = interrupt(
        {
            "number": invoice.number,
            "vendor": invoice.vendor,
            "amount": str(invoice.amount),
            "currency": invoice.currency,
            "limit": str(limit),
        }
    )
    outcome: Outcome = "paid" if answer["approve"] else "rejected"
    return {"entries": [entry(invoice, outcome, answer["reason"])]}


def write_ledger(state: State) -> State:
    """Write the ledger file, in the order of the invoice file.

    A node may run twice when a process dies between its effect and the checkpoint. That is harmless here:
    the whole file is written under another name and then put in place in one move.
    """
    target = Path(state["ledger_file"])
    draft = target.with_suffix(".draft")
    with draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(LedgerEntry)])
        writer.writeheader()
        writer.writerows(asdict(one) for one in sorted(state["entries"], key=operator.attrgetter("line")))
    os.replace(draft, target)
    return {}


def build_graph() -> StateGraph[Any]:
    """The graph, still without a checkpointer: `build_graph().compile(checkpointer=saver)`."""
    graph = StateGraph(State)
    graph.add_node("validate", validate)
    graph.add_node("deduplicate", deduplicate)
    graph.add_node("decide", decide)
    graph.add_node("write_ledger", write_ledger)
    graph.add_edge(START, "validate")
    graph.add_edge("validate", "deduplicate")
    graph.add_conditional_edges("deduplicate", fan_out, ["decide", "write_ledger"])
    graph.add_edge("decide", "write_ledger")
    graph.add_edge("write_ledger", END)
    return graph


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with their line numbers, blanks trimmed; missing cells are empty."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file, restkey="surplus", restval="")
        for row in reader:
            yield reader.line_num, {name: " ".join(str(cell).split()) for name, cell in row.items()}


def parse_invoice(line: int, row: dict[str, str]) -> Invoice:
    """The invoice in a row. Raises `ValueError` saying what is wrong with it."""
    if "surplus" in row:
        raise ValueError("too many cells")
    for name in ("number", "vendor", "date", "amount", "currency"):
        if not row[name]:
            raise ValueError(f"no {name}")
    if row["currency"] not in APPROVAL_LIMITS:
        raise ValueError(f"currency {row['currency']} is not accepted")
    date = datetime.date.fromisoformat(row["date"])
    return Invoice(line, row["number"], row["vendor"], date, parse_amount(row["amount"]), row["currency"])


def parse_amount(text: str) -> Decimal:
    """A positive amount in whole cents."""
    try:
        amount = Decimal(text)
        cents = amount.quantize(Decimal("0.01"))
    except InvalidOperation:
        raise ValueError(f"{text} is not an amount") from None
    if not amount.is_finite() or amount != cents or amount <= 0:
        raise ValueError(f"{text} is not a positive amount in whole cents")
    return cents


def entry(invoice: Invoice, outcome: Outcome, note: str) -> LedgerEntry:
    return LedgerEntry(
        invoice.line, invoice.number, invoice.vendor, outcome, invoice.amount, invoice.currency, note
    )
