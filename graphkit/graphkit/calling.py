"""Calling a task inside a running one: what the caller gets, and how it reaches the run."""

from __future__ import annotations

from collections.abc import Collection, Generator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import copy_context
from typing import Any, ClassVar, TypeVar

from graphkit.drivers.session import Abandoned
from graphkit.engine.attempt import Asked, Called, Done, Outcome, Withdrawn
from graphkit.engine.matching import mark_of
from graphkit.engine.program import NodeSpec
from graphkit.errors import GraphInterrupt
from graphkit.frame import Frame

T = TypeVar("T")


def call(frame: Frame, node: NodeSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskFuture[Any]:
    """Have a task run beside the running one. Raises `RuntimeError` where its run cannot be reached."""
    attempt = frame.attempt
    post = attempt.scope.live.post
    if attempt.frame is not frame or post is None:
        why = "in another process" if post is None else "after that had ended"
        raise RuntimeError(
            f"task {node.name!r} was called by {attempt.node.name!r} {why}; nothing runs it there"
        )
    future: TaskFuture[Any] = TaskFuture(frame)
    frame.enter_unseen(future)
    if frame.is_timed:
        frame.beat()
    arg = (args, kwargs)
    post(attempt, Called(node, arg, mark_of(arg), frame.ordered, future, copy_context()))
    return future


class TaskFuture(Future[T]):
    """What a call of a task will come to: `.result()` waits for it in blocking code, `await` in a coroutine.

    Either raises what the task raised. Cancelling it cancels the task. If the task asks, the caller ends too, and is
    run again when the answer is there; what has finished by then is not run again.
    """

    not_stored: ClassVar = "it stands for what a task returns. Take that with `.result()`, or await it."

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self._frame = frame

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio

        try:
            return (yield from asyncio.wrap_future(self).__await__())
        except GraphInterrupt:
            self._frame.raised = True
            raise
        finally:
            self._frame.seen(self)

    def result(self, timeout: float | None = None) -> T:
        """The result, once it is there. Raises `TimeoutError` after `timeout` seconds, and `RuntimeError` in a
        coroutine that would block its own loop."""
        self._refuse_to_block()
        try:
            return super().result(timeout)
        except GraphInterrupt:
            self._frame.raised = True
            raise
        finally:
            self._frame.seen(self)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the task raised, or None, once it has ended."""
        self._refuse_to_block()
        self._frame.seen(self)
        return super().exception(timeout)

    def _refuse_to_block(self) -> None:
        if not self.done() and self._frame.attempt.node.callee.is_async:
            import asyncio

            if asyncio._get_running_loop() is not None:
                raise RuntimeError(
                    "the task has not finished, and waiting for it here would block the loop: await it"
                )

    def cancel(self) -> bool:
        """Cancel the task. Returns False if it has ended already."""
        cancelled = not self.done() and super().cancel()
        post = self._frame.attempt.scope.live.post
        if cancelled and post is not None:
            post(self._frame.attempt, Withdrawn(self))
        return cancelled

    # What the run says

    def settle(self, outcome: Outcome) -> None:
        """The call has come to this. Called by the driver."""
        error = None if isinstance(outcome, Done) else self._raised(outcome)
        self._frame.leave(self)  # first: once the caller is told, it may make its next call
        with suppress(InvalidStateError):  # the caller has been stopped, or has cancelled it
            if isinstance(outcome, Done):
                self.set_result(outcome.writes[0][1])
            else:
                self.set_exception(error)

    def _raised(self, outcome: Outcome) -> BaseException:
        if isinstance(outcome, Asked):
            return self._frame.waits_inside(outcome.questions, "paused" if outcome.breaks else "interrupted")
        error: BaseException = outcome.error  # type: ignore[union-attr]
        if not isinstance(error, StopIteration):
            return error
        stopped = RuntimeError(f"the task raised {error!r}")  # which would end whoever awaits it
        stopped.__cause__ = error
        return stopped

    def stop(self) -> None:
        with suppress(InvalidStateError):
            self.set_exception(Abandoned())
        self._frame.leave(self)

    def drop(self) -> Collection[Any] | None:
        return None
