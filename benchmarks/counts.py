"""Counts, which no busy machine changes: fsyncs, commits, and the memory that a long run takes."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.frameworks import Framework
from benchmarks.limits import anywhere
from benchmarks.processes import fsyncs_per_superstep, memory_of_turns
from benchmarks.scenario import Sample, Scenario, Sizes, Target, options
from benchmarks.supersteps import add_one, compile_loop

COMMITTED = 20
"""Supersteps of the run whose commits are counted."""


def commits(framework: Framework, saver: Any) -> Sample:
    """Commits of one run."""
    from sqlalchemy import event

    app = compile_loop(framework, saver, add_one)
    app.invoke({"n": 0, "goal": 1}, **options(saver))  # whatever is created once is created here
    counted: list[None] = []
    event.listen(saver.engine, "commit", lambda connection: counted.append(None))

    def sample() -> float:
        counted.clear()
        app.invoke({"n": 0, "goal": COMMITTED}, **options(saver))
        return len(counted)

    return sample


def fsyncs(framework: Framework, saver: Any, sizes: Sizes) -> Sample:
    """With a saver at synchronous=FULL. It is a little above a whole number, because SQLite syncs a few times more
    whenever it moves 1000 pages from its log."""
    return partial(fsyncs_per_superstep, framework.name, sizes)


def memory(framework: Framework, saver: Any, turns: int) -> Sample:
    return partial(memory_of_turns, framework.name, turns)


def rows(sizes: Sizes) -> list[Scenario]:
    turns = sizes.memory_turns
    return [
        Scenario(
            "fsync and fdatasync calls per superstep (by strace), SQLite FULL",
            "fsyncs",
            Target("rounded", 1),
            partial(fsyncs, sizes=sizes),
            limit=anywhere(
                "one transaction at synchronous=FULL (sqlite3)", partial(fsyncs_per_superstep, "bare", sizes)
            ),
            most_pairs=3,
            slow=True,
            needs_strace=True,
        ),
        Scenario(
            f"commits of a run of {COMMITTED} supersteps",
            "commits",
            Target("exactly", COMMITTED + 1),
            commits,
            "sqlite",
            with_peer=False,
        ),
        Scenario(
            f"memory, in-memory saver, one run of {turns} turns of 1 KB (rise of the peak RSS)",
            "MB",
            Target("at most", 24),
            partial(memory, turns=turns),
            limit=anywhere("the messages packed and kept", partial(memory_of_turns, "bare", turns)),
            with_peer=False,  # its one run would take gigabytes
            most_pairs=3,
            slow=True,
        ),
    ]
