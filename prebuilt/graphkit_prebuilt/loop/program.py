"""An agent's graph: its nodes and channels, made without a builder.

    START -> before -> model -> batch -> tools (one task per call) -> model ... -> after -> END

The nodes choose the way: one whose events nobody hears is not entered. Only where a run starts is fixed by the graph,
so there is one variant for each answer to "who hears the edges of a request?"; their channels are the same, and a
thread goes from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from graphkit.channels import BaseChannel, EphemeralValue, LastValue
from graphkit.constants import START
from graphkit.engine.program import Callee, NodeSpec, Program, Seen, Shape, Vocabulary
from graphkit.frame import Frame, running
from graphkit.types import Interrupt
from graphkit_prebuilt.halting import carry_out, questions_in
from graphkit_prebuilt.host_thread import recorded_of
from graphkit_prebuilt.log import Keyed, Log
from graphkit_prebuilt.loop import steps
from graphkit_prebuilt.loop.after import after
from graphkit_prebuilt.loop.batch import batch
from graphkit_prebuilt.loop.before import before
from graphkit_prebuilt.loop.edges import closing, opening
from graphkit_prebuilt.loop.invocation import Invocation, here
from graphkit_prebuilt.loop.model import model
from graphkit_prebuilt.loop.tools import tools
from graphkit_prebuilt.plugin_pieces import Stamped
from graphkit_prebuilt.prompts import refused

WHOLE = Shape(None)
"""What every node sees: the state as it is."""

Body = Callable[[Invocation, Frame, Any], steps.Steps[Any]]


class Heard(NamedTuple):
    """Whether anybody hears how a request begins (`before`), that it goes on (`opening`), and how it comes to rest
    without having ended (`closing`)."""

    before: bool = False
    opening: bool = False
    closing: bool = False


EVERYTHING: Final = Heard(before=True, opening=True, closing=True)


def program_of(agent: Any, heard: Heard, in_order: bool = False) -> Program:
    """The graph of an agent, in the variant that enters no more than is heard. The calls of one message run one after
    the other if they are `in_order`.

    It is run with an `Invocation` as its context. The variant that hears everything may be run without: every task is
    then a request of its own.
    """
    return _program(agent, heard, in_order) if all(heard) else _shared(heard, in_order)


@lru_cache(maxsize=64)
def _shared(heard: Heard, in_order: bool) -> Program:
    return _program(None, heard, in_order)


def _program(agent: Any, heard: Heard, in_order: bool) -> Program:
    def node(name: str, body: Body, **fields: Any) -> NodeSpec:
        return _node(agent, name, body, **fields)

    channels = _channels()
    nodes = {
        "before": node("before", before),
        "model": node("model", model),
        "batch": node("batch", batch),
        "tools": node("tools", tools, successors=("model",), sees_state=True, in_order=in_order, queued=True),
        "after": node("after", after),
    }
    return Program(
        name="agent",
        channels=channels,
        nodes=nodes,
        entry=NodeSpec(
            name=START,
            callee=Callee(START, _as_it_is, None),
            shape=WHOLE,
            successors=("before" if heard.before else "model",),
        ),
        joins=(),
        input_keys=frozenset(channels),
        output=WHOLE,
        words=Vocabulary(frozenset(channels), frozenset(nodes)),
        opening=node("opening", opening, sees_state=True),
        closing=node("closing", closing, sees_state=True),
        attended=frozenset(edge for edge in ("opening", "closing") if getattr(heard, edge)),
        keeps_finished=True,
        admits=_admit,
    )


def _channels() -> dict[str, BaseChannel[Any]]:
    return {
        "messages": Log(list, "messages"),
        "edits": Keyed(dict, "edits"),
        "state": Keyed(dict, "state"),
        "plugins": Stamped(dict, "plugins"),
        "turn": Stamped(dict, "turn"),
        "prompt": EphemeralValue(list, key="prompt"),
        "outcome": LastValue(dict, "outcome"),
    }


def _admit(questions: Sequence[Interrupt]) -> None:
    if asked := questions_in(questions):  # a new prompt leaves what was halted
        raise refused(asked)


def _node(agent: Any, name: str, body: Body, **fields: Any) -> NodeSpec:
    """A node of both colours. What it does is part of its request, which everything in it finds in `here`."""

    def call(arg: Any) -> Any:
        frame = running(name)
        inv = _entered(agent, frame, arg)
        token = here.set(inv)
        try:
            return steps.blocking(body(inv, frame, arg), frame.attempt.scope.depth)
        except BaseException as error:
            inv.hold(frame)
            carry_out(error)
            raise
        finally:
            here.reset(token)

    async def acall(arg: Any) -> Any:
        frame = running(name)
        inv = _entered(agent, frame, arg)
        token = here.set(inv)
        try:
            return await steps.awaited(body(inv, frame, arg), frame.attempt.scope.depth)
        except BaseException as error:
            inv.hold(frame)
            carry_out(error)
            raise
        finally:
            here.reset(token)

    return NodeSpec(name=name, callee=Callee(name, call, acall), shape=WHOLE, **fields)


def _entered(agent: Any, frame: Frame, arg: Any) -> Invocation:
    inv = frame.attempt.scope.live.context
    if type(inv) is not Invocation:
        given = inv if isinstance(inv, dict) else {}
        inv = Invocation(agent=agent, thread_id=frame.attempt.scope.thread_id, invocation_state=given)
    elif frame.attempt.past is not None and inv.recorded is None:
        inv.recorded = partial(recorded_of, inv.agent, frame.attempt.scope)
    inv.enter(arg.view if type(arg) is Seen else arg)
    return inv


def _as_it_is(state: Any) -> Any:
    return state
