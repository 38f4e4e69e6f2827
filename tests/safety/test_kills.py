"""Safety 1 and 2: SIGKILL at random moments of runs with default settings; nothing is lost, repeated, or shown
without being durable."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import make_url

from graphkit import START, StateGraph
from tests.faults import Witness, fork_child
from tests.safety.conftest import Report
from tests.safety.figures import chance, size
from tests.safety.forks import ENOUGH, Fork, Gate
from tests.safety.scenes import (
    COLOURS,
    GIVEN,
    Cast,
    State,
    View,
    call,
    effects,
    finish,
    open_saver,
    shown,
    thread,
    warm_up,
)

KILLS = size(15, 250)
"""For each database and colour: 60 or 1,000 in all."""
LENGTH = 24
SUPERSTEPS = [[f"{step}{part}" for part in ("abc" if step % 3 == 2 else "a")] for step in range(LENGTH)]
"""Every third superstep is three nodes side by side."""
EFFECTS = [name for together in SUPERSTEPS for name in together]
LATEST = 0.004
"""Seconds between an effect and the kill, at most: longer than a superstep takes."""


def graph_of(cast: Cast, database: str) -> Any:
    builder, before = StateGraph(State), [START]
    for together in SUPERSTEPS:
        for name in together:
            builder.add_node(name, cast.node(name))
            builder.add_edge(before if len(before) > 1 else before[0], name)
        before = together
    return builder.compile(open_saver(database))


class Kills(NamedTuple):
    """What came of the kills: writes `lost` and those there `twice`, histories that were `wrong`, supersteps
    executed `again`, chunks `shown` and those of them that were not durable."""

    killed: int
    lost: int
    twice: int
    wrong: int
    again: int
    most_again: int
    shown: int
    not_durable: int


class Episodes:
    """Lives in a nursery."""

    def __init__(self, database: str, colour: str, folder: str, batch: int) -> None:
        self.database, self.colour, self.batch = database, colour, batch
        self.dice = chance("kills", make_url(database).get_backend_name(), colour, batch)
        self.witness = Witness(Path(folder, "witness"))
        self.screen = Witness(Path(folder, "screen"))

    def graph(self, on_effect: Callable[[str], None] = lambda name: None) -> Any:
        return graph_of(Cast(self.colour, self.witness, on_effect), self.database)

    def run(self, name: str, gate: Gate, streams: bool) -> None:
        graph, config = self.graph(lambda node: gate.tell()), thread(name)
        if not streams:
            call(self.colour, graph, GIVEN, config)
            return
        for mode, chunk in shown(self.colour, graph, GIVEN, config, stream_mode=["updates", "values"]):
            self.screen.note(f"{name} {json.dumps([mode, chunk])}")

    def killed(self, name: str) -> bool:
        """Kill a run at a random moment; False if it was quicker."""
        gate = Gate()
        run = Fork(self.run, name, gate, self.dice.random() < 0.7)
        gate.wait(self.dice.randint(1, len(EFFECTS)))
        time.sleep(self.dice.uniform(0, LATEST))
        run.send(signal.SIGKILL)
        gate.close()
        return run.died()

    def after(self, names: list[str]) -> list[tuple[Any, View]]:
        """Each thread as it was left, and at its end."""
        graph = self.graph()
        return [
            (graph.get_state(config).values, finish(self.colour, graph, config, ""))
            for config in map(thread, names)
        ]

    def play(self, kills: int) -> Kills:
        names: list[str] = []
        killed = 0
        while killed < kills:
            names.append(f"{self.batch}-{len(names)}")
            killed += self.killed(names[-1])
        everything = Fork(self.after, [f"{self.batch}-whole", *names]).result()
        (_, whole), *ends = everything
        assert whole.values["log"] == ["in", *EFFECTS]
        wanted = Counter(whole.values["log"])
        logs = [Counter(end.values["log"]) for _, end in ends]
        left = {name: values for name, (values, _) in zip(names, ends, strict=True)}
        again = [self.executed_again(name, left[name]) for name in names]
        chunks = [line.split(" ", 1) for line in self.screen.lines()]
        return Kills(
            killed,
            lost=sum((wanted - log).total() for log in logs),
            twice=sum((log - wanted).total() for log in logs),
            wrong=sum(end != whole for _, end in ends),
            again=sum(again),
            most_again=max(again),
            shown=len(chunks),
            not_durable=sum(not is_durable(json.loads(chunk), left[name]) for name, chunk in chunks),
        )

    def executed_again(self, name: str, left: Any) -> int:
        """How many supersteps were executed twice; no task that was durable when the run was killed."""
        seen = effects(self.witness)[name]
        assert seen.keys() == set(EFFECTS) and max(seen.values()) <= 2, (name, seen)
        again = {node for node, count in seen.items() if count == 2}
        assert not again & set(left.get("log", [])), (name, again, left)
        return len({node[:-1] for node in again})


def is_durable(chunk: Any, left: Any) -> bool:
    mode, content = chunk
    log: list[str] = left.get("log", [])
    if mode == "values":
        shown_log: list[str] = content["log"]
        return log[: len(shown_log)] == shown_log
    return all(node in log for node in content)


def play(database: str, colour: str, folder: str, kills: int, batch: int) -> Kills:
    warm_up(database, colour)
    return Episodes(database, colour, folder, batch).play(kills)


BATCH = 50
"""Kills in one nursery at most: no process lives for ever."""


@pytest.mark.parametrize("colour", COLOURS)
def test_a_run_that_is_killed_at_a_random_moment_is_resumed(
    database: str, colour: str, tmp_path: Path, reports: Report
) -> None:
    found = []
    for batch in range(0, KILLS, BATCH):
        folder = tmp_path / str(batch)
        folder.mkdir()
        child = fork_child(play, database, colour, str(folder), min(BATCH, KILLS - batch), batch)
        found.append(child.result(ENOUGH))
    kind = f"{make_url(database).get_backend_name()}, {colour}"
    total = Kills(*map(sum, zip(*found, strict=True)))
    most = max(part.most_again for part in found)
    reports(
        "1 SIGKILL",
        f"{kind}: {total.killed} runs killed, {total.lost} writes lost, {total.twice} twice, {total.wrong} "
        f"histories wrong, {total.again} supersteps executed again, at most {most} by one kill",
    )
    reports("2 shown", f"{kind}: {total.shown} chunks shown, {total.not_durable} not durable after the kill")
    assert total.killed == KILLS
    assert (total.lost, total.twice, total.wrong, total.not_durable) == (0, 0, 0, 0)
    assert most <= 1
