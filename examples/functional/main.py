"""An essay and its reviewers: `python examples/functional/main.py`.

A workflow as a plain function. The parts are written by tasks of their own, side by side; the draft is shown to
two reviewers, who are asked at the same time and may answer at different ones. While they think nothing runs: their
answers are given to another workflow object here, as another process would do it. What has been written by then is
not written again, and the next essay on the same thread knows what the last one was called.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from graphkit import Command, entrypoint, interrupt, task
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.types import RetryPolicy

PARTS = ("beginning", "middle", "end")
THREAD: Any = {"configurable": {"thread_id": "essays"}}
ANSWERS = {"Ada": "more cats", "Grace": "fine"}


class WriterBusyError(ConnectionError):
    """The writer may be reached a little later."""


def say(line: str) -> None:
    """One line in one write: tasks run side by side."""
    sys.stdout.write(f"  {line}\n")


class Desk:
    """Stands for a model that costs money: it counts what it is asked to write."""

    def __init__(self) -> None:
        self.busy_once = True

    def write(self, text: str) -> str:
        if self.busy_once:
            self.busy_once = False
            say("the writer is busy")
            raise WriterBusyError
        say(f"written: {text}")
        return text


desk = Desk()


@task(retry_policy=RetryPolicy(initial_interval=0.01))
def write(part: str, topic: str) -> str:
    return desk.write(f"the {part} of {topic}")


@task
def review(essay: str, reviewer: str) -> str:
    """A question inside a task. All reviewers are asked at once; each answer is kept when it comes."""
    remark: str = interrupt({"reviewer": reviewer, "essay": essay})
    say(f"{reviewer} says: {remark}")
    return remark


@task
def revise(essay: str, remarks: list[str]) -> str:
    return desk.write(f"{essay}, with {', '.join(remarks)}")


def workflow(saver: SqliteSaver) -> Any:
    @entrypoint(checkpointer=saver)
    def essay(topic: str, *, previous: str | None = None) -> entrypoint.final[str, str]:
        if previous is not None:
            print(f"  after an essay on {previous}")
        parts = [write(part, topic) for part in PARTS]
        draft = "; ".join(part.result() for part in parts)
        remarks = [review(draft, reviewer) for reviewer in ANSWERS]
        wishes = [remark for remark in [each.result() for each in remarks] if remark != "fine"]
        final = revise(draft, wishes).result() if wishes else draft
        return entrypoint.final(value=final, save=topic)

    return essay


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "essays.sqlite")
        with SqliteSaver(database) as saver:
            print("an essay on cats:")
            workflow(saver).invoke("cats", THREAD)
        with SqliteSaver(database) as saver:
            essay = workflow(saver)
            for question in essay.get_state(THREAD).interrupts:
                reviewer = question.value["reviewer"]
                print(f"{reviewer} answers:")
                result = essay.invoke(Command(resume={question.id: ANSWERS[reviewer]}), THREAD)
            print(f"result: {result}")
            print("an essay on dogs:")
            for update in essay.stream("dogs", THREAD):
                print(f"update: {', '.join(update)}")


if __name__ == "__main__":
    main()
