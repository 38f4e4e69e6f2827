"""Tasks: the units of a superstep, and what is recorded of each.

A task is finished if and only if it has a recorded output. `Task.finished` decides this and everything
else asks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from graphkit.channels import MISSING
from graphkit.constants import START
from graphkit.engine.attempt import Answer, Asked, Done, Keeping, Past, Place, Target, Write
from graphkit.engine.failures import HANDLED, Failure, failure_of
from graphkit.engine.program import Program
from graphkit.engine.state import Entry, Plan
from graphkit.types import Interrupt, TimeoutPolicy
from graphkit_checkpoint.records import ANSWER, ERROR, KEPT, OUTPUT, QUESTION, Pending, order_of

OUTSIDE = ""
"""The task id of records that come from outside the graph (`Command(update, goto)`)."""


BREAKPOINT = "__breakpoint__"
"""The key of what is kept of a task in which a nested graph is at a breakpoint."""


_NOTHING: Final[Mapping[str, Any]] = {}  # plain: attempts carry it to other processes


class Task:
    """One execution of one node in one superstep.

    `questions` are what it has asked and their marks, `answers` what there is to them, by question id; both are
    replaced and never changed.
    `failure` is that of the last attempt, which an error handler is to answer for. A task `rests` at a breakpoint
    inside it that this run does not pass. It is `steered` if a command from outside or of its error handler says where
    to go, so that the node's own edges do not count.
    """

    def __init__(
        self, name: str, place: Place, arg: Any = MISSING, timeout: TimeoutPolicy | None = None
    ) -> None:
        self.name = name
        self.place = place
        self.arg = arg
        self.timeout = timeout
        self.attempts = 0
        self.output: Done | None = None
        self.error: str | None = None
        self.failure: Failure | None = None
        self.past: Past | None = None
        self.keeping: Keeping | None = None
        self.rests = False
        self.steered = False
        self.questions: Mapping[str, tuple[Interrupt, str]] = _NOTHING
        self.answers: Mapping[str, Answer] = _NOTHING

    @property
    def id(self) -> str:
        return self.place.id

    @property
    def path(self) -> tuple[str | int, ...]:
        return self.place.path

    def move(self, checkpoint_id: str, step: int) -> None:
        """The task belongs to a checkpoint that has just got its id."""
        self.place = Place(checkpoint_id, self.place.namespace, step, self.place.path)

    @property
    def finished(self) -> bool:
        return self.output is not None

    @property
    def open_questions(self) -> list[Interrupt]:
        """What the task waits for, in the order in which it was asked."""
        if self.output is not None or not self.questions:
            return []
        return [interrupt for asked, (interrupt, _) in self.questions.items() if asked not in self.answers]

    @property
    def attends(self) -> dict[str, Any] | None:
        """What a question's record says of a task that no checkpoint tells of."""
        return None

    @property
    def all_questions(self) -> list[Interrupt]:
        """What the task has asked, in order; answered questions with their answers."""
        answers = self.answers
        return [
            replace(question, response=answers[question.id].value) if question.id in answers else question
            for question, _ in self.questions.values()
        ]

    @property
    def runnable(self) -> bool:
        """Whether the task has something to do: it waits for no answer, or has one for a graph inside it."""
        if self.output is not None or self.rests:
            return False
        return not self.questions or not self.open_questions or any(map(self.has_for_inside, self.answers))

    def has_for_inside(self, question: str) -> bool:
        """Whether an answer lets a nested graph go on, whatever else the task waits for."""
        asked = self.questions.get(question)
        return (
            asked is not None
            and asked[0].namespace != self.place.namespace
            and not self.answers[question].taken
        )


def make_tasks(plan: Plan, checkpoint_id: str, namespace: str, step: int) -> list[Task]:
    """The tasks of a superstep in task-path order: nodes by name, then `Send`s by index."""
    tasks = []
    names, sends = plan
    for name in names:
        place = Place(checkpoint_id, namespace, step, ("pull", name))
        tasks.append(Task(name, place))
    for index, send in enumerate(sends):
        place = Place(checkpoint_id, namespace, step, ("push", index))
        tasks.append(Task(send.node, place, send.arg, TimeoutPolicy.coerce(send.timeout)))
    return tasks


def lines_of(tasks: Iterable[Task], in_order: frozenset[str]) -> dict[str, list[Task]]:
    """The unfinished tasks of the nodes that are in order: only the first one of each line may run."""
    lines: dict[str, list[Task]] = {}
    for task in tasks:
        if task.name in in_order and not task.finished:
            lines.setdefault(task.name, []).append(task)
    return lines


def start_task(writes: Any, checkpoint_id: str, namespace: str, step: int) -> Task:
    return Task(START, Place(checkpoint_id, namespace, step, ("pull", START)), writes)


def restore(tasks: Sequence[Task], pending: Sequence[Pending]) -> None:
    """Give tasks what is recorded of them."""
    if not pending:
        return
    by_id = {task.id: task for task in tasks}
    for record in sorted(pending, key=_rank) if len(pending) > 1 else pending:
        task = by_id.get(record.task_id)
        if task is not None:
            _restore(task, record)


def _rank(record: Pending) -> tuple[int, int]:
    """Answers after questions, and those in the order in which they were asked."""
    if record.kind == QUESTION:
        return 1, order_of(record.value)
    return (2 if record.kind == ANSWER else 0), 0


def _restore(task: Task, record: Pending) -> None:
    if record.kind == OUTPUT:
        task.output = output_of(record.value)
        task.steered = task.steered or "steered" in record.value
    elif record.kind == QUESTION:
        task.questions = {**task.questions, record.key: question_of(record.value)}
    elif record.kind == ANSWER:
        asked = task.questions.get(record.key)
        shown = asked[0].value if asked else None
        given = record.value
        answer = Answer(given["value"], given["fingerprint"], shown, "taken" in given)
        task.answers = {**task.answers, record.key: answer}
    elif record.kind == KEPT and record.key != BREAKPOINT:
        task.keeping = task.keeping or Keeping()
        task.keeping.kept[record.key] = record.value
    elif record.kind == ERROR and record.key == HANDLED:
        task.failure = failure_of(record.value)
        task.error = task.error or record.value["text"]
    elif record.kind == ERROR:
        task.error = record.value["text"]


def kept_in(pending: Iterable[Pending]) -> dict[str, dict[str, Any]]:
    """What is recorded as kept, by the id of the task or call."""
    kept: dict[str, dict[str, Any]] = {}
    for record in pending:
        if record.kind == KEPT:
            kept.setdefault(record.task_id, {})[record.key] = record.value
    return kept


def kept_records(task: Task) -> list[Pending]:
    kept = {} if task.keeping is None else task.keeping.kept
    return [Pending(task.id, KEPT, key, value) for key, value in kept.items()]


def output_record(task: Task, stored: Mapping[str, Any]) -> Pending:
    """`stored` maps channel names to channels; writes to channels that are not stored are left out."""
    assert task.output is not None
    writes = [[key, value] for key, value in task.output.writes if stored[key].stored]
    value = {"writes": writes, "targets": list(task.output.targets)}
    return Pending(task.id, OUTPUT, "", {**value, "steered": True} if task.steered else value)


def output_of(value: Mapping[str, Any]) -> Done:
    writes: list[Write] = [(key, written) for key, written in value["writes"]]
    targets: list[Target] = list(value["targets"])
    return Done(writes, targets)


def ask(task: Task, asked: Asked) -> list[Pending]:
    """Note what the task asks, now; returns the records of it. Answers that a graph inside the task has gone on
    with, and still asks, are marked as taken."""
    records = []
    taken = {id: task.answers[id]._replace(taken=True) for id in task.answers if task.has_for_inside(id)}
    for answered, answer in taken.items():
        records.append(answer_record(task.id, answered, answer.value, answer.fingerprint, taken=True))
    task.answers = {**task.answers, **taken}
    again = {question.id for question, _ in asked.questions}
    questions = {id: question for id, question in task.questions.items() if id not in again}
    for order, (question, mark) in enumerate(asked.questions, len(questions)):
        questions[question.id] = question, mark
        value = {
            "value": question.value,
            "id": question.id,
            "name": question.name,
            "index": question.index,
            "node": question.node,
            "namespace": question.namespace,
            "response_schema": question.response_schema,
            "fingerprint": mark,
            "order": order,
        }
        if task.attends is not None:
            value["attends"] = task.attends
        records.append(Pending(task.id, QUESTION, question.id, value))
    task.questions = questions
    if asked.breaks:
        records.append(Pending(task.id, KEPT, BREAKPOINT, True))
    return records


def question_of(value: Mapping[str, Any]) -> tuple[Interrupt, str]:
    fields = dict(value)
    mark = fields.pop("fingerprint")
    fields.pop("order", None)  # of records that an earlier version made there is none
    fields.pop("attends", None)
    return Interrupt(**fields), mark


def answer_record(task_id: str, question: str, value: Any, mark: str, *, taken: bool = False) -> Pending:
    given = {"value": value, "fingerprint": mark}
    return Pending(task_id, ANSWER, question, {**given, "taken": True} if taken else given)


def entries_of(tasks: Iterable[Task], program: Program) -> list[Entry]:
    """The finished ones among the tasks, as they are applied."""
    specs = program.specs
    entries: list[Entry] = []
    for task in tasks:
        output = task.output
        if output is not None:
            spec = None if task.steered else specs[task.name]
            entries.append((task.name, spec, output.writes, output.targets))
    return entries
