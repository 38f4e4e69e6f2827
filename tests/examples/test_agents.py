"""The examples about agents, run as a user runs them: with their scripts, and with a model behind real protocols."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.llm_server import LLMServer, Reply

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(example: str, *arguments: str, **variables: str) -> list[str]:
    """What an example about agents prints."""
    return run_program(f"agents/{example}.py", *arguments, **variables)


def run_program(path: str, *arguments: str, **variables: str) -> list[str]:
    """What an example prints that has no terminal; with these variables beside those of the environment."""
    command = [sys.executable, "-u", str(EXAMPLES / path), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "GRAPHKIT_MODEL"} | variables
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.fixture(params=["openai-chat:any"])
def model(request: pytest.FixtureRequest) -> str:
    pytest.importorskip("pydantic_ai")
    named: str = request.param
    return named


both = pytest.mark.parametrize("model", ["openai-chat:any", "anthropic:any"], indirect=True)


def at(server: LLMServer, model: str) -> dict[str, str]:
    """The environment in which this server is the provider."""
    return {
        "GRAPHKIT_MODEL": model,
        "OPENAI_API_KEY": "key",
        "ANTHROPIC_API_KEY": "key",
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "ANTHROPIC_BASE_URL": server.url,
    }


STARTED = [
    "[tool] find_order A-17",
    "[start] stopped because of interrupt",
    "[start] open: refund {'order_id': 'A-17', 'amount': 40}",
]


def test_support(tmp_path: Path) -> None:
    for _ in range(2):
        assert run("support", "--output", str(tmp_path)) == [
            *STARTED,
            "[resume] 3 messages are there, 1 question is open; answer: yes",
            "[tool] refund A-17: $40",
            "[resume] stopped because of end_turn: Your money is on its way.",
        ]
    assert run("support")[:3] == STARTED


def test_support_that_is_denied() -> None:
    assert run("support", "--deny") == [
        *STARTED,
        "[resume] 3 messages are there, 1 question is open; answer: no",
        "[resume] stopped because of end_turn: I am sorry, I cannot refund this.",
    ]


@both
def test_support_with_a_real_model(model: str) -> None:
    with LLMServer(
        Reply(text="Let me see.", tools=[("find_order", {"order_id": "A-17"}, "t1")]),
        Reply(tools=[("refund", {"order_id": "A-17", "amount": 40}, "t2")]),
        Reply(text="Done."),
    ) as server:
        lines = run("support", **at(server, model))
    assert lines[:3] == STARTED
    assert lines[4:] == ["[tool] refund A-17: $40", "[resume] stopped because of end_turn: Done."]
    assert len(server.seen) == 3
    assert "lamp" in str(server.seen[1][1])


def test_streaming() -> None:
    assert run("streaming") == [
        "[calls search with {'words': 'graph engines'}]",
        "[search: looking for graph engines]",
        "[search: 2 books found]",
        "[result: 2 books found]",
        "Ther|e ar|e tw|o: t|he o|ne o|f 17|36, |and |this| one|.|",
        "end_turn after 30 tokens",
    ]


def test_streaming_with_a_real_model(model: str) -> None:
    with LLMServer(Reply(tools=[("search", {"words": "x"}, "t1")]), Reply(text="There are two.")) as server:
        lines = run("streaming", **at(server, model))
    assert lines[0] == "[calls search with {'words': 'x'}]"
    assert lines[-2:] == ["There a|re two.|", "end_turn after 36 tokens"]


def test_structured() -> None:
    assert run("structured") == [
        "error: {'day': 'in December', 'people': ['Ada', 'Grace'], 'topic': 'engines'}",
        "success: {'day': '2026-12-10', 'people': ['Ada', 'Grace', 'Emmy'], 'topic': 'engines'}",
        "10.12.2026, engines: Ada, Grace, Emmy",
    ]


def test_structured_with_a_real_model(model: str) -> None:
    meeting = {"day": "2026-12-10", "people": ["Ada"], "topic": "engines"}
    with LLMServer(Reply(tools=[("Meeting", meeting, "t1")])) as server:
        assert run("structured", **at(server, model)) == [f"success: {meeting}", "10.12.2026, engines: Ada"]
    assert "First names of everybody" in str(server.seen[0][1]["tools"])


def test_middleware() -> None:
    assert run("middleware") == [
        "interrupt: 905",
        "ordered desk",
        "order desk: success",
        "ordered pens",
        "order pens: success",
        "ordered lamp",
        "order lamp: success",
        "counted pens",
        "stock pens: success",
        "budget_exceeded: 3 turns",
        "All is ordered.",
    ]
