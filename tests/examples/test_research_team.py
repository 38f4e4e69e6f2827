"""The research team, run as a user runs it: two processes on one PostgreSQL database."""

from __future__ import annotations

import pytest

from graphkit.checkpoint.postgres import PostgresSaver
from tests.agents.llm_server import LLMServer, Reply
from tests.examples.test_agents import at, run_program

LONG = [
    "steam engines pulled the first trains in 1804. Today most lines are electric.",
    "the first steamship crossed the Atlantic in 1819, for the most part under sail.",
    "the first flight with an engine lasted twelve seconds, in 1903.",
]
WAY = "planner -> assign -> researcher -> researcher -> researcher -> writer"


def test_a_report_is_edited_in_another_process(postgres_url: str) -> None:
    assert run_program("research_team/main.py", "--database", postgres_url) == [
        f"[begin] {WAY}: interrupted",
        "[draft]",
        *LONG,
        "[editor] shorter, please",
        "[draft]",
        "steam engines pulled the first trains in 1804.",
        *LONG[1:],
        "[editor] ok",
        "[edit] completed after 9 executions",
    ]


def test_with_a_real_model(postgres_url: str) -> None:
    pytest.importorskip("pydantic_ai")

    def answer(body: object) -> Reply:
        """By who is asked: the members have different system prompts."""
        for task, reply in {
            "Name the topics": Reply(text="- trains\n- ships"),
            "Search the library": Reply(text="A fact."),
            "Write the report": Reply(text="A report."),
        }.items():
            if task in str(body):
                return reply
        raise AssertionError(body)

    with LLMServer(*[answer] * 4) as server:
        environment = {**at(server, "openai-chat:any"), "GRAPHKIT_DATABASE": postgres_url}
        lines = run_program("research_team/main.py", "begin", "--report", "r", **environment)
    assert lines == ["[begin] planner -> assign -> researcher -> researcher -> writer: interrupted"]
    with PostgresSaver(postgres_url) as saver:
        [thread] = saver.thread_ids()
        found = saver.get_tuple({"configurable": {"thread_id": thread}})
    assert "A report." in str(found)
