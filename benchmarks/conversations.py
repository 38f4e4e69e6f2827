"""Scenarios about a conversation that grows: its size on disk, and what a turn or a look at it costs.

A message is a dict with a role and 1 KB of random ASCII, which nothing compresses. A *turn* is either one
superstep of a running graph, whose node appends the message, or one invoke, whose input is the message.
"""

from __future__ import annotations

import operator
import random
import string
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Annotated, Any, TypedDict

from frameworks import Framework
from scenarios import Sample, Scenario, Target, options

TURNS = 1000
MEMORY_TURNS = 3000
MESSAGE_SIZE = 1024
EARLY, LATE = range(6, 15), range(TURNS - 32, TURNS + 32)
"""The turns that stand for turn 10 and turn 1000. As many late ones as a saver that folds does at once."""
EARLY_RUNS = 20
HISTORY = 10
VALUE_SIZE, VALUE_SUPERSTEPS = 100_000_000, 4

Reducer = Callable[[Any, Any], Any]

chance = random.Random(1000)


def new_message() -> dict[str, str]:
    return {"role": "user", "content": "".join(chance.choices(string.ascii_letters, k=MESSAGE_SIZE))}


MESSAGES = [new_message() for _ in range(MEMORY_TURNS)]
"""Made beforehand: what a message costs to make is not what is measured."""


def state_with(reducer: Reducer) -> Any:
    return TypedDict("Conversation", {"messages": Annotated[list[Any], reducer], "turn": int, "goal": int})


def compile_running(framework: Framework, saver: Any, reducer: Reducer, note: Callable[[float], None]) -> Any:
    """A node that appends a message and runs again, until `goal` turns are done. `note` gets the moments at
    which it begins."""

    def say(state: Any) -> dict[str, Any]:
        note(perf_counter())
        turn = state["turn"]
        return {"messages": [dict(MESSAGES[turn % len(MESSAGES)])], "turn": turn + 1}

    def again(state: Any) -> str:
        return framework.END if state["turn"] >= state["goal"] else "say"

    graph = framework.StateGraph(state_with(reducer))
    graph.add_node("say", say)
    graph.add_edge(framework.START, "say")
    graph.add_conditional_edges("say", again, ["say", framework.END])
    return graph.compile(checkpointer=saver)


def compile_listening(framework: Framework, saver: Any, reducer: Reducer) -> Any:
    """One node, which counts; the messages come as input."""

    def listen(state: Any) -> dict[str, int]:
        return {"turn": state.get("turn", 0) + 1}

    graph = framework.StateGraph(state_with(reducer))
    graph.add_node("listen", listen)
    graph.add_edge(framework.START, "listen")
    graph.add_edge("listen", framework.END)
    return graph.compile(checkpointer=saver)


def run_turns(
    framework: Framework,
    saver: Any,
    turns: int,
    reducer: Reducer = operator.add,
    note: Callable[[float], None] = lambda moment: None,
) -> dict[str, Any]:
    """One run of so many supersteps; returns the config of its thread."""
    app = compile_running(framework, saver, reducer, note)
    run = options(saver)
    result = app.invoke({"messages": [], "turn": 0, "goal": turns}, **run)
    assert len(result["messages"]) == turns
    return dict(run["config"])


def invoke_turns(app: Any, run: dict[str, Any], turns: range) -> None:
    for turn in turns:
        app.invoke({"messages": [dict(MESSAGES[turn % len(MESSAGES)])]}, **run)


# Size on disk


def stored_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def size_of_run(framework: Framework, folder: Path) -> Sample:
    """MB in files of one run of TURNS supersteps."""
    return size_after(framework, folder, lambda saver, reducer: run_turns(framework, saver, TURNS, reducer))


def size_of_invokes(framework: Framework, folder: Path) -> Sample:
    """MB in files of TURNS separate invokes."""

    def work(saver: Any, reducer: Reducer) -> None:
        invoke_turns(compile_listening(framework, saver, reducer), options(saver), range(TURNS))

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


def size_of_large_value(framework: Framework, folder: Path) -> Sample:
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
        with SqliteSaver(folder / "large.sqlite", max_value_bytes=2 * VALUE_SIZE) as saver:
            app = graph.compile(checkpointer=saver)
            result = app.invoke({"value": chance.randbytes(VALUE_SIZE), "n": 0}, **options(saver))
            assert result["n"] == VALUE_SUPERSTEPS
        return stored_bytes(folder) / VALUE_SIZE

    return sample


# Time per turn


def seconds_per_turn(framework: Framework, saver: Any, turns: range) -> float:
    """Mean time from one beginning of the node to the next over these turns of one run."""
    moments: list[float] = []
    config = run_turns(framework, saver, turns.stop + 1, note=moments.append)
    saver.delete_thread(config["configurable"]["thread_id"])
    return (moments[turns.stop] - moments[turns.start]) / len(turns)


def late_turn(framework: Framework, saver: Any) -> Sample:
    """Seconds per turn at turn TURNS of a running graph."""
    return lambda: seconds_per_turn(framework, saver, LATE)


def growth_with_turns(framework: Framework, saver: Any) -> Sample:
    """How many times more turn TURNS of a running graph takes than turn 10 (the median of several runs)."""

    def sample() -> float:
        early = median(seconds_per_turn(framework, saver, EARLY) for _ in range(EARLY_RUNS))
        return median(seconds_per_turn(framework, saver, LATE) for _ in range(3)) / early

    return sample


def late_invoke(framework: Framework, saver: Any) -> Sample:
    """Seconds per invoke at turn TURNS of a thread; it grows by a few turns with each sample."""
    app, run = compile_listening(framework, saver, operator.add), options(saver)
    invoke_turns(app, run, range(TURNS - 16))

    def sample() -> float:
        return seconds_per_invoke(app, run, 8)

    return sample


def seconds_per_invoke(app: Any, run: dict[str, Any], turns: int) -> float:
    started = perf_counter()
    invoke_turns(app, run, range(turns))
    return (perf_counter() - started) / turns


def growth_with_invokes(framework: Framework, saver: Any) -> Sample:
    """How many times more invoke TURNS of a thread takes than invoke 10 (the mean of several threads)."""
    app, long = compile_listening(framework, saver, operator.add), options(saver)
    invoke_turns(app, long, range(TURNS - 32))

    def early() -> float:
        short = options(saver)
        invoke_turns(app, short, range(6))
        return seconds_per_invoke(app, short, 8)

    return lambda: seconds_per_invoke(app, long, 32) / mean(early() for _ in range(EARLY_RUNS))


# Looking


def cold_get_state(framework: Framework, folder: Path) -> Sample:
    """Seconds of the first `get_state` with a saver object that has just been opened; opening is not counted."""
    with framework.savers["sqlite"](folder) as saver:
        config = run_turns(framework, saver, TURNS)

    def sample() -> float:
        with framework.savers["sqlite"](folder) as saver:
            app = compile_running(framework, saver, operator.add, lambda moment: None)
            started = perf_counter()
            found = app.get_state(config)
            elapsed = perf_counter() - started
        assert len(found.values["messages"]) == TURNS
        return elapsed

    return sample


def history(framework: Framework, saver: Any) -> Sample:
    """Seconds for the newest HISTORY states of a thread of TURNS turns."""
    config = run_turns(framework, saver, TURNS)
    app = compile_running(framework, saver, operator.add, lambda moment: None)

    def sample() -> float:
        started = perf_counter()
        found = list(app.get_state_history(config, limit=HISTORY))
        elapsed = perf_counter() - started
        assert [len(one.values["messages"]) for one in found] == [TURNS - back for back in range(HISTORY)]
        return elapsed

    return sample


CONVERSATIONS = [
    Scenario(
        f"size on disk, {TURNS} messages of 1 KB, one run, SQLite NORMAL",
        "MB",
        Target("at most", 1.6),
        size_of_run,
        "own",
        most_pairs=1,
    ),
    Scenario(
        f"size on disk, {TURNS} messages of 1 KB, {TURNS} invokes, SQLite NORMAL",
        "MB",
        Target("at most", 2.2),
        size_of_invokes,
        "own",
        most_pairs=1,
    ),
    Scenario(
        f"time per turn of a running graph at turn {TURNS}, 1 KB each, SQLite NORMAL",
        "ms",
        Target("ratio", 30),
        late_turn,
        "sqlite",
        most_pairs=3,
    ),
    Scenario(
        f"time per turn of a running graph, turn {TURNS} ÷ turn 10",
        "×",
        Target("at most", 1.5),
        growth_with_turns,
        "sqlite",
        with_peer=False,
    ),
    Scenario(
        f"time per invoke at turn {TURNS}, 1 KB each, SQLite NORMAL",
        "ms",
        None,
        late_invoke,
        "sqlite",
        most_pairs=11,
    ),
    Scenario(
        f"time per invoke, turn {TURNS} ÷ turn 10",
        "×",
        None,
        growth_with_invokes,
        "sqlite",
        with_peer=False,
        most_pairs=3,
    ),
    Scenario(
        f"cold get_state at turn {TURNS} (saver just opened), SQLite",
        "ms",
        Target("ratio", 1),
        cold_get_state,
        "own",
    ),
    Scenario(
        f"get_state_history(limit={HISTORY}) at turn {TURNS}, SQLite",
        "ms",
        Target("ratio", 8),
        history,
        "sqlite",
    ),
    Scenario(
        f"size on disk ÷ size of a value of 100 MB, {VALUE_SUPERSTEPS} supersteps, SQLite",
        "×",
        Target("at most", 1.1),
        size_of_large_value,
        "own",
        with_peer=False,
        most_pairs=1,
    ),
]
