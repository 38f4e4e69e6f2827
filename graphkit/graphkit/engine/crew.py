"""The tasks of one superstep at work: started, retried, timed out, handed over to be recorded as they finish."""

from __future__ import annotations

import itertools
from collections import ChainMap, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from graphkit.channels import MISSING
from graphkit.engine import effects
from graphkit.engine.about import About
from graphkit.engine.attempt import (
    Answer,
    Asked,
    Attempt,
    Called,
    Done,
    Failed,
    ForParent,
    Outcome,
    Withdrawn,
)
from graphkit.engine.caching import Key, keep, key_of, look_up, recalling
from graphkit.engine.calls import CalledTask, base_of, lost_answer, unstorable
from graphkit.engine.effects import Effects
from graphkit.engine.events import EVENTS, HEARTBEAT, Beat, News, TaskEnded, TaskStarted
from graphkit.engine.exchange import Exchange, too_late
from graphkit.engine.failures import Failure, failure_record
from graphkit.engine.leavings import Leavings
from graphkit.engine.program import NodeSpec, Program, Seen
from graphkit.engine.recording import Recording
from graphkit.engine.request import Request
from graphkit.engine.standing import Standing
from graphkit.engine.tasks import BREAKPOINT, Task, ask, lines_of
from graphkit.engine.timers import Alarm, Timers
from graphkit.errors import InterruptMismatchError
from graphkit.types import Command, RetryPolicy
from graphkit_checkpoint.errors import UnstorableError
from graphkit_checkpoint.records import Pending

NEWS = EVENTS | {Beat, Called, Withdrawn}
"""What is no outcome."""

_ABOUT_STARTS = frozenset({"tasks", "messages"})
_ABOUT_ENDS = frozenset({"updates", "tasks", "messages"})


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
    """The tasks of one superstep at work: starting, retrying, timing out. One crew serves a run."""

    __slots__ = (
        "at",
        "behind",
        "breaks",
        "exchange",
        "failures",
        "for_parent",
        "leavings",
        "live",
        "program",
        "recording",
        "request",
        "retrying",
        "run",
        "single",
        "steps_left",
        "tasks",
        "tells_ends",
        "tells_starts",
        "timers",
        "told",
        "waiting",
    )

    def __init__(self, run: Recorder) -> None:
        self.run = run
        self.program = run.program
        self.request = run.request
        listen = run.request.scope.listen
        self.tells_starts = not listen.isdisjoint(_ABOUT_STARTS)
        self.tells_ends = not listen.isdisjoint(_ABOUT_ENDS)
        self.told: list[Any] = []  # to be shown with the start of the first tasks
        self.tasks: list[Task] = []
        self.at = ""
        self.single = False
        self.steps_left = 0
        self.waiting: deque[tuple[Task, Attempt | None]] = deque()
        self.behind: dict[str, deque[Task]] = {}  # by node: those that wait for one before them
        self.live: dict[Attempt, Task] = {}
        self.retrying: dict[Attempt, Task] = {}
        self.timers = Timers()
        self.recording = Recording(self)
        self.leavings = Leavings(self)
        self.failures: list[tuple[Task, Failed]] = []
        self.for_parent: list[tuple[Task, Command[Any]]] = []
        self.breaks = False  # a graph inside a task is at a breakpoint
        self.exchange: Exchange | None = None

    def begin(self) -> None:
        """Take up the superstep at which the run stands; the one before has been applied, and what there is to show of
        it is durable."""
        standing = self.run.standing
        if self.tells_starts:
            self.told, self.run.held = self.run.held, []
        self.tasks = standing.tasks
        self.at = standing.checkpoint_id or ""
        self.single = len(self.tasks) == 1
        self.steps_left = self.request.recursion_limit - self.run.steps
        for task in self.tasks:
            if task.runnable:
                self.waiting.append((task, None))
        if self.program.in_order:
            self._hold_back()
        self.exchange = None
        if self.timers.alarms:
            self.timers = Timers()
        recording = self.recording
        if recording.finished or recording.records:
            recording.begin()

    def let_go(self) -> None:
        """There is nothing more to do."""
        del self.recording, self.leavings, self.exchange

    def begin_with(self, task: Task) -> None:
        """Take up a task that is in no superstep."""
        self.tasks, self.single = [task], True
        self.steps_left = self.request.recursion_limit - self.run.steps
        self.at = self.run.standing.checkpoint_id or ""
        self.waiting.append((task, None))

    def work(self) -> Effects:
        """Until every started task has finished, asked or failed."""
        recording = self.recording
        arrived = yield from self._start_waiting()
        while self.live or self.retrying:
            if arrived is None:
                until = self._until() if self.timers.alarms or recording.due is not None else None
                arrived = yield effects.ANY if until is None else effects.Next(until)
            if arrived is None:
                yield from self._clock()
            elif type(arrived[1]) in NEWS:
                yield from self._heard(*arrived)
            else:
                attempt, outcome = arrived
                task = self.live.pop(attempt, None)
                if task is not None:
                    yield from self._took(attempt, task, outcome)
            if self.request.beats:
                yield effects.PROGRESS
            arrived = (yield from self._start_waiting()) if self.waiting else None
            if recording.finished and (self.live or self.retrying):
                yield from recording.write_in_batches()

    # Starting

    def _start_waiting(self) -> Effects:
        """Reply: what arrived at once, if anything did."""
        if self.failures:
            self._start_nothing_more()
        limit = self.request.max_concurrency
        room = len(self.waiting) if limit is None else limit - self._busy
        attempts = []
        told, self.told = self.told, []
        while self.waiting and room > 0:
            task, attempt = self.waiting.popleft()
            if attempt is None:
                attempt = self._attempt(task)
                if attempt.cache_key is not None:
                    if told:  # looking it up may take a while
                        yield effects.Emit(told)
                        told = []
                    attempt = yield from self._cached(attempt, task)
                    if attempt is None:
                        continue
            attempts.append(attempt)
            room -= 1
            task.attempts += 1
            self.live[attempt] = task
            if attempt.node.timeout is not None:
                now: float = yield effects.TIMER
                self.timers.start(attempt, now)
            if self.tells_starts:
                started = self._start_event(attempt, task)
                if attempt.node.shown:  # else it may say something all the same
                    told.append(started)
        if told:
            yield effects.Emit(told)
        return (yield effects.Start(attempts)) if attempts else None

    def _hold_back(self) -> None:
        """Let the tasks of a node that is in order wait for the one before."""
        lines = lines_of(self.tasks, self.program.in_order)
        held = [task for line in lines.values() for task in line[1:]]
        self.waiting = deque(pair for pair in self.waiting if pair[0] not in held)
        # One that waits for an answer is not started, and none behind it.
        self.behind = {
            name: deque(itertools.takewhile(lambda task: task.runnable, line[1:]))
            for name, line in lines.items()
        }

    def _follow(self, task: Task) -> None:
        """Start the one that has waited for this one."""
        line = self.behind.get(task.name)
        if line:
            self.waiting.append((line.popleft(), None))

    @property
    def _busy(self) -> int:
        """How many attempts do something; those that wait for what they called do not."""
        return len(self.live) - (self.exchange.waiting if self.exchange is not None else 0)

    def _attempt(self, task: Task) -> Attempt:
        if type(task) is CalledTask:
            return self._calls.attempt(task, self._cache_key(task.called.node, task, task.arg))
        spec, state = self.program.specs[task.name], self.run.standing.state
        arg = self._input(task, spec)
        if task.timeout is not None:
            spec = replace(spec, timeout=task.timeout)
        attempt = Attempt(
            spec,
            arg,
            task.place,
            self.request.scope,
            self.program.words,
            self._answers(task),
        )
        if spec.branches or spec.coordinates:
            attempt.state = (state.channels, state.view, self.steps_left)
        if spec.cache is not None:
            attempt.cache_key = self._cache_key(spec, task, arg)
        attempt.alone = self.single and not spec.coordinates
        attempt.past = task.past
        attempt.local = spec.coordinates
        attempt.keeping = task.keeping
        attempt.branch = state.branch
        if state.joins and task.arg is MISSING:
            attempt.joins = state.joins_of(task.name)
        if task.failure is not None and spec.handler is not None:  # reopened: the node has failed for good
            return attempt.again(failure=task.failure.error, number=task.failure.attempt)
        return attempt

    def _answers(self, task: Task) -> Mapping[str, Answer]:
        """Those that the task has, over those that were given to the task around this graph; these may be many."""
        given = self.request.answers
        return ChainMap(task.answers, given) if given else task.answers  # type: ignore[arg-type]

    @property
    def _calls(self) -> Exchange:
        if self.exchange is None:
            self.exchange = Exchange(self)
        return self.exchange

    def _cache_key(self, spec: NodeSpec, task: Task, arg: Any) -> Key | None:
        """None also for a task that has asked, whose result is between it and who answers, or that has failed."""
        if spec.cache is None or self.request.scope.live.cache is None:
            return None
        asked = task.asked_before if isinstance(task, CalledTask) else task.questions or task.answers
        return None if asked or task.failure is not None else key_of(spec, arg, self.program.words)

    def _cached(self, attempt: Attempt, task: Task) -> Effects:
        """Reply: the attempt with what the cache knows of it; None if the task is finished by that."""
        found = yield from look_up(attempt)
        if found is None:
            return attempt
        if attempt.node.branches and found.chosen is not None:
            return recalling(attempt, found)
        if self.tells_starts:
            yield effects.Emit((self._start_event(attempt, task),))
        self._finish(task, found, attempt.about, cached=True)
        if type(task) is CalledTask:
            yield from self._calls.settle(task, found)
        return None

    def _input(self, task: Task, spec: NodeSpec) -> Any:
        if task.arg is not MISSING and not spec.sees_state:
            return task.arg
        view: Mapping[str, Any] = self.run.standing.state.view
        if task.keeping is not None and task.keeping.amends:  # of a try before this one
            view = self.leavings.preview(task)
        shape = spec.shape
        seen = dict(view) if shape.is_complete else shape.of(view, self.steps_left)
        return seen if task.arg is MISSING else Seen(seen, task.arg)

    # Outcomes

    def _took(self, attempt: Attempt, task: Task, outcome: Outcome) -> Effects:
        if outcome.events:
            yield effects.Emit(outcome.events)
        if outcome.keeping is not None:
            outcome = self.leavings.take(task, outcome, outcome.keeping)
        if type(outcome) is Done:
            refused = unstorable(task, outcome) if type(task) is CalledTask and self.request.stored else None
            if refused is not None:
                yield from self._fails(task, refused)
                return
            if outcome.steered:
                task.steered = True
            self._finish(task, outcome, attempt.about)
            if attempt.cache_key is not None and attempt.failure is None:
                yield from keep(attempt, outcome)
            if type(task) is CalledTask:
                yield from self._calls.settle(task, outcome)
        elif type(outcome) is Asked and isinstance(task, CalledTask):
            self.leavings.record(task)
            yield from self._calls.settle(task, outcome)  # its caller asks for it
        elif type(outcome) is Asked:
            if task.answers and (lost := self._lost(attempt, task, outcome)) is not None:
                yield from self._fails(task, Failed(lost))
                return
            self.recording.records += ask(task, outcome)
            self.leavings.record(task)
            if outcome.breaks:
                self.breaks = True
                self.run.standing.kept.setdefault(task.id, {})[BREAKPOINT] = True
            if self.tells_ends:
                self._tell(task, interrupts=tuple(question for question, _ in outcome.questions))
        elif type(outcome) is ForParent:
            self.for_parent.append((task, outcome.command))
            task.output = Done(outcome.writes, [])
        else:
            assert isinstance(outcome, Failed)
            yield from self._failed(attempt, task, outcome)

    def _lost(self, attempt: Attempt, task: Task, asked: Asked) -> InterruptMismatchError | None:
        """An answer that no call inside the task has taken, though one that asks now should have."""
        left = asked.left if self.exchange is None else (*asked.left, *self.exchange.left_by(attempt))
        return lost_answer(task, asked, left, base_of(attempt)) if left else None

    def _finish(self, task: Task, output: Done, about: About | None, cached: bool = False) -> None:
        task.output = output
        if not self.single or type(task) is CalledTask:
            self.recording.finished.append(task)
        if self.tells_ends:
            self._tell(task, about, writes=tuple(output.writes), cached=cached)
        if self.behind and type(task) is not CalledTask:
            self._follow(task)

    def _failed(self, attempt: Attempt, task: Task, outcome: Failed) -> Effects:
        error = outcome.error
        if outcome.rejected is not None or isinstance(error, InterruptMismatchError):
            yield from self._fails(task, outcome)  # a person has to act: neither a retry nor a handler can
            return
        retry, tries = attempt.node.retry, attempt.number
        if attempt.failure is not None and task.failure is not None:  # it is the handler that has failed
            retry, tries = attempt.node.handler_retry, attempt.number - task.failure.attempt + 1
        policy = next((policy for policy in retry if policy.applies_to(error)), None)
        may_start = not self.failures or isinstance(task, CalledTask)
        if policy is not None and tries < policy.max_attempts and may_start:
            yield from self._retry_later(attempt, task, policy, tries)
            return
        if (
            attempt.node.handler is not None
            and attempt.failure is None
            and isinstance(error, attempt.node.handles)
        ):
            yield from self._hand_over(attempt, task, error)
            return
        yield from self._fails(task, outcome)

    def _hand_over(self, attempt: Attempt, task: Task, error: BaseException) -> Effects:
        """To the error handler. It is recorded that the node has failed, so that it never runs again."""
        task.failure = Failure(error, attempt.number)
        task.error = repr(error)
        self.leavings.record(task)
        self.waiting.appendleft((task, attempt.again(failure=error, keeping=task.keeping)))
        if self.request.stored:
            self.recording.records.append(failure_record(task.id, task.failure))
            yield from self.recording.write()

    def _fails(self, task: Task, outcome: Failed) -> Effects:
        self.leavings.record(task, outcome.error)
        self._tell(task, error=repr(outcome.error))
        if isinstance(task, CalledTask):
            yield from self._calls.settle(task, outcome)
            return
        self.failures.append((task, outcome))
        self._start_nothing_more()

    def _start_nothing_more(self) -> None:
        # Siblings that have been started run to their end, with what they call, and are recorded: whether one of
        # them has finished does not depend on when another one fails.
        self.waiting = deque(pair for pair in self.waiting if isinstance(pair[0], CalledTask))
        self.retrying = {a: task for a, task in self.retrying.items() if isinstance(task, CalledTask)}

    def refused(self, error: UnstorableError) -> Effects:
        """The storage refuses what a task wrote or asked: the task has failed, its siblings go on. Raises the error
        if it is of none of them."""
        task = next((task for task in self.tasks if task.id == error.task_id), None)
        if task is None:
            raise error
        self.recording.forget(task)
        task.output = None
        task.questions = {}
        yield from self._fails(task, Failed(error))

    # Telling

    def _start_event(self, attempt: Attempt, task: Task) -> TaskStarted:
        about = attempt.about = self._about(task, attempt.node)
        given = attempt.arg.arg if type(attempt.arg) is Seen else attempt.arg
        return TaskStarted(about=about, input=given, attempt=attempt.number, again=task.attempts > 1)

    def _tell(self, task: Task, about: About | None = None, **result: Any) -> None:
        if not self.tells_ends:
            return
        spec = task.called.node if isinstance(task, CalledTask) else self.program.specs[task.name]
        if spec.shown:
            about = about or self._about(task, spec)
            self.run.held.append(TaskEnded(about=about, whole=spec.result is not None, **result))

    def _about(self, task: Task, spec: NodeSpec) -> About:
        standing, scope = self.run.standing, self.request.scope
        state = standing.state
        joins = state.joins_of(task.name) if state.joins and task.arg is MISSING else ()
        return About(task, standing.step + 1, scope.namespace, scope.config, spec.metadata, joins)

    # Time

    def _retry_later(self, attempt: Attempt, task: Task, policy: RetryPolicy, tries: int) -> Effects:
        wait = min(policy.max_interval, policy.initial_interval * policy.backoff_factor ** (tries - 1))
        if policy.jitter:
            # Spread by the task's id: as good as chance between tasks, and the same every time.
            wait *= 1 + int(task.id[:4], 16) / 0x20000
        # A new input: the failed attempt may have changed the dict that it was given.
        arg = self._input(task, attempt.node)
        following = attempt.again(number=attempt.number + 1, arg=arg, keeping=task.keeping)
        now: float = yield effects.TIMER
        self.retrying[following] = task
        self.timers.set(now + wait, following, Alarm.RETRY)

    def _until(self) -> float | None:
        due, batch = self.timers.next_due(self.live, self.retrying), self.recording.due
        return batch if due is None else due if batch is None else min(due, batch)

    def _clock(self) -> Effects:
        """Time has come for a retry, a timeout or a batch."""
        now: float = yield effects.TIMER
        if self.recording.due is not None and now >= self.recording.due:
            yield from self.recording.write()
        for attempt, alarm in self.timers.due(now):
            if alarm is not Alarm.RETRY:
                yield from self._time_out(attempt, alarm, now)
            elif attempt in self.retrying:
                self.waiting.appendleft((self.retrying.pop(attempt), attempt))

    def _heard(self, attempt: Attempt, news: News) -> Effects:
        """An attempt shows something, or that it gets on. What comes after its end is refused."""
        if attempt not in self.live:
            if type(news) is Called:
                yield effects.Settle(news.reply, Failed(too_late(attempt, news)))
            return
        if type(news) is Beat:
            attempt.beating = None  # before the clock is read, so that no sign of progress is missed
            yield from self.gets_on(attempt, news)
        elif type(news) is Called:
            yield from self._calls.connect(attempt, news)
        elif type(news) is Withdrawn:
            yield from self._calls.withdraw(news.reply)
        else:
            yield effects.Emit((news,))
        if attempt.node.timeout is None:
            return
        now: float = yield effects.TIMER
        # News that never cease would keep the clock from being looked at.
        if self.timers.overran(attempt, now):
            yield from self._time_out(attempt, Alarm.RUN, now)

    def gets_on(self, attempt: Attempt, sign: Beat) -> Effects:
        """An attempt has made progress, and so has whoever has called it."""
        now: float = yield effects.TIMER
        task = self.live.get(attempt)
        while task is not None:
            policy = attempt.node.timeout
            if policy is not None and (sign is HEARTBEAT or policy.refresh_on == "auto"):
                self.timers.progress(attempt, now)
            if not isinstance(task, CalledTask):
                return
            attempt = task.caller
            task = self.live.get(attempt)

    def _time_out(self, attempt: Attempt, alarm: Alarm, now: float) -> Effects:
        task = self.live.pop(attempt, None)
        if task is None:
            return
        yield from self._calls.give_up(attempt)
        yield from self._failed(attempt, task, Failed(self.timers.error(attempt, alarm, now)))
