"""Calls of tasks on their way: from running tasks to their crew, and what they come to back to who has called."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from graphkit.engine import effects
from graphkit.engine.attempt import Asked, Attempt, Called, Failed, Keeping, Outcome, Reply
from graphkit.engine.caching import Key
from graphkit.engine.calls import CalledTask, Callers, is_within
from graphkit.engine.effects import Effects
from graphkit.engine.events import BEAT
from graphkit.engine.failures import annotate
from graphkit.engine.timers import TIMEOUT_PATIENCE
from graphkit.errors import NodeCancelledError

if TYPE_CHECKING:
    from graphkit.engine.crew import Crew


class Exchange:
    """The calls of one superstep. Made with the first of them, so a superstep without one does nothing for it."""

    __slots__ = ("_callers", "_crew")

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._callers = Callers(crew.run.standing.results)

    @property
    def waiting(self) -> int:
        """How many attempts wait for what they called, and so take nobody's place."""
        return self._callers.waiting

    def connect(self, caller: Attempt, called: Called) -> Effects:
        """A running task calls another one. It is started, unless it is known what it comes to."""
        crew = self._crew
        if crew.timers.alarms:
            yield from crew.gets_on(caller, BEAT)
        task = self._callers.task_of(called, caller, crew.live[caller])
        kept = crew.run.standing.kept
        if kept and task.id in kept:
            task.keeping = Keeping(kept[task.id])
        found = self._callers.result_of(task)
        if found is not None:
            yield effects.Settle(called.reply, found)
        elif open_questions := task.waits_for:
            yield effects.Settle(called.reply, Asked(open_questions))
        else:
            self._callers.started(task)
            self._queue(task)

    def _queue(self, task: CalledTask) -> None:
        """Calls inside calls go first: those that wait for them keep threads that others would wait for."""
        waiting = self._crew.waiting
        index = len(waiting)
        while index and len(waiting[index - 1][0].path) < len(task.path):
            index -= 1
        waiting.insert(index, (task, None))

    def attempt(self, task: CalledTask, cache_key: Key | None) -> Attempt:
        """The first try at a call."""
        caller = task.caller
        timeout = caller.node.timeout
        scope = replace(caller.scope, namespace=task.namespace, depth=caller.scope.depth + 1)
        attempt = Attempt(task.called.node, task.arg, task.place, scope, caller.words, caller.answers)
        attempt.cache_key = cache_key
        attempt.past = task.past
        attempt.context = task.called.context
        attempt.local = not caller.node.coordinates
        attempt.watched = caller.watched or (timeout is not None and timeout.idle_timeout is not None)
        attempt.keeping = task.keeping
        attempt.branch = caller.branch
        return attempt

    def settle(self, task: CalledTask, outcome: Outcome) -> Effects:
        """Tell the caller what a call has come to."""
        if isinstance(outcome, Failed):
            caller = task.caller.node.name
            annotate(
                outcome.error, f"in task {task.name!r}, called by {caller!r}, attempt ", str(task.attempts)
            )
        self._callers.ended(task)
        if self._crew.timers.alarms:
            yield from self._crew.gets_on(task.caller, BEAT)
        yield effects.Settle(task.called.reply, outcome)

    def left_by(self, caller: Attempt) -> tuple[str, ...]:
        """The namespaces of recorded calls that this attempt has not made again."""
        return self._callers.left_by(caller)

    def withdraw(self, reply: Reply) -> Effects:
        """Whoever has called a task has given it up."""
        crew = self._crew
        attempts = [(task, attempt) for attempt, task in [*crew.live.items(), *crew.retrying.items()]]
        for task, attempt in [*crew.waiting, *attempts]:
            if isinstance(task, CalledTask) and task.called.reply is reply:
                crew.waiting = deque(pair for pair in crew.waiting if pair[0] is not task)
                if attempt is not None:
                    yield from self.give_up(attempt)
                yield from self.settle(task, Failed(NodeCancelledError(task.name)))

    def give_up(self, attempt: Attempt) -> Effects:
        """Cancel an attempt with everything that it has called."""
        crew = self._crew
        crew.waiting = deque(pair for pair in crew.waiting if not is_within(pair[0], attempt))
        running = [*crew.live.items(), *crew.retrying.items()]
        within = [other for other, task in running if is_within(task, attempt)]
        for other in (attempt, *within):
            crew.live.pop(other, None)
            crew.retrying.pop(other, None)
            self._callers.forget(other)
        yield effects.Cancel((attempt, *within), patience=TIMEOUT_PATIENCE)


def too_late(attempt: Attempt, called: Called) -> RuntimeError:
    """What a call by an attempt that has ended raises."""
    return RuntimeError(
        f"task {called.node.name!r} was called by node {attempt.node.name!r} after that had ended"
    )
