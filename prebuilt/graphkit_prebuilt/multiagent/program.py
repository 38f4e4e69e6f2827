"""An orchestrator's graph: its members, and one node that says who is next.

    START -> __next__ -> members (one task for each execution) -> __next__ ... -> END

`__next__` sees the results of everything that ran before it, so what it decides does not depend on who was faster. A
member that has run alone sees them too, and says itself who is next where nobody hears of it.
Members are sent to in the order that it gives, which is that of their writes, results and questions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphkit.channels import (
    BaseChannel,
    BinaryOperatorAggregate,
    EphemeralValue,
    LastValue,
    Topic,
)
from graphkit.constants import START, TAG_HIDDEN
from graphkit.engine.program import Callee, NodeSpec, Program, Seen, Shape, Vocabulary
from graphkit.errors import NodeTimeoutError
from graphkit.frame import Frame, running
from graphkit.types import Interrupt, TimeoutPolicy
from graphkit_prebuilt.halting import carry_out, questions_in
from graphkit_prebuilt.host_thread import recorded_of
from graphkit_prebuilt.log import Keyed
from graphkit_prebuilt.loop import steps
from graphkit_prebuilt.loop.invocation import here
from graphkit_prebuilt.multiagent.edges import closing, opening
from graphkit_prebuilt.multiagent.execution import execute, time_out
from graphkit_prebuilt.multiagent.invocation import TeamInvocation
from graphkit_prebuilt.multiagent.results import total
from graphkit_prebuilt.multiagent.scheduling import NEXT, choose_next
from graphkit_prebuilt.plugin_pieces import Stamped
from graphkit_prebuilt.prompts import refused

if TYPE_CHECKING:
    from graphkit_prebuilt.multiagent.base import MultiAgentBase

WHOLE: Final = Shape(None)
Body = Callable[..., steps.Steps[Any]]


def program_of(team: MultiAgentBase, *, opens: bool, closes: bool, admits: bool = True) -> Program:
    """The graph of an orchestrator, attended by what is heard of its edges. It is run with a `TeamInvocation` as its
    context; without one, every task is a call of its own."""
    channels = _channels()
    nodes = {NEXT: _node(NEXT, _callee(team, NEXT, choose_next), metadata={"tags": [TAG_HIDDEN]})}
    member, handler = _callee(team, "member", execute), _callee(team, "member", time_out)
    for name in team.nodes:
        nodes[name] = _node(
            name,
            member,
            sees_state=True,
            queued=True,
            handler=handler,
            handles=NodeTimeoutError,
            timeout=TimeoutPolicy.coerce(team.node_timeout),
        )
    return Program(
        name=team.id,
        channels=channels,
        nodes=nodes,
        entry=NodeSpec(name=START, callee=Callee(START, _as_it_is, None), shape=WHOLE, successors=(NEXT,)),
        joins=(),
        input_keys=frozenset(channels),
        output=WHOLE,
        words=Vocabulary(frozenset(channels), frozenset(nodes)),
        opening=_node("__opening__", _callee(team, "__opening__", opening), sees_state=True),
        closing=_node("__closing__", _callee(team, "__closing__", closing), sees_state=True),
        attended=frozenset(edge for edge, is_heard in (("opening", opens), ("closing", closes)) if is_heard),
        admits=_admit if admits else None,
    )


def _channels() -> dict[str, BaseChannel[Any]]:
    """`task`: what the turn was given; `new`: that it begins (False: that it goes on after it had ended). Of the turn:
    `results` by key, `order` of the nodes, `totals` of usage, `spent` milliseconds, `own`, which the kind of
    orchestrator keeps, and `outcome`. Of the last superstep: `ended`, `sends`, and what is `undone`. `app` is the
    user's, and stays. `plugins` and `turn` are what plugins keep."""
    return {
        "task": LastValue(Any, "task"),
        "new": EphemeralValue(bool, key="new"),
        "results": Keyed(dict, "results"),
        "order": BinaryOperatorAggregate(list, operator.add, "order"),
        "totals": BinaryOperatorAggregate(dict, total, "totals"),
        "spent": LastValue(int, "spent"),
        "own": Keyed(dict, "own"),
        "outcome": LastValue(dict, "outcome"),
        "ended": Topic(str, key="ended"),
        "sends": Topic(dict, key="sends"),
        "undone": Topic(dict, key="undone"),
        "app": Keyed(dict, "app"),
        "plugins": Stamped(dict, "plugins"),
        "turn": Stamped(dict, "turn"),
    }


def _admit(questions: Sequence[Interrupt]) -> None:
    if asked := questions_in(questions):  # a new task leaves what was halted
        raise refused(asked)


def _node(name: str, callee: Callee, **fields: Any) -> NodeSpec:
    return NodeSpec(name=name, callee=callee, shape=WHOLE, **fields)


def _callee(team: MultiAgentBase, name: str, body: Body) -> Callee:
    """What a node does, in both colours. It is part of a request, which everything in it finds in `here`."""

    def call(*args: Any) -> Any:
        frame = running(name)
        inv = _entered(team, frame, args[0])
        token = here.set(inv)
        try:
            return steps.blocking(body(inv, frame, *args), frame.attempt.scope.depth)
        except BaseException as error:
            carry_out(error)
            raise
        finally:
            here.reset(token)

    async def acall(*args: Any) -> Any:
        frame = running(name)
        inv = _entered(team, frame, args[0])
        token = here.set(inv)
        try:
            return await steps.awaited(body(inv, frame, *args), frame.attempt.scope.depth)
        except BaseException as error:
            carry_out(error)
            raise
        finally:
            here.reset(token)

    return Callee(name, call, acall)


def _entered(team: MultiAgentBase, frame: Frame, arg: Any) -> TeamInvocation:
    inv = frame.attempt.scope.live.context
    if type(inv) is not TeamInvocation or inv.source is not team:
        given = inv if isinstance(inv, dict) else {}
        inv = TeamInvocation(source=team, invocation_state=given, thread_id=frame.attempt.scope.thread_id)
    elif frame.attempt.past is not None and inv.recorded is None:
        inv.recorded = partial(recorded_of, team, frame.attempt.scope)
    inv.values = arg.view if type(arg) is Seen else arg
    return inv


def _as_it_is(state: Any) -> Any:
    return state
