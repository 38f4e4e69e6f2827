"""Values come back equal in value and type."""

from __future__ import annotations

from typing import Any

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import SaverLab
from graphkit_checkpoint.conformance.samples import VALUES
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal
from graphkit_checkpoint.records import Pending

chapter: Chapter[SaverLab] = Chapter(Capability.VALUES)


@chapter.each(VALUES)
def value(lab: SaverLab, values: list[Any]) -> None:
    """Exact in value and type, wherever they are stored: {case}."""
    run = lab.run()
    scalars = {f"value {number}": value for number, value in enumerate(values)}
    whole = {**scalars, "list": values, "map": dict(enumerate(values)), "log": values[:1], "pairs": {"k": 0}}
    run.step(whole, metadata={"m": values}, work={"w": values}, given=[("list", value) for value in values])
    run.append("log", *values[1:])
    run.set_keys("pairs", dict(enumerate(values)))
    run.record(*(Pending(f"{n:03}", "output", "", value) for n, value in enumerate(values)))
    saver = lab.other()
    run.check_all(saver)
    first = next(saved for saved in saver.history(run.thread_id) if saved.checkpoint.id == min(run.seen))
    equal(first.checkpoint.metadata, {"m": values}, "metadata")
    equal(first.checkpoint.work, {"w": values}, "work")
    equal([write[1] for write in first.checkpoint.given or ()], values, "given")
    equal([record.value for record in run.head(saver).pending], values, "pending records")
