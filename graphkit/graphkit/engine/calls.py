"""Tasks that running tasks call: which recorded call each one is, and what it came to.

A call is a task of the same superstep, at the path of its caller with "call", its name and its key added. What it
returns is recorded under its own id as soon as it has finished. What it asks is asked by the task of the
superstep that it was called in: a question of a call has a namespace of its own below that task, which says which
call it was, so nothing else has to be recorded of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphkit.engine.attempt import Asked, Attempt, Called, Done, Failed, Past
from graphkit.engine.identity import TASK, below, call_at, call_of
from graphkit.engine.nested import Known
from graphkit.engine.tasks import Task
from graphkit.errors import InterruptMismatchError
from graphkit.types import Interrupt
from graphkit_checkpoint.errors import UnserializableStateError
from graphkit_checkpoint.records import OUTPUT, Pending
from graphkit_checkpoint.serde import fingerprint


class CalledTask(Task):
    """One call of a task, by the attempt `caller` at the task `parent`. `root` is the task of the superstep that it
    was called in, over however many calls."""

    def __init__(self, called: Called, caller: Attempt, parent: Task, base: str, key: str) -> None:
        path = (*caller.place.path, "call", called.node.name, key)
        super().__init__(called.node.name, caller.place.along(path), called.arg)
        self.called = called
        self.caller = caller
        self.parent = parent
        self.root: Task = parent.root if isinstance(parent, CalledTask) else parent
        self.namespace = f"{base}:{TASK}{key}"

    @property
    def asked_before(self) -> bool:
        return any(self._is_here(question) for question, _ in self.root.questions.values())

    @property
    def waits_for(self) -> list[tuple[Interrupt, str]]:
        """The questions that keep the call from going on; empty if it was given an answer, or has not asked."""
        here = [asked for asked in self.root.questions.values() if self._is_here(asked[0])]
        for question, _ in here:
            deeper = question.namespace != self.namespace
            if deeper and question.id in self.root.answers and self.root.has_for_inside(question.id):
                return []
        return [asked for asked in here if asked[0].id not in self.root.answers]

    @property
    def past(self) -> Past | None:
        """What there is of the call itself: the namespaces of the questions that come from inside it."""
        before = self.caller.past
        if before is None:
            return Past() if self.caller.number > 1 else None
        return Past(before.asked)

    @past.setter
    def past(self, past: Past | None) -> None:
        """It follows from the caller's."""

    def _is_here(self, question: Interrupt) -> bool:
        return question.namespace == self.namespace or question.namespace.startswith(f"{self.namespace}|")


class _Caller:
    """One attempt that calls tasks: `unfinished` counts those of its calls that run or wait to."""

    __slots__ = ("base", "known", "unfinished")

    def __init__(self, base: str, keys: Iterable[str]) -> None:
        self.base = base
        self.known = Known(keys)
        self.unfinished = 0


class Callers:
    """The attempts of one superstep that call tasks. `results` are those of the calls that have finished, now or in
    an earlier run, by the call's namespace."""

    def __init__(self, results: Mapping[str, Done]) -> None:
        self._results = dict(results)
        self._callers: dict[Attempt, _Caller] = {}

    def task_of(self, called: Called, caller: Attempt, parent: Task) -> CalledTask:
        """The task that a call is: one that is known, if it matches, else a new one."""
        known = self._callers.get(caller)
        if known is None:
            base = base_of(caller)
            asked = caller.past.asked if caller.past is not None else ()
            keys = {_key(namespace, base) for namespace in (*self._results, *asked)} - {""}
            known = self._callers[caller] = _Caller(base, keys)
        call = call_of(called.node.name, called.mark)._replace(ordered=called.ordered)
        key = known.known.claim(call)
        return CalledTask(called, caller, parent, known.base, key)

    def result_of(self, task: CalledTask) -> Done | None:
        return self._results.get(task.namespace)

    def started(self, task: CalledTask) -> None:
        self._callers[task.caller].unfinished += 1

    def ended(self, task: CalledTask) -> None:
        caller = self._callers.get(task.caller)
        if caller is not None:
            caller.unfinished -= 1
        if task.output is not None:
            self._results[task.namespace] = task.output

    def forget(self, caller: Attempt) -> None:
        self._callers.pop(caller, None)

    def left_by(self, caller: Attempt) -> tuple[str, ...]:
        """The namespaces of recorded calls that this attempt has not made again."""
        known = self._callers.get(caller)
        return () if known is None else tuple(f"{known.base}:{TASK}{key}" for key in known.known.left)

    @property
    def waiting(self) -> int:
        """How many attempts wait for what they called, and so take nobody's place."""
        return sum(caller.unfinished > 0 for caller in self._callers.values())


def lost_answer(task: Task, asked: Asked, left: tuple[str, ...], base: str) -> InterruptMismatchError | None:
    """An answer that was given to this run, to a question from a call that has not been made again while another one of
    its name asks anew: what the caller has put into it is new every time. `base` is that of the calls' namespaces."""
    new = {
        _name(question.namespace, base)
        for question, _ in asked.questions
        if question.id not in task.questions
    }
    for key, answer in task.answers.items():
        question, _ = task.questions[key]
        inside = any(f"{question.namespace}|".startswith(f"{namespace}|") for namespace in left)
        if answer.fresh and inside and _name(question.namespace, base) in new:
            return InterruptMismatchError(
                f"the answer {answer.value!r:.200} to the question {question.value!r:.200} of {question.node!r} is of "
                f"no use: {task.name!r}, which runs again with it, has made this call beside others and with another "
                f"input, so it is another call. Put what varies between runs into a task of its own, or make the calls "
                f"one after the other"
            )
    return None


def _name(namespace: str, base: str) -> str:
    """The name of the call that a question comes from; "" for one that the task itself has asked."""
    key = namespace.removeprefix(base).partition("|")[0] if namespace.startswith(base) else ""
    return call_at(key[1:])[1].name if key else ""


def is_within(task: Task, attempt: Attempt) -> bool:
    """Whether an attempt has called a task, directly or by what it called."""
    while isinstance(task, CalledTask):
        if task.caller is attempt:
            return True
        task = task.parent
    return False


def base_of(caller: Attempt) -> str:
    """The caller's part of its calls' namespaces."""
    asker = caller.place.id if caller.failure is None else f"{caller.place.id}/handler"
    return below(caller.scope.namespace, caller.node.name, asker)


def _key(namespace: str, base: str) -> str:
    """The key of the call of this caller that a namespace is, or is inside of; "" for all others."""
    before = f"{base}:{TASK}"
    return namespace.removeprefix(before).partition("|")[0] if namespace.startswith(before) else ""


def unstorable(task: CalledTask, output: Done) -> Failed | None:
    """What a call comes to whose result cannot be stored: an error, raised where the result is wanted, before anything
    that follows from it could be lost."""
    for _, value in output.writes:
        try:
            fingerprint(value)
        except UnserializableStateError as error:
            return Failed(error.of(f"task {task.name!r}, called by {task.caller.node.name!r}, returned"))
    return None


def result_record(task: CalledTask) -> Pending:
    assert task.output is not None
    writes = [list(write) for write in task.output.writes]
    return Pending(task.id, OUTPUT, "", {"writes": writes, "targets": [], "call": task.namespace})


def results_in(pending: Iterable[Pending]) -> dict[str, Done]:
    """The recorded results of calls, by the call's namespace."""
    return {
        record.value["call"]: Done([(key, value) for key, value in record.value["writes"]], [])
        for record in pending
        if record.kind == OUTPUT and "call" in record.value
    }
