"""A conversation that grows: its size on disk, and what a turn of it or a look at it costs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any, TypedDict

from benchmarks import limits
from benchmarks.frameworks import Framework
from benchmarks.messages import (
    MESSAGE_SIZE,
    MESSAGES,
    Reducer,
    chance,
    compile_listening,
    compile_running,
    invoke_turns,
    run_turns,
)
from benchmarks.scenario import Sample, Scenario, Sizes, Target, options

EARLY, EARLY_RUNS = range(6, 15), 20
"""The turns that stand for turn 10, and how many runs of them are made."""
LATE_RUNS = 3
HISTORY = 10
VALUE_SUPERSTEPS = 4


def late(turns: int) -> range:
    """The turns that stand for a late one: as many as a saver that folds does at once."""
    return range(turns - 32, turns + 32)


# Size on disk


def stored_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def size_of_run(framework: Framework, folder: Path, turns: int) -> Sample:
    """MB in files of one run of so many supersteps."""
    return size_after(framework, folder, lambda saver, reducer: run_turns(framework, saver, turns, reducer))


def size_of_invokes(framework: Framework, folder: Path, turns: int) -> Sample:
    """MB in files of so many separate invokes."""

    def work(saver: Any, reducer: Reducer) -> None:
        invoke_turns(compile_listening(framework, saver, reducer), options(saver), range(turns))

    return size_after(framework, folder, work)


def size_after(framework: Framework, folder: Path, work: Callable[[Any, Reducer], object]) -> Sample:
    """MB in files once the saver is closed, with operator.add or with add_messages: the larger counts."""

    def megabytes(reducer: Reducer) -> float:
        place = folder / reducer.__name__
        place.mkdir()
        with framework.savers["sqlite"](place) as saver:
            work(saver, reducer)
        return stored_bytes(place) / 1e6

    return lambda: max(megabytes(reducer) for reducer in (operator.add, framework.add_messages))


class Loaded(TypedDict):
    value: bytes
    n: int


def size_of_large_value(framework: Framework, folder: Path, size: int) -> Sample:
    """Bytes in files, after the saver is closed, for each byte of one random value that the input brings and
    that stays in the state for VALUE_SUPERSTEPS supersteps."""
    from graphkit.checkpoint.sqlite import SqliteSaver

    def step(state: Loaded) -> dict[str, int]:
        return {"n": state["n"] + 1}

    graph = framework.StateGraph(Loaded)
    names = [framework.START, *(f"step_{number}" for number in range(VALUE_SUPERSTEPS)), framework.END]
    for name in names[1:-1]:
        graph.add_node(name, step)
    for source, target in pairwise(names):
        graph.add_edge(source, target)

    def sample() -> float:
        with SqliteSaver(folder / "large.sqlite", max_value_bytes=2 * size) as saver:
            app = graph.compile(checkpointer=saver)
            result = app.invoke({"value": chance.randbytes(size), "n": 0}, **options(saver))
            assert result["n"] == VALUE_SUPERSTEPS
        return stored_bytes(folder) / size

    return sample


# Time per turn


def seconds_per_turn(framework: Framework, saver: Any, turns: range) -> float:
    """Mean time from one beginning of the node to the next over these turns of one run."""
    moments: list[float] = []
    config = run_turns(framework, saver, turns.stop + 1, note=moments.append)
    saver.delete_thread(config["configurable"]["thread_id"])
    return (moments[turns.stop] - moments[turns.start]) / len(turns)


def late_turn(framework: Framework, saver: Any, turns: int) -> Sample:
    """Seconds per turn at turn `turns` of a running graph."""
    return lambda: seconds_per_turn(framework, saver, late(turns))


def growth_with_turns(framework: Framework, saver: Any, turns: int) -> Sample:
    """How many times more turn `turns` of a running graph takes than turn 10.

    Both are means of about as many turns: now and then SQLite moves its log into the database, and that is the cost of
    early turns as much as of late ones. (A median of short runs leaves it out.)
    """

    def sample() -> float:
        early = mean(seconds_per_turn(framework, saver, EARLY) for _ in range(EARLY_RUNS))
        return mean(seconds_per_turn(framework, saver, late(turns)) for _ in range(LATE_RUNS)) / early

    return sample


def late_invoke(framework: Framework, saver: Any, turns: int) -> Sample:
    """Seconds per invoke at turn `turns` of a thread; it grows by a few turns with each sample."""
    app, run = compile_listening(framework, saver, operator.add), options(saver)
    invoke_turns(app, run, range(turns - 16))

    def sample() -> float:
        return seconds_per_invoke(app, run, 8)

    return sample


def seconds_per_invoke(app: Any, run: dict[str, Any], turns: int) -> float:
    started = perf_counter()
    invoke_turns(app, run, range(turns))
    return (perf_counter() - started) / turns


def growth_with_invokes(framework: Framework, saver: Any, turns: int) -> Sample:
    """How many times more invoke `turns` of a thread takes than invoke 10 (the mean of several threads)."""
    app, long = compile_listening(framework, saver, operator.add), options(saver)
    invoke_turns(app, long, range(turns - 32))

    def early() -> float:
        short = options(saver)
        invoke_turns(app, short, range(6))
        return seconds_per_invoke(app, short, 8)

    return lambda: seconds_per_invoke(app, long, 32) / mean(early() for _ in range(EARLY_RUNS))


# Looking


def reducer_of(framework: Framework, messages: bool) -> Reducer:
    return framework.add_messages if messages else operator.add


def cold_get_state(framework: Framework, folder: Path, turns: int, messages: bool = False) -> Sample:
    """Seconds of the first `get_state` with a saver object that has just been opened; opening is not counted."""
    reducer = reducer_of(framework, messages)
    with framework.savers["sqlite"](folder) as saver:
        config = run_turns(framework, saver, turns, reducer)

    def sample() -> float:
        with framework.savers["sqlite"](folder) as saver:
            app = compile_running(framework, saver, reducer, lambda moment: None)
            started = perf_counter()
            found = app.get_state(config)
            elapsed = perf_counter() - started
        assert len(found.values["messages"]) == turns
        return elapsed

    return sample


def history(framework: Framework, saver: Any, turns: int, messages: bool = False) -> Sample:
    """Seconds for the newest HISTORY states of a thread of so many turns."""
    reducer = reducer_of(framework, messages)
    config = run_turns(framework, saver, turns, reducer)
    app = compile_running(framework, saver, reducer, lambda moment: None)

    def sample() -> float:
        started = perf_counter()
        found = list(app.get_state_history(config, limit=HISTORY))
        elapsed = perf_counter() - started
        assert [len(one.values["messages"]) for one in found] == [turns - back for back in range(HISTORY)]
        return elapsed

    return sample


def rows(sizes: Sizes) -> list[Scenario]:
    turns = sizes.turns
    said = MESSAGES[:turns]
    commit = limits.commit_sqlite(limits.BODY + MESSAGE_SIZE)
    return [
        Scenario(
            f"size on disk, {turns} messages of 1 KB, one run, SQLite NORMAL",
            "MB",
            Target("at most", 1.6),
            partial(size_of_run, turns=turns),
            "own",
            limit=limits.packed_megabytes(said),
            most_pairs=1,
            slow=True,
        ),
        Scenario(
            f"size on disk, {turns} messages of 1 KB, {turns} invokes, SQLite NORMAL",
            "MB",
            Target("at most", 2.2),
            partial(size_of_invokes, turns=turns),
            "own",
            limit=limits.packed_megabytes(said),
            most_pairs=1,
            slow=True,
        ),
        Scenario(
            f"time per turn of a running graph at turn {turns}, 1 KB each, SQLite NORMAL",
            "ms",
            Target("ratio", 30),
            partial(late_turn, turns=turns),
            "sqlite",
            limit=commit,
            most_pairs=3,
        ),
        Scenario(
            f"time per turn of a running graph, turn {turns} ÷ turn 10",
            "×",
            Target("at most", 1.5),
            partial(growth_with_turns, turns=turns),
            "sqlite",
            with_peer=False,
            slow=True,
        ),
        Scenario(
            f"time per invoke at turn {turns}, 1 KB each, SQLite NORMAL",
            "ms",
            None,
            partial(late_invoke, turns=turns),
            "sqlite",
            limit=commit,
            most_pairs=11,
        ),
        Scenario(
            f"time per invoke, turn {turns} ÷ turn 10",
            "×",
            None,
            partial(growth_with_invokes, turns=turns),
            "sqlite",
            with_peer=False,
            most_pairs=3,
            slow=True,
        ),
        Scenario(
            f"cold get_state at turn {turns} (saver just opened), SQLite",
            "ms",
            Target("ratio", 1),
            partial(cold_get_state, turns=turns),
            "own",
            limit=limits.read_back(said),
        ),
        Scenario(
            f"get_state_history(limit={HISTORY}) at turn {turns}, SQLite",
            "ms",
            Target("ratio", 8),
            partial(history, turns=turns),
            "sqlite",
            limit=limits.read_back(said, copies=HISTORY),
        ),
        Scenario(
            f"cold get_state at turn {turns}, add_messages, SQLite",
            "ms",
            Target("ratio", 1),
            partial(cold_get_state, turns=turns, messages=True),
            "own",
            slow=True,
        ),
        Scenario(
            f"get_state_history(limit={HISTORY}) at turn {turns}, add_messages, SQLite",
            "ms",
            Target("ratio", 8),
            partial(history, turns=turns, messages=True),
            "sqlite",
            slow=True,
        ),
        Scenario(
            f"size on disk ÷ size of a value of {sizes.value_bytes // 10**6} MB, {VALUE_SUPERSTEPS} supersteps, SQLite",
            "×",
            Target("at most", 1.1),
            partial(size_of_large_value, size=sizes.value_bytes),
            "own",
            with_peer=False,
            most_pairs=1,
            slow=True,
        ),
    ]
