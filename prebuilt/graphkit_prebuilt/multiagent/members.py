"""What may be a member of an orchestrator, and what it is called there."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from graphkit_prebuilt.agent import DEFAULT_NAME, Agent
from graphkit_prebuilt.multiagent.base import MultiAgentBase, checked_id
from graphkit_prebuilt.multiagent.executors import AgentExecutor, FunctionExecutor, TeamExecutor
from graphkit_prebuilt.multiagent.nested import sessionless
from graphkit_prebuilt.multiagent.nodes import Executor, Join, Node
from graphkit_prebuilt.sessions.manager import DEFAULT_AGENT_ID

Members = Sequence[Any] | Mapping[str, Any]


def member(executor: Any, node_id: str | None, others: Mapping[str, Node], join: Join = "any") -> Node:
    """The node of an agent, a function or an orchestrator, beside `others`. Without an id, it is the executor's own:
    its id, else its name.

    Raises `TypeError` for what cannot be a member; `ValueError` for an id that is taken or cannot be one, for an object
    that is a member already, and for an agent with a session of its own.
    """
    work = work_of(executor)
    if join not in ("any", "all"):
        raise ValueError(f"join is 'any' or 'all', not {join!r:.100}")
    name = checked_id(_name_of(executor, len(others)) if node_id is None else node_id, "node")
    return _beside(Node(name, executor, work, join), others)


def _beside(node: Node, others: Mapping[str, Node]) -> Node:
    """`node`. Raises `ValueError` for one that is among the `others` already, by its id or by what is executed in
    it."""
    name, executor = node.node_id, node.executor
    for other in others.values():
        if other.executor is executor and not isinstance(node.work, FunctionExecutor):
            raise ValueError(
                f"{executor!r:.200} is node {other.node_id!r} already, and cannot be {name!r} too: its conversation is "
                f"that of one node; make another object"
            )
    if name in others:
        raise ValueError(
            f"there is a node {name!r} already: give each an id of its own, add_node(agent, 'id')"
        )
    return node


def members_of(given: Members) -> dict[str, Node]:
    """The nodes of several members, in their order: of a list, or of a dict with their ids. Raises as `member`, and
    `TypeError` for what is neither."""
    if not isinstance(given, (Mapping, list, tuple)):
        raise TypeError(f"the members are given as a list, or as a dict by id, not {given!r:.100}")
    named = given.items() if isinstance(given, Mapping) else ((None, one) for one in given)
    found: dict[str, Node] = {}
    for name, executor in named:
        if isinstance(executor, Node):
            checked_id(executor.node_id, "node")
            node = _beside(executor, found)
        else:
            node = member(executor, name, found)
        found[node.node_id] = node
    return found


def work_of(executor: Any) -> Executor:
    if isinstance(executor, Agent):
        return AgentExecutor(sessionless(executor))
    if isinstance(executor, MultiAgentBase):
        if type(executor).invoke_async is not MultiAgentBase.invoke_async:
            return FunctionExecutor(executor.invoke_async)
        return TeamExecutor(sessionless(executor))
    if not callable(executor) or isinstance(executor, type):
        raise TypeError(f"{executor!r:.200} is no agent, function or orchestrator")
    if inspect.isgeneratorfunction(executor) or inspect.isasyncgenfunction(executor):
        raise TypeError(
            f"{executor!r:.200} is a generator function; a node's function returns what it comes to"
        )
    return FunctionExecutor(executor)


def _name_of(executor: Any, number: int) -> str:
    if isinstance(executor, Agent):
        if executor.agent_id != DEFAULT_AGENT_ID:
            return executor.agent_id
        return executor.name if executor.name != DEFAULT_NAME else f"node_{number}"
    if isinstance(executor, MultiAgentBase):
        return executor.id if executor.id != executor.default_id else f"node_{number}"
    name = getattr(executor, "__name__", "")
    return name if name.isidentifier() else f"node_{number}"
