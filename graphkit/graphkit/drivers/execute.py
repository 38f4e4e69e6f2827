"""Executing one attempt: the one plain function that crosses to a worker, in its blocking and async form.

What an attempt does is written once, as a generator that yields the user's functions to call; the two
forms only call them.
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from graphkit.drivers.loops import run_in_standing_loop
from graphkit.drivers.pools import in_thread
from graphkit.drivers.session import Abandoned
from graphkit.engine.attempt import Asked, Attempt, Done, Failed, ForParent, Outcome, Target
from graphkit.engine.loop import ChildCommand
from graphkit.engine.program import Branch, Callee
from graphkit.engine.state import preview
from graphkit.engine.updates import checked_targets, read_output
from graphkit.errors import (
    GraphInterrupt,
    InvalidResponseError,
    InvalidUpdateError,
    NodeCancelledError,
    NodeError,
    ParentCommand,
)
from graphkit.frame import Frame, current
from graphkit.runtime import injected
from graphkit.types import Command, Send

Call = tuple[Callee, tuple[Any, ...], dict[str, Any]]
Steps = Generator[Call, Any, Outcome]

PATIENCE = 5.0
"""Seconds that what runs inside an attempt in other threads has to end when its own thread is interrupted."""

_NOTHING: dict[str, Any] = {}
_NEVER_AWAITED = frozenset({type(None), dict, str, list, tuple, bool, Command})
"""What functions usually return: no need to ask whether it is a coroutine."""


def execute(attempt: Attempt) -> Outcome:
    """Run an attempt in this thread. Raises only what is nobody's outcome (`KeyboardInterrupt`, `SystemExit`)."""
    frame = attempt.frame = Frame(attempt)
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
    except BaseException as error:
        frame.stop()
        if frame.inside:
            frame.inside.wait(PATIENCE)
        if frame.traced is not None:
            _langchain().broken_off(frame, error)
        raise
    finally:
        if frame.langchain is not None:
            _langchain().left(frame)
        current.reset(token)
        attempt.frame = None


async def aexecute(attempt: Attempt) -> Outcome:
    """Run an attempt on the running loop; a blocking error handler runs in a thread."""
    frame = attempt.frame = Frame(attempt)
    token = current.set(frame)
    steps = _steps(attempt, frame)
    try:
        callee, args, kwargs = next(steps)
        while True:
            try:
                if callee.acall is not None:
                    value = await callee.acall(*args, **kwargs)
                elif not callee.brief:
                    value = await in_thread(attempt.scope.depth, callee.call, *args, **kwargs)  # type: ignore[arg-type]
                    if inspect.isawaitable(value):
                        value = await value
                else:
                    value = callee.call(*args, **kwargs)  # type: ignore[misc]
                    if type(value) not in _NEVER_AWAITED and inspect.isawaitable(value):
                        value = await value
            except BaseException as error:
                callee, args, kwargs = steps.throw(error)
            else:
                callee, args, kwargs = steps.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    except GeneratorExit:  # the coroutine is closed and can wait for nothing
        frame.stop()
        raise
    except BaseException as error:
        frame.stop()
        await frame.asettle()
        if frame.traced is not None:
            await _langchain().abroken_off(frame, error)
        raise
    finally:
        if frame.langchain is not None:
            _langchain().left(frame)
        current.reset(token)
        attempt.frame = None


def _langchain() -> Any:
    from graphkit import langchain

    return langchain


def _steps(attempt: Attempt, frame: Frame) -> Steps:
    """Call the node (or its error handler), then its branches; classify what comes of it when everything that was
    started inside has ended."""
    node = attempt.node
    output: Done = None  # type: ignore[assignment]  # read only where there is one
    chosen: list[Target] = []
    returned: Any = None
    problem: BaseException | None = None
    try:
        given = attempt.arg if node.shape.build is None else node.shape.instance(attempt.arg)
        if attempt.scope.heard:
            langchain = _langchain()
            yield Callee("", langchain.entered, langchain.aentered), (frame, given), _NOTHING
        try:
            if attempt.failure is None:
                callee = node.callee
                returned = yield (
                    callee,
                    (given,),
                    injected(callee.inject, frame) if callee.inject else _NOTHING,
                )
            else:
                assert node.handler is not None
                failed = NodeError(node.name, attempt.failure)
                returned = yield _call(node.handler, frame, given, failed)
        except ParentCommand as error:
            if node.result is not None:
                raise
            returned = _commanded(error)
        if node.result is not None and attempt.failure is None:
            output = Done(node.result(returned))
        else:
            output = read_output(returned, node.name, attempt.words)
        if output.steered and attempt.failure is None:
            output.steered = False  # what a node commands is beside its edges
        if output.parent is None and not output.steered:
            for branch in node.branches:
                writes = output.writes if frame.keeping is None else [*frame.amends, *output.writes]
                callee = branch.callee
                inject = injected(callee.inject, frame) if callee.inject else _NOTHING
                choice = yield callee, (_seen(attempt, branch, writes),), inject
                chosen += _chosen(branch, choice, attempt)
    except asyncio.CancelledError as error:
        if attempt.stopped or _is_cancelled():
            raise
        problem = NodeCancelledError(node.name)
        problem.__cause__ = error
    except (Exception, GraphInterrupt, ParentCommand, Abandoned, BaseExceptionGroup) as error:
        problem = error
    late = not frame.raised
    if frame.inside:
        yield Callee("", frame.settle, frame.asettle), (), {}
    outcome: Outcome
    if problem is not None:
        outcome = _raised(attempt, frame, problem, late)
        problem = None  # its traceback knows this function
    elif (frame.raised or frame.inside is not None) and frame.waits:
        outcome = _swallowed(attempt, frame, late)
    elif output.parent is not None:
        outcome = ForParent(output.parent, output.writes, frame.events)
    else:
        outcome = output
        if chosen:
            output.targets = [*output.targets, *chosen] if output.targets else chosen
        output.chosen = len(chosen)
        if frame.events:
            output.events = frame.events
    outcome.keeping = frame.keeping
    if frame.traced is not None:
        langchain = _langchain()
        try:
            yield Callee("", langchain.ended, langchain.aended), (frame, outcome, returned), _NOTHING
        except Exception as error:  # of a handler that has raise_error
            return Failed(error, None, frame.events)
    return outcome


def _is_cancelled() -> bool:
    """Whether somebody has cancelled the coroutine that runs here, be it this driver or its caller."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a blocking function, which nobody can cancel
        return False
    return task is not None and task.cancelling() > 0


def _call(callee: Callee, frame: Frame, *args: Any) -> Call:
    return callee, args, injected(callee.inject, frame) if callee.inject else _NOTHING


def _seen(attempt: Attempt, branch: Branch, writes: Any) -> Any:
    """The state as the branch sees it: with the node's own writes applied."""
    assert attempt.state is not None
    channels, view, steps_left = attempt.state
    seen, shape = preview(channels, view, writes), branch.shape
    if not shape.is_complete:
        seen = shape.of(seen, steps_left)
    return seen if shape.build is None else shape.instance(seen)


def _chosen(branch: Branch, choice: Any, attempt: Attempt) -> list[Target]:
    if branch.path_map is not None and type(choice) is str and choice in branch.path_map:
        return [branch.path_map[choice]]
    options = choice if isinstance(choice, (list, tuple)) else [choice]
    if branch.path_map is not None:
        options = [_mapped(branch, option, attempt) for option in options]
    return checked_targets(options, attempt.node.name, attempt.words.nodes, branch.callee.name)


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


def _raised(attempt: Attempt, frame: Frame, error: BaseException, late: bool) -> Outcome:
    if frame.asked or frame.paused:
        if not _carries_interrupt(error):
            return _swallowed(attempt, frame, late)
        return Asked(frame.questions, frame.events, frame.breaks, left=frame.left)
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


def _swallowed(attempt: Attempt, frame: Frame, late: bool) -> Outcome:
    """User code caught what was not meant for it, or (`late`) did not wait for what asked; the question counts
    all the same."""
    if frame.mismatch is not None:
        return Failed(frame.mismatch, None, frame.events)
    if frame.rejected is not None:
        return Failed(frame.rejected[1], frame.rejected[0], frame.events)
    if not late:
        warnings.warn(
            f"node {attempt.node.name!r} caught the exception that carries its question out (except BaseException "
            f"or a bare except?); it counts as interrupted and what it wrote was dropped. Catch Exception instead",
            RuntimeWarning,
            stacklevel=2,
        )
    return Asked(frame.questions, frame.events, frame.breaks, left=frame.left)


def _commanded(error: ParentCommand) -> Command[Any]:
    """What a nested graph commands is for this one: it is what the node returns. So is what the node itself has raised,
    which is for the graph around if it says so."""
    return replace(error.command, graph=None) if isinstance(error, ChildCommand) else error.command
