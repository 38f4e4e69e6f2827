"""Executing one attempt: the one plain function that crosses to a worker, in its blocking and async form.

What an attempt does is written once, as a generator that yields the user's functions to call; the two
forms only call them.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import warnings
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from graphkit.drivers.pools import pool_at, run_in_standing_loop
from graphkit.engine.attempt import Asked, Attempt, Done, Failed, ForParent, Outcome, Target
from graphkit.engine.loop import ParentCommand
from graphkit.engine.program import Branch, Callee
from graphkit.engine.state import Entry, preview
from graphkit.engine.updates import checked_targets, read_output
from graphkit.errors import GraphInterrupt, InvalidResponseError, InvalidUpdateError, NodeError
from graphkit.frame import Frame, current
from graphkit.runtime import injected
from graphkit.types import Send

Call = tuple[Callee, tuple[Any, ...], dict[str, Any]]
Steps = Generator[Call, Any, Outcome]

_NEVER_AWAITED = frozenset({type(None), dict, str, list, tuple, bool})
"""What functions usually return: no need to ask whether it is a coroutine."""


def execute(attempt: Attempt) -> Outcome:
    """Run an attempt in this thread. Raises only what is nobody's outcome (`KeyboardInterrupt`, `SystemExit`)."""
    frame = Frame(attempt)
    token = current.set(frame)
    steps = _steps(attempt, frame)
    try:
        callee, args, kwargs = next(steps)
        while True:
            try:
                value = (callee.call or callee.acall)(*args, **kwargs)  # type: ignore[misc]
                if type(value) not in _NEVER_AWAITED and inspect.isawaitable(value):
                    value = run_in_standing_loop(value, attempt.scope.depth)
            except BaseException as error:
                callee, args, kwargs = steps.throw(error)
            else:
                callee, args, kwargs = steps.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        current.reset(token)


async def aexecute(attempt: Attempt) -> Outcome:
    """Run an attempt on the running loop; blocking functions among its branches run in a thread."""
    frame = Frame(attempt)
    token = current.set(frame)
    steps = _steps(attempt, frame)
    try:
        callee, args, kwargs = next(steps)
        while True:
            try:
                value = await _acall(attempt, callee, args, kwargs)
            except BaseException as error:
                callee, args, kwargs = steps.throw(error)
            else:
                callee, args, kwargs = steps.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        current.reset(token)


async def _acall(attempt: Attempt, callee: Callee, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if callee.acall is not None:
        return await callee.acall(*args, **kwargs)
    assert callee.call is not None
    pool, context = pool_at(attempt.scope.depth), contextvars.copy_context()
    work = functools.partial(context.run, callee.call, *args, **kwargs)
    value = await asyncio.get_running_loop().run_in_executor(pool, work)
    return await value if inspect.isawaitable(value) else value


def _steps(attempt: Attempt, frame: Frame) -> Steps:
    """Call the node (or its error handler), then its branches; classify what comes of it."""
    node = attempt.node
    try:
        given = node.shape.instance(attempt.arg)
        if attempt.failure is None:
            returned = yield _call(node.callee, frame, given)
        else:
            assert node.handler is not None
            problem = NodeError(node.name, attempt.failure)
            returned = yield _call(node.handler, frame, given, problem)
        output = read_output(returned, node.name, attempt.words)
        if output.parent is not None:
            return ForParent(output.parent, frame.events)
        for branch in node.branches:
            chosen = yield _call(branch.callee, frame, _seen(attempt, branch, output.writes))
            output.targets += _chosen(branch, chosen, attempt)
    except (Exception, GraphInterrupt, ParentCommand, BaseExceptionGroup) as error:
        return _raised(attempt, frame, error)
    if frame.asked or frame.paused or frame.mismatch or frame.rejected:
        return _swallowed(attempt, frame)
    return Done(output.writes, output.targets, frame.events)


def _call(callee: Callee, frame: Frame, *args: Any) -> Call:
    return callee, args, injected(callee.inject, frame) if callee.inject else {}


def _seen(attempt: Attempt, branch: Branch, writes: Any) -> Any:
    """The state as the branch sees it: with the node's own writes applied."""
    assert attempt.state is not None
    channels, view = attempt.state
    seen = preview(channels, view, [Entry(attempt.node.name, None, writes, ())])
    return branch.shape.instance(seen if branch.shape.is_complete else branch.shape.of(seen))


def _chosen(branch: Branch, chosen: Any, attempt: Attempt) -> list[Target]:
    options = chosen if isinstance(chosen, (list, tuple)) else [chosen]
    if branch.path_map is not None:
        options = [_mapped(branch, option, attempt) for option in options]
    where = f"the branch {branch.callee.name!r} of node {attempt.node.name!r}"
    return checked_targets(options, where, attempt.words.nodes)


def _mapped(branch: Branch, option: Any, attempt: Attempt) -> Any:
    assert branch.path_map is not None
    if isinstance(option, Send):
        return option
    try:
        return branch.path_map[option]
    except (KeyError, TypeError):
        raise InvalidUpdateError(
            f"the branch {branch.callee.name!r} of node {attempt.node.name!r} chose {option!r}, which its path_map "
            f"does not have; it has {list(branch.path_map)}"
        ) from None


def _raised(attempt: Attempt, frame: Frame, error: BaseException) -> Outcome:
    if frame.asked or frame.paused:
        if not _carries_interrupt(error):
            return _swallowed(attempt, frame)
        return Asked(frame.asked, frame.events)
    if isinstance(error, ParentCommand):
        return _from_child(attempt, frame, error)
    if frame.mismatch is not None:
        return Failed(frame.mismatch, None, frame.events)
    if frame.rejected is not None:
        return Failed(frame.rejected[1], frame.rejected[0], frame.events)
    # A graph below may have refused the answer: it is withdrawn here too.
    question = error.question if isinstance(error, InvalidResponseError) else None
    return Failed(error, question, frame.events)


def _carries_interrupt(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(GraphInterrupt) is not None
    return isinstance(error, GraphInterrupt)


def _swallowed(attempt: Attempt, frame: Frame) -> Outcome:
    """User code caught what was not meant for it; the question counts all the same."""
    if frame.mismatch is not None:
        return Failed(frame.mismatch, None, frame.events)
    if frame.rejected is not None:
        return Failed(frame.rejected[1], frame.rejected[0], frame.events)
    warnings.warn(
        f"node {attempt.node.name!r} caught the exception that carries its question out (except BaseException "
        f"or a bare except?); it counts as interrupted and what it wrote was dropped. Catch Exception instead",
        RuntimeWarning,
        stacklevel=2,
    )
    return Asked(frame.asked, frame.events)


def _from_child(attempt: Attempt, frame: Frame, error: ParentCommand) -> Outcome:
    """A nested graph commands this one: its command is the node's return value."""
    try:
        output = read_output(replace(error.command, graph=None), attempt.node.name, attempt.words)
    except InvalidUpdateError as problem:
        return Failed(problem, None, frame.events)
    return Done(output.writes, output.targets, frame.events)
