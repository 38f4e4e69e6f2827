"""Tasks: the units of a superstep, and what is recorded of each.

A task is finished if and only if it has a recorded output. `Task.finished` decides this and everything
else asks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphkit.channels import MISSING
from graphkit.constants import START
from graphkit.engine.attempt import Answer, Asked, Done, Place, Target, Write
from graphkit.engine.program import Program
from graphkit.engine.state import Entry, Plan
from graphkit.types import Interrupt
from graphkit_checkpoint.records import ANSWER, ERROR, OUTPUT, QUESTION, Pending

LONGEST_TEXT = 800
"""Characters that are kept of an exception's text; the exception itself is raised as it is."""
OUTSIDE = ""
"""The task id of records that come from outside the graph (`Command(update, goto)`)."""


class Task:
    """One execution of one node in one superstep."""

    __slots__ = (
        "_id",
        "answers",
        "arg",
        "attempts",
        "error",
        "name",
        "output",
        "path",
        "place",
        "questions",
        "steered",
    )

    def __init__(self, name: str, path: tuple[str | int, ...], place: Place, arg: Any = MISSING) -> None:
        self.name = name
        self.path = path
        self.place = place
        self.arg = arg
        self._id = ""
        self.attempts = 0
        self.output: Done | None = None
        self.questions: dict[str, tuple[Interrupt, str]] = {}
        self.answers: dict[str, Answer] = {}
        self.error: str | None = None
        self.steered = False  # a command says where to go, so the node's own edges do not count

    @property
    def id(self) -> str:
        if not self._id:
            self._id = self.place.id
        return self._id

    def move(self, checkpoint_id: str, step: int) -> None:
        """The task belongs to a checkpoint that has just got its id."""
        self.place = Place(checkpoint_id, self.place.namespace, step, self.path)
        self._id = ""

    @property
    def finished(self) -> bool:
        return self.output is not None

    @property
    def open_questions(self) -> list[Interrupt]:
        """What the task waits for, named questions after unnamed ones in the order they were asked."""
        if self.finished:
            return []
        return [interrupt for asked, (interrupt, _) in self.questions.items() if asked not in self.answers]

    @property
    def runnable(self) -> bool:
        return self.output is None and not (self.questions and self.open_questions)


def make_tasks(plan: Plan, checkpoint_id: str, namespace: str, step: int) -> list[Task]:
    """The tasks of a superstep in task-path order: nodes by name, then `Send`s by index."""
    tasks = []
    for name in plan.names:
        path: tuple[str | int, ...] = ("pull", name)
        tasks.append(Task(name, path, Place(checkpoint_id, namespace, step, path)))
    for index, send in enumerate(plan.sends):
        path = ("push", index)
        tasks.append(Task(send.node, path, Place(checkpoint_id, namespace, step, path), send.arg))
    return tasks


def start_task(writes: Any, checkpoint_id: str, namespace: str, step: int) -> Task:
    path = ("pull", START)
    return Task(START, path, Place(checkpoint_id, namespace, step, path), writes)


def restore(tasks: Sequence[Task], pending: Iterable[Pending]) -> None:
    """Give tasks what is recorded of them."""
    by_id = {task.id: task for task in tasks} if pending else {}
    records = sorted(pending, key=lambda record: _RANK.get(record.kind, 0))
    for record in records:
        task = by_id.get(record.task_id)
        if task is not None:
            _restore(task, record)
    for task in tasks:
        if len(task.questions) > 1:
            ordered = sorted(task.questions.items(), key=lambda item: _question_order(item[1][0]))
            task.questions = dict(ordered)


_RANK = {QUESTION: 1, ANSWER: 2}


def _question_order(question: Interrupt) -> tuple[str, bool, int, str]:
    return (question.namespace, question.index is None, question.index or 0, question.name or "")


def _restore(task: Task, record: Pending) -> None:
    if record.kind == OUTPUT:
        task.output = output_of(record.value)
    elif record.kind == QUESTION:
        task.questions[record.key] = question_of(record.value)
    elif record.kind == ANSWER:
        asked = task.questions.get(record.key)
        shown = asked[0].value if asked else None
        task.answers[record.key] = Answer(record.value["value"], record.value["fingerprint"], shown)
    elif record.kind == ERROR:
        task.error = record.value["text"]


def output_record(task: Task, stored: Mapping[str, Any]) -> Pending:
    """`stored` maps channel names to channels; writes to channels that are not stored are left out."""
    assert task.output is not None
    writes = [[key, value] for key, value in task.output.writes if stored[key].stored]
    return Pending(task.id, OUTPUT, "", {"writes": writes, "targets": list(task.output.targets)})


def output_of(value: Mapping[str, Any]) -> Done:
    writes: list[Write] = [(key, written) for key, written in value["writes"]]
    targets: list[Target] = list(value["targets"])
    return Done(writes, targets)


def question_records(task: Task, asked: Asked) -> list[Pending]:
    records = []
    for question, mark in asked.questions:
        value = {
            "value": question.value,
            "id": question.id,
            "name": question.name,
            "index": question.index,
            "node": question.node,
            "namespace": question.namespace,
            "response_schema": question.response_schema,
            "fingerprint": mark,
        }
        records.append(Pending(task.id, QUESTION, question.id, value))
    return records


def question_of(value: Mapping[str, Any]) -> tuple[Interrupt, str]:
    fields = dict(value)
    mark = fields.pop("fingerprint")
    return Interrupt(**fields), mark


def answer_record(task_id: str, question: str, value: Any, mark: str) -> Pending:
    return Pending(task_id, ANSWER, question, {"value": value, "fingerprint": mark})


def error_record(task: Task, error: BaseException) -> Pending:
    text = printable(repr(error))
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]}…"
    return Pending(task.id, ERROR, "", {"type": type(error).__name__, "text": text})


def printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def entries_of(tasks: Iterable[Task], program: Program) -> list[Entry]:
    """The finished ones among the tasks, as they are applied."""
    return [
        Entry(
            task.name,
            None if task.steered else program.spec(task.name),
            task.output.writes,
            task.output.targets,
        )
        for task in tasks
        if task.output is not None
    ]
