"""The examples about teams, run as a user runs them."""

from tests.examples.test_agents import run


def test_swarm() -> None:
    assert run("swarm") == [
        "[asked] refund $40?",
        "[refund] $40",
        "triage -> billing",
        "triage: This is for billing.",
        "billing: Your $40 are on their way.",
    ]


def test_planner() -> None:
    assert run("planner") == [f"I have read all about {part}." for part in ("trains", "ships", "planes")]
