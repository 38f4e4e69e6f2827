"""The calls of one message inside of middleware: each is a task that the task of the batch calls.

So each has a record of its own: what has finished is found again when the batch runs again, and what asks is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from graphkit.calling import TaskFuture, call
from graphkit.engine.program import Callee, NodeSpec, Shape
from graphkit.errors import GraphInterrupt
from graphkit.frame import Frame, running
from graphkit_prebuilt.content import ToolResult, ToolUse
from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.halting import carry_out
from graphkit_prebuilt.loop.invocation import Invocation, here
from graphkit_prebuilt.loop.steps import Call, Steps, awaited, blocking
from graphkit_prebuilt.loop.tools import settled
from graphkit_prebuilt.middleware.contexts import ExecuteToolsContext
from graphkit_prebuilt.middleware.onion import Onion, checked_result
from graphkit_prebuilt.middleware.registry import Layer
from graphkit_prebuilt.middleware.stages import ExecuteToolsStage, ToolResultsEvent

Results = dict[str, ToolResult]
"""By the id of the call."""
Uses = dict[str, dict[str, Any]]
"""Calls as hooks have left them, by the id that they had before."""


def wrapped_calls(
    inv: Invocation, frame: Frame, layers: Sequence[Layer], message: Any, uses: Sequence[ToolUse]
) -> Steps[tuple[list[ToolResult], Uses]]:
    """Go through the middleware of a batch. Returns the results of the calls `uses`, in this order, and the calls that
    hooks have changed.

    Raises `ValueError` if the layers come to no result for some of them, or to one for a call that is not among them.
    """
    ids, changed = {use["toolUseId"] for use in uses}, Uses()

    def inside(context: ExecuteToolsContext, number: int) -> Steps[ToolResultsEvent]:
        for use in context.tool_uses:
            _known(use.get("toolUseId"), ids)
        done = yield from _run(inv, frame, context.tool_uses)
        results: list[ToolResult] = []
        for use, (left, result) in zip(context.tool_uses, done, strict=True):
            if left != use:
                changed[use["toolUseId"]] = left
            shown: ToolResult = copied(result)  # what a layer changes, it finds as it was if it asks
            results.append({**shown, "toolUseId": use["toolUseId"]})  # a hook may have given it another one
        return ToolResultsEvent(results)

    context = ExecuteToolsContext(inv.agent, message, uses, inv.invocation_state, inv.cancel)
    event = yield from Onion(ExecuteToolsStage, layers, frame, inside).steps(inv, context)
    results: Results = {}
    for result in event.results:
        key = _known(result.get("toolUseId") if isinstance(result, Mapping) else None, ids)
        results[key] = checked_result(result, changed.get(key, {}).get("toolUseId", key), ExecuteToolsStage)
    if missing := [use["toolUseId"] for use in uses if use["toolUseId"] not in results]:
        raise ValueError(f"middleware of {ExecuteToolsStage!r} has come to no result for the calls {missing}")
    return [results[use["toolUseId"]] for use in uses], changed


def _known(key: Any, ids: set[str]) -> str:
    if key not in ids:
        raise ValueError(f"{ExecuteToolsStage!r}: {key!r} is no call of this batch; it has {sorted(ids)}")
    return cast("str", key)


def _run(
    inv: Invocation, frame: Frame, uses: Sequence[Mapping[str, Any]]
) -> Steps[list[tuple[dict[str, Any], ToolResult]]]:
    """Have the calls run: beside each other, or in order. All end before what one of them raises is raised."""
    ordered = inv.agent.tool_executor.in_order
    futures: list[TaskFuture[Any]] = []
    done: list[Any] = []
    raised: list[BaseException] = []
    for use in uses:
        futures.append(call(frame, _CALL, (dict(use),), {}))
        if ordered:
            yield from _ended(futures.pop(), done, raised)
            if raised:
                break
    for future in futures:
        yield from _ended(future, done, raised)
    if len(raised) > 1 and any(isinstance(error, GraphInterrupt) for error in raised):
        raise BaseExceptionGroup("several calls of a batch asked or failed", raised)
    if raised:
        raise raised[0]
    return [(each["use"], each["result"]) for each in done]


def _ended(future: TaskFuture[Any], done: list[Any], raised: list[BaseException]) -> Steps[None]:
    try:
        done.append((yield _Result(future)))
    except (Exception, GraphInterrupt) as error:
        raised.append(error)


class _Result(Call):
    """Wait for what a task has come to."""

    __slots__ = ("_future",)

    def __init__(self, future: TaskFuture[Any]) -> None:
        super().__init__(future.result)
        self._future = future

    async def wait(self, depth: int) -> Any:
        return await self._future


# The task


def _steps(use: ToolUse) -> Steps[dict[str, Any]]:
    inv = here.get()  # of the batch, whose context the task has
    assert inv is not None
    left, result = yield from settled(inv, running("tools"), use)
    return {"use": dict(left), "result": result}


def _call(arg: Any) -> Any:
    try:
        return blocking(_steps(ToolUse(arg[0][0])))
    except BaseException as error:
        carry_out(error)
        raise


async def _acall(arg: Any) -> Any:
    try:
        return await awaited(_steps(ToolUse(arg[0][0])))
    except BaseException as error:
        carry_out(error)
        raise


def _returned(value: Any) -> list[tuple[str, Any]]:
    return [("return", value)]


_CALL = NodeSpec(name="tools", callee=Callee("tools", _call, _acall), shape=Shape(None), result=_returned)
