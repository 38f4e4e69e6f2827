"""The tasks of one superstep at work: started, retried, timed out, recorded as they finish."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from graphkit.channels import MISSING
from graphkit.engine import effects
from graphkit.engine.attempt import Asked, Attempt, Done, Failed, ForParent, Outcome
from graphkit.engine.events import Custom, TaskEnded, TaskStarted
from graphkit.engine.prepare import Effects, Standing
from graphkit.engine.program import NodeSpec, Program
from graphkit.engine.request import Request
from graphkit.engine.tasks import Task, output_of, output_record, question_records
from graphkit.engine.timers import Alarm, Timers
from graphkit.errors import InterruptMismatchError, NodeTimeoutError
from graphkit.types import Command, RetryPolicy
from graphkit_checkpoint.errors import UnstorableError
from graphkit_checkpoint.records import Pending
from graphkit_checkpoint.serde import fingerprint

BATCH_DELAY = 0.01
"""Seconds until a task that finished beside slower ones is recorded."""

TIMEOUT_PATIENCE = 0.25
"""Seconds that a coroutine which ran out of time has to end before its caller is told all the same."""

BATCH_SIZE = 64
"""How many finished tasks are recorded at once, at the latest."""


class Recorder(Protocol):
    """The run as its crew knows it."""

    program: Program
    request: Request
    standing: Standing
    steps: int
    held: list[Any]
    durable: bool

    def record(self, pending: Sequence[Pending], at: str) -> Effects: ...

    def flush(self) -> Effects: ...


class Crew:
    """The tasks of one superstep at work: starting, retrying, timing out, recording."""

    __slots__ = (
        "asked",
        "at",
        "batch_due",
        "failures",
        "for_parent",
        "live",
        "program",
        "request",
        "retrying",
        "run",
        "single",
        "tasks",
        "timers",
        "unrecorded",
        "waiting",
    )

    def __init__(self, run: Recorder) -> None:
        self.run = run
        self.program = run.program
        self.request = run.request
        self.tasks = run.standing.tasks
        self.at = run.standing.checkpoint_id or ""
        self.single = len(self.tasks) == 1
        self.waiting: deque[tuple[Task, Attempt | None]] = deque(
            [(task, None) for task in self.tasks if task.runnable]
        )
        self.live: dict[Attempt, Task] = {}
        self.retrying: dict[Attempt, Task] = {}
        self.timers = Timers()
        self.asked: list[Pending] = []
        self.failures: list[tuple[Task, Failed]] = []
        self.unrecorded: list[Task] = []
        self.for_parent: tuple[Command[Any], str] | None = None
        self.batch_due: float | None = None

    def work(self) -> Effects:
        """Until every started task has finished, asked or failed."""
        yield from self._start_waiting()
        while self.live or self.retrying:
            until = self._until() if self.timers or self.batch_due is not None else None
            reply = yield effects.ANY if until is None else effects.Next(until)
            if reply is None:
                yield from self._clock()
            else:
                attempt, outcome = reply
                task = self.live.pop(attempt, None)
                if task is not None:
                    yield from self._took(attempt, task, outcome)
            if self.waiting and not self.failures:
                yield from self._start_waiting()
            if self.unrecorded and (self.live or self.retrying):
                yield from self._record_batch(len(self.unrecorded) >= BATCH_SIZE)

    # Starting

    def _start_waiting(self) -> Effects:
        limit = self.request.max_concurrency
        room = len(self.waiting) if limit is None else limit - len(self.live)
        attempts = []
        while self.waiting and room > 0:
            task, attempt = self.waiting.popleft()
            if attempt is None:
                attempt = self._attempt(task)
                if attempt.cache_key is not None and (yield from self._cached(attempt.cache_key, task)):
                    continue
            attempts.append(attempt)
            room -= 1
            yield from self._enlist(attempt, task)
        if attempts:
            yield effects.Start(attempts)

    def _attempt(self, task: Task) -> Attempt:
        spec, state = self.program.spec(task.name), self.run.standing.state
        arg = self._input(task, spec)
        return Attempt(
            spec,
            arg,
            task.place,
            self.request.scope,
            self.program.words,
            {**self.request.answers, **task.answers} if self.request.answers else task.answers,
            state=(state.channels, state.view) if spec.branches else None,
            cache_key=self._cache_key(spec, arg) if spec.cache is not None else None,
            alone=self.single,
        )

    def _cached(self, key: tuple[str, str], task: Task) -> Effects:
        """Reply: whether the task's output was found in the cache."""
        found = yield effects.CacheGet(*key)
        if found is not None:
            self._finish(task, output_of(found))
        return found is not None

    def _enlist(self, attempt: Attempt, task: Task) -> Effects:
        task.attempts += 1
        self.live[attempt] = task
        if attempt.node.timeout is not None:
            now: float = yield effects.TIMER
            self.timers.set(now + attempt.node.timeout, attempt, Alarm.TIMEOUT)
        if "tasks" in self.request.listen:
            event = TaskStarted(
                id=task.id, name=task.name, input=attempt.arg, step=self.run.standing.step + 1
            )
            yield effects.Emit(event)

    def _input(self, task: Task, spec: NodeSpec) -> Any:
        if task.arg is not MISSING:
            return task.arg
        return spec.shape.of(self.run.standing.state.view, self.request.recursion_limit - self.run.steps)

    def _cache_key(self, spec: NodeSpec, arg: Any) -> tuple[str, str]:
        assert spec.cache is not None
        key = fingerprint(arg) if spec.cache.key_func is None else spec.cache.key_func(arg)
        namespace = f"{self.program.name}/{spec.name}/{spec.callee.name}"
        return namespace, key if isinstance(key, str) else key.hex()

    # Outcomes

    def _took(self, attempt: Attempt, task: Task, outcome: Outcome) -> Effects:
        if outcome.events and "custom" in self.request.listen:
            for value in outcome.events:
                yield effects.Emit(Custom(value=value))
        if type(outcome) is Done:
            yield from self._done(attempt, task, outcome)
        elif type(outcome) is Asked:
            self.asked += question_records(task, outcome)
            task.questions.update((question.id, (question, mark)) for question, mark in outcome.questions)
            self._tell(task, interrupts=tuple(question for question, _ in outcome.questions))
        elif type(outcome) is ForParent:
            self.for_parent = (outcome.command, task.name)
            task.output = Done([], [])
        else:
            assert isinstance(outcome, Failed)
            yield from self._failed(attempt, task, outcome)

    def _done(self, attempt: Attempt, task: Task, outcome: Done) -> Effects:
        self._finish(task, outcome)
        if attempt.cache_key is not None and attempt.node.cache is not None:
            value = {"writes": [list(write) for write in outcome.writes], "targets": outcome.targets}
            yield effects.CachePut(*attempt.cache_key, value, attempt.node.cache.ttl)

    def _finish(self, task: Task, output: Done) -> None:
        task.output = output
        if not self.single:
            self.unrecorded.append(task)
        self._tell(task, writes=tuple(output.writes))

    def _tell(self, task: Task, **result: Any) -> None:
        if self.request.listen & {"updates", "tasks"}:
            step = self.run.standing.step + 1
            self.run.held.append(TaskEnded(id=task.id, name=task.name, step=step, **result))

    def _failed(self, attempt: Attempt, task: Task, outcome: Failed) -> Effects:
        error = outcome.error
        if outcome.rejected is not None or isinstance(error, InterruptMismatchError):
            self._fails(task, outcome)  # a person has to act: neither a retry nor a handler can
            return
        policy = next((policy for policy in attempt.node.retry if policy.applies_to(error)), None)
        tries_left = policy is not None and attempt.number < policy.max_attempts and attempt.failure is None
        if policy is not None and tries_left and not self.failures:
            yield from self._retry_later(attempt, task, policy)
            return
        if attempt.node.handler is not None and attempt.failure is None and isinstance(error, Exception):
            self.waiting.appendleft((task, attempt.again(failure=error)))
            return
        self._fails(task, outcome)

    def _fails(self, task: Task, outcome: Failed) -> None:
        # Siblings that have been started run to their end and are recorded: whether one of them has finished
        # does not depend on when another one fails. Nothing more is started.
        self.failures.append((task, outcome))
        self._tell(task, error=repr(outcome.error))
        self.waiting.clear()
        self.retrying.clear()

    # Time

    def _retry_later(self, attempt: Attempt, task: Task, policy: RetryPolicy) -> Effects:
        wait = min(
            policy.max_interval, policy.initial_interval * policy.backoff_factor ** (attempt.number - 1)
        )
        if policy.jitter:
            # Spread by the task's id: as good as chance between tasks, and the same every time.
            wait *= 1 + int(task.id[:4], 16) / 0x20000
        # A new input: the failed attempt may have changed the dict that it was given.
        following = attempt.again(number=attempt.number + 1, arg=self._input(task, attempt.node))
        now: float = yield effects.TIMER
        self.retrying[following] = task
        self.timers.set(now + wait, following, Alarm.RETRY)

    def _until(self) -> float | None:
        due = self.timers.next_due(self.live, self.retrying)
        if self.batch_due is None:
            return due
        return self.batch_due if due is None else min(due, self.batch_due)

    def _clock(self) -> Effects:
        """Time has come for a retry, a timeout or a batch."""
        now: float = yield effects.TIMER
        if self.batch_due is not None and now >= self.batch_due:
            yield from self._record_batch(True)
        for attempt, alarm in self.timers.due(now):
            if alarm is Alarm.TIMEOUT:
                yield from self._time_out(attempt)
            elif attempt in self.retrying:
                self.waiting.appendleft((self.retrying.pop(attempt), attempt))

    def _time_out(self, attempt: Attempt) -> Effects:
        task = self.live.pop(attempt, None)
        if task is None:
            return
        yield effects.Cancel((attempt,), patience=TIMEOUT_PATIENCE)
        error = NodeTimeoutError(
            f"node {task.name!r} ran longer than its timeout of {attempt.node.timeout} s; "
            f"a result that arrives later is refused"
        )
        yield from self._failed(attempt, task, Failed(error))

    # Recording

    def _record_batch(self, due: bool) -> Effects:
        """Record what has finished while others still run, so that it never runs again."""
        if not self.run.durable:
            if not self.request.stored:
                self.unrecorded.clear()
            yield from self.run.flush()
            return
        if not due:
            now: float = yield effects.TIMER
            if self.batch_due is None:
                self.batch_due = now + BATCH_DELAY
            if now < self.batch_due:
                return
        self.batch_due = None
        pending = [output_record(task, self.program.channels) for task in self.unrecorded]
        try:
            yield from self.run.record([*pending, *self.asked], self.at)
        except UnstorableError as error:
            self._cannot_be_stored(error)
            return
        self.unrecorded, self.asked = [], []
        yield from self.run.flush()

    def _cannot_be_stored(self, error: UnstorableError) -> None:
        """What a task wrote or asked is refused: the task has failed, its siblings go on."""
        task = next((task for task in self.tasks if task.id == error.task_id), None)
        if task is None:
            raise error
        if task in self.unrecorded:
            self.unrecorded.remove(task)
        self.asked = [record for record in self.asked if record.task_id != task.id]
        task.output = None
        task.questions.clear()
        self._fails(task, Failed(error))
