"""The edges of a request that does not begin or end with a turn: it goes on with answers, or comes to rest."""

from __future__ import annotations

from typing import Any

from graphkit.constants import END
from graphkit.engine.program import Closing, Seen
from graphkit.engine.resume import response_blocks
from graphkit.errors import InvalidPromptError
from graphkit.frame import Frame
from graphkit.types import Command
from graphkit_prebuilt.content import assistant, user
from graphkit_prebuilt.conversation import copied, dangling, last
from graphkit_prebuilt.halting import halts_in, questions_in
from graphkit_prebuilt.hooks.catalogue import (
    AfterInvocationEvent,
    AfterToolsEvent,
    AgentResultEvent,
    BeforeInvocationEvent,
    InterruptEvent,
)
from graphkit_prebuilt.hooks.firing import fire, heard
from graphkit_prebuilt.loop.before import denial
from graphkit_prebuilt.loop.invocation import Invocation
from graphkit_prebuilt.loop.steps import Steps
from graphkit_prebuilt.plugin_state import settle
from graphkit_prebuilt.prompts import read_prompt
from graphkit_prebuilt.result import AgentResult, result_of


def opening(inv: Invocation, frame: Frame, seen: Seen) -> Steps[Any]:
    """The request goes on with what is unfinished. Where that is how a request begins, `before` tells of it."""
    if "before" in seen.arg or not heard(inv, BeforeInvocationEvent):
        return inv.settled({})
    event = BeforeInvocationEvent(inv.agent, invocation_state=inv.invocation_state)
    yield from fire(inv, event, "before_invocation")
    if not event.cancel:
        return inv.settled({})
    inv.denied = assistant(denial(event.cancel))
    result = result_of(inv, seen.view)
    yield from _tell(inv, result)
    yield from _ended(inv, result)
    return Command(update=inv.settled({}), goto=END)


def closing(inv: Invocation, frame: Frame, seen: Seen) -> Steps[Any]:
    """The request comes to rest: with questions, or with an error."""
    why: Closing = seen.arg
    questions, inv.halts = questions_in(why.questions), halts_in(why.questions)
    settle(inv, frame)
    log = seen.view.get("messages") or []
    in_tools = "tools" in why.nodes or any(question.node == "tools" for question in why.questions)
    if in_tools and log and dangling(log[-1]) and heard(inv, AfterToolsEvent):
        results = frame.kept.get("results") or last(why.view)
        if dangling(results):  # no call has one
            results = user()
        frame.keep("results", results)  # callbacks that ask are called again, and find these
        ended = AfterToolsEvent(inv.agent, message=copied(results), invocation_state=inv.invocation_state)
        yield from fire(inv, ended, "after_tools")
    result = None
    if why.error is None:
        if heard(inv, InterruptEvent):
            for question in questions:
                asked = InterruptEvent(inv.agent, interrupt=question, invocation_state=inv.invocation_state)
                asked.__dict__["tool_use"] = inv.asking.get(question.id)
                yield from fire(inv, asked, f"interrupt:{question.id}")
        result = result_of(inv, seen.view, why.questions)
    yield from _tell(inv, result)
    if "after" in why.nodes:  # that the request ends was told there
        return inv.settled({})
    resume = yield from _ended(inv, result)
    inv.halts = ()
    if resume is None or result is None:
        return inv.settled({})
    given = read_prompt(resume)
    if given.kind != "answers" and not questions:
        raise InvalidPromptError(
            f"AfterInvocationEvent.resume is {resume!r:.100} while the agent is halted ({result.stop_reason!r}); "
            f"agent.resume() goes on, or agent() with a new prompt"
        )
    if given.kind != "answers":
        raise InvalidPromptError(
            f"AfterInvocationEvent.resume is {resume!r:.100} while questions are open; it can only answer them"
        )
    answers = given.answers
    resume = answers.resume if isinstance(answers, Command) else response_blocks(answers)
    return Command(update=inv.settled({}), resume=resume)


def _tell(inv: Invocation, result: AgentResult | None) -> Steps[None]:
    """What the request comes to, if that is a result."""
    if result is not None and heard(inv, AgentResultEvent):
        shown = AgentResultEvent(inv.agent, result=result, invocation_state=inv.invocation_state)
        yield from fire(inv, shown, "result")


def _ended(inv: Invocation, result: AgentResult | None) -> Steps[Any]:
    """The last event of a request; returns with what it is to go on."""
    if not heard(inv, AfterInvocationEvent):
        return None
    event = AfterInvocationEvent(inv.agent, invocation_state=inv.invocation_state, result=result)
    yield from fire(inv, event, "after_invocation")
    return event.resume
