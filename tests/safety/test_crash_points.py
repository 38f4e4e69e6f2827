"""Safety 3: a process dies before and after every statement and commit of a run; another one goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from graphkit.engine import recording
from tests.faults import When, Witness, die_at, fork_child, points
from tests.safety.conftest import Report
from tests.safety.figures import SCALE
from tests.safety.forks import ENOUGH, Fork
from tests.safety.scenes import (
    COLOURS,
    SCENARIOS,
    Cast,
    View,
    effects,
    finish,
    open_saver,
    run_whole,
    warm_up,
)


class Episodes:
    """All episodes of one scenario, each on a thread of its own. Lives in a nursery."""

    def __init__(self, name: str, database: str, colour: str, folder: str) -> None:
        self.scenario = SCENARIOS[name]
        self.database, self.colour, self.folder = database, colour, folder
        self.witness = Witness(Path(folder, "witness"))

    def graph(self) -> Any:
        # Finished tasks are recorded at once: then every run reaches the same points.
        recording.BATCH_DELAY = 0.0
        builder = self.scenario.build(Cast(self.colour, self.witness), self.folder)
        return builder.compile(open_saver(self.database))

    def run(self, name: str) -> list[str]:
        """Run a thread from its beginning to its end; the points."""
        graph, config = self.graph(), self.scenario.config(name)
        engine = graph.checkpointer.engine
        return points(engine, lambda: run_whole(self.colour, graph, config, self.folder))

    def die(self, name: str, number: int, when: When) -> None:
        graph = self.graph()
        die_at(graph.checkpointer.engine, number, when)
        run_whole(self.colour, graph, self.scenario.config(name), self.folder)

    def resume(self, names: list[str]) -> list[View]:
        graph = self.graph()
        return [finish(self.colour, graph, self.scenario.config(name), self.folder) for name in names]

    def play(self) -> tuple[int, int]:
        """Die at every point and resume; how many points there are, and how many runs died."""
        found = Fork(self.run, "whole").result()
        episodes = {f"{when} {number}": (number, when) for number, when in moments(len(found))}
        died = sum(Fork(self.die, name, *point).died() for name, point in episodes.items())
        whole, *resumed = Fork(self.resume, ["whole", *episodes]).result()
        seen = effects(self.witness)
        for name, end in zip(episodes, resumed, strict=True):
            what = f"{name}, {found[episodes[name][0] - 1]!r}"
            assert end == whole, what
            assert not seen["whole"] - seen[name], what
            repeated = seen[name] - seen["whole"]
            assert self.scenario.may_repeat(repeated), f"{what}: {repeated}"
        return len(found), died


def moments(count: int) -> list[tuple[int, When]]:
    """When to die. To the database, right before a point is right after the one before it: the test suite
    takes each such moment once, `make chaos` takes all points from both sides."""
    everything: list[tuple[int, When]] = [(1, "before")]
    for number in range(1, count + 1):
        everything.append((number, "after"))
        if SCALE and number > 1:
            everything.append((number, "before"))
    return everything


def play(name: str, database: str, colour: str, folder: str) -> tuple[int, int]:
    warm_up(database, colour)
    return Episodes(name, database, colour, folder).play()


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_that_dies_at_any_point_is_resumed_to_the_same_end(
    name: str, database: str, colour: str, tmp_path: Path, reports: Report
) -> None:
    count, died = fork_child(play, name, database, colour, str(tmp_path)).result(ENOUGH)
    kind = make_url(database).get_backend_name()
    reports("3 crash points", f"{name}, {kind}, {colour}: {died} deaths at {count} points, {died} resumed")
    assert died == len(moments(count))
