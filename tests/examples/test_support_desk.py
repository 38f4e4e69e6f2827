"""The support desk, run as a user runs it: two processes on one SQLite file."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphkit.checkpoint.sqlite import SqliteSaver
from tests.agents.llm_server import LLMServer, Reply
from tests.examples.test_agents import at, run_program

TAKEN = [
    "    refund A-17: $40",
    "[take] ada: Done: $40 will arrive in three days.",
    "[take] grace: waits for a colleague",
    "[take] emmy: waits for a colleague",
    "[take] mary: I am sorry. Error: there is no order Z-1",
]


def test_large_refunds_wait_for_a_colleague(tmp_path: Path) -> None:
    folder = tmp_path / "is made"
    for _ in range(2):
        assert run_program("support_desk/main.py", "--output", str(folder)) == [
            *TAKEN,
            "[decide] emmy: refund {'order_id': 'C-9', 'amount': 900}? she has had it for a year",
            "[decide] emmy: I am sorry. The call of the tool refund was not approved: she has had it for a year",
            "[decide] grace: refund {'order_id': 'B-3', 'amount': 320}? yes",
            "    refund B-3: $320",
            "[decide] grace: Done: $320 will arrive in three days.",
        ]
    with SqliteSaver(folder / "desk.sqlite") as saver:
        assert sorted(saver.thread_ids()) == ["ada", "emmy", "grace", "mary"]


def test_with_a_real_model(tmp_path: Path) -> None:
    pytest.importorskip("pydantic_ai")

    def says(*tools: tuple[str, dict[str, object], str], text: str | None = None) -> Reply:
        return Reply(text=text, tools=tools)

    with LLMServer(
        says(("find_order", {"order_id": "A-17"}, "t1")),
        says(("refund", {"order_id": "A-17", "amount": 40}, "t2")),
        says(text="Paid."),
        says(("refund", {"order_id": "B-3", "amount": 320}, "t3")),
        says(text="What would you like instead?"),
        says(text="There is no such order."),
    ) as server:
        variables = at(server, "openai-chat:any")
        lines = run_program("support_desk/main.py", "take", "--output", str(tmp_path), **variables)
    assert lines == [
        "    refund A-17: $40",
        "[take] ada: Paid.",
        "[take] grace: waits for a colleague",
        "[take] emmy: What would you like instead?",
        "[take] mary: There is no such order.",
    ]
