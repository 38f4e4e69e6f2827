"""The samples on resuming an invocation from `AfterInvocationEvent`, with only the imports changed."""

from __future__ import annotations

import sys

import pytest

from graphkit import Agent, tool
from graphkit.hooks import (
    AfterInvocationEvent,
    BeforeInvocationEvent,
    BeforeToolCallEvent,
    InterruptEvent,
)
from graphkit.models import ScriptedModel
from graphkit.models.scripted import ToolCall
from graphkit.types import Interrupt

pytestmark = pytest.mark.usefixtures("either_colour")


def said(agent: Agent) -> list[tuple[str, str]]:
    """Who said what: the texts of a conversation."""
    return [
        (message["role"], block["text"])
        for message in agent.messages
        for block in message["content"]
        if "text" in block
    ]


# --- One follow-up --------------------------------------------------------------------------------------

resume_count = 0


async def summarize_after_tools(event: AfterInvocationEvent):  # type: ignore[no-untyped-def]
    """Resume once to ask the model to summarize its work."""
    global resume_count
    if resume_count == 0 and event.result and event.result.stop_reason == "end_turn":
        resume_count += 1
        event.resume = "Now summarize what you just did in one sentence."


def test_a_follow_up_invocation(model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """S141, S148: a full cycle of its own."""
    monkeypatch.setattr(sys.modules[__name__], "resume_count", 0)
    model.turns = ["It rains in Seattle.", "I looked up the weather."]

    agent = Agent()
    agent.add_hook(summarize_after_tools)
    begun: list[BeforeInvocationEvent] = []
    agent.add_hook(begun.append, BeforeInvocationEvent)

    # The agent processes the initial request, then automatically
    # performs a second invocation to generate the summary
    result = agent("Look up the weather in Seattle")

    assert str(result) == "I looked up the weather.\n"
    assert len(begun) == 2
    assert said(agent) == [
        ("user", "Look up the weather in Seattle"),
        ("assistant", "It rains in Seattle."),
        ("user", "Now summarize what you just did in one sentence."),
        ("assistant", "I looked up the weather."),
    ]


# --- A chain --------------------------------------------------------------------------------------------

MAX_ITERATIONS = 3
iteration = 0


async def iterative_refinement(event: AfterInvocationEvent):  # type: ignore[no-untyped-def]
    """Re-invoke the agent up to MAX_ITERATIONS times for iterative refinement."""
    global iteration
    if iteration < MAX_ITERATIONS and event.result:
        iteration += 1
        event.resume = (
            f"Review your previous response and improve it. Iteration {iteration} of {MAX_ITERATIONS}."
        )


def test_a_chain_of_invocations(model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """S142, S149: the caller gets only the last result."""
    monkeypatch.setattr(sys.modules[__name__], "iteration", 0)
    model.turns = ["draft", "better", "still better", "best"]

    agent = Agent()
    agent.add_hook(iterative_refinement)

    result = agent("Draft a haiku about programming")

    assert str(result) == "best\n"
    assert iteration == MAX_ITERATIONS
    assert [text for role, text in said(agent) if role == "user"][1:] == [
        f"Review your previous response and improve it. Iteration {number} of 3." for number in (1, 2, 3)
    ]


# --- Questions ------------------------------------------------------------------------------------------


@tool
def send_email(to: str, body: str) -> str:
    """Send an email.

    Args:
        to: Recipient address.
        body: Email body.
    """
    return f"Email sent to {to}"


def require_approval(event: BeforeToolCallEvent):  # type: ignore[no-untyped-def]
    """Interrupt before sending emails to require approval."""
    if event.tool_use["name"] == "send_email":
        event.interrupt("email_approval", reason="Approve this email?")


async def auto_approve(event: AfterInvocationEvent):  # type: ignore[no-untyped-def]
    """Automatically approve all interrupted tool calls."""
    if event.result and event.result.stop_reason == "interrupt":
        responses = [
            {"interruptResponse": {"interruptId": intr.id, "response": "approved"}}
            for intr in event.result.interrupts
        ]
        event.resume = responses


EMAIL = ToolCall("send_email", {"to": "alice@example.com", "body": "hello"})


def test_questions_are_answered_by_a_hook(model: ScriptedModel) -> None:
    """S143."""
    model.turns = [EMAIL, "I have sent it."]

    agent = Agent(tools=[send_email])
    agent.add_hook(require_approval)
    agent.add_hook(auto_approve)

    # The interrupt is handled automatically by the hook—
    # the caller receives the final result directly
    result = agent("Send an email to alice@example.com saying hello")

    assert (result.stop_reason, str(result)) == ("end_turn", "I have sent it.\n")
    assert result.interrupts is None
    assert len(model.requests) == 2
    results = [block["toolResult"]["content"] for block in agent.messages[2]["content"]]
    assert results == [[{"text": "Email sent to alice@example.com"}]]


def test_questions_are_collected_as_they_fire(model: ScriptedModel) -> None:
    """S144, the TypeScript sample."""
    model.turns = [[EMAIL, EMAIL], "I have sent both."]
    agent = Agent(tools=[send_email])

    # Track interrupts as they fire so AfterInvocationEvent can build resume input.
    pending_interrupts: list[Interrupt] = []

    def require(event: BeforeToolCallEvent) -> None:
        if event.tool_use.name == "send_email":
            event.interrupt(name="email_approval", reason="Approve this email?")

    agent.add_hook(require, BeforeToolCallEvent)

    agent.add_hook(lambda event: pending_interrupts.append(event.interrupt), InterruptEvent)

    approved: list[int] = []

    def approve(event: AfterInvocationEvent) -> None:
        if len(pending_interrupts) == 0:
            return
        # Auto-approve every interrupted tool call so the caller never sees the interrupt.
        event.resume = [
            {
                "interruptResponse": {
                    "interruptId": interrupt.id,
                    "response": "approved",
                },
            }
            for interrupt in pending_interrupts
        ]
        approved.append(len(pending_interrupts))
        pending_interrupts.clear()

    agent.add_hook(approve, AfterInvocationEvent)

    result = agent("Send an email to alice@example.com saying hello")

    assert (result.stop_reason, str(result)) == ("end_turn", "I have sent both.\n")
    assert approved == [2]
    assert len(agent.messages[2]["content"]) == 2


def test_a_string_while_questions_are_open_is_an_error(model: ScriptedModel) -> None:
    """S150: the questions stay open."""
    model.turns = [EMAIL, "I have sent it."]
    agent = Agent(tools=[send_email])
    agent.add_hook(require_approval)
    wrong = [True]

    def answers_with_text(event: AfterInvocationEvent) -> None:
        if wrong[0] and event.result and event.result.stop_reason == "interrupt":
            event.resume = "go on"

    agent.add_hook(answers_with_text)
    with pytest.raises(TypeError):
        agent("Send an email to alice@example.com saying hello")

    wrong[0] = False
    result = agent()
    assert result.stop_reason == "interrupt"
    responses = [
        {"interruptResponse": {"interruptId": each.id, "response": "approved"}}
        for each in result.interrupts or ()
    ]
    assert str(agent(responses)) == "I have sent it.\n"
