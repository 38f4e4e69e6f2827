"""Safety: a process dies anywhere in a run that has an opening and a closing and keeps what was paid for; another one
goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from graphkit.engine import recording
from graphkit.types import RunnableConfig
from tests.conftest import Runner
from tests.engine.programs import ask, graph, here
from tests.faults import When, Witness, die_at, fork_child, points
from tests.safety.figures import SCALE
from tests.safety.forks import ENOUGH, Fork
from tests.safety.scenes import COLOURS, call, effects, next_call, open_saver, thread, warm_up

EDGES = ("opening", "closing")


class Episodes:
    """The run that dies, on a thread of its own for every point. Lives in a nursery."""

    def __init__(self, database: str, colour: str, folder: str) -> None:
        self.database, self.colour = database, colour
        self.witness = Witness(Path(folder, "witness"))

    def graph(self, name: str) -> Any:
        """`pays` keeps what it has paid for and asks; `works` amends and finishes; `last` runs after both."""
        recording.BATCH_DELAY = 0.0

        def note(effect: str) -> None:
            self.witness.note(f"{name} {effect}")

        def pays(view: Any) -> Any:
            if "receipt" not in here().kept:
                note("pays")
                here().keep("receipt", "paid")
            here().amend("notes", {"pays": "tried"})
            return {"log": [here().kept["receipt"], ask("fine?")]}

        def works(view: Any) -> Any:
            note("works")
            here().amend("notes", {"works": "did"})
            return {"log": ["works"]}

        def opening(seen: Any) -> Any:
            note("opening")
            return {"notes": {"opening": "did"}}

        def closing(seen: Any) -> Any:
            note("closing")
            ask("why?")
            return {"notes": {"closing": "did"}}

        def last(view: Any) -> Any:
            note("last")
            return {"log": ["last"]}

        return graph(
            Runner(self.colour),
            open_saver(self.database),
            {"pays": pays, "works": works, "last": last},
            first=["pays", "works"],
            after={"works": ["last"]},
            opening=opening,
            closing=closing,
        )

    def resume(self, names: list[str]) -> list[dict[str, Any]]:
        return [self.finish(name) for name in names]

    def finish(self, name: str) -> dict[str, Any]:
        """Bring the thread to its end, wherever it is; what is in it then."""
        built, config = self.graph(name), self.config(name)
        self.whole(name, built)
        state = built.get_state(config)
        assert state.next == ()
        steps = [
            (past.metadata["step"], [node for node in past.next if node not in EDGES], past.values.get("log"))
            for past in built.get_state_history(config)
        ]
        kept = [record.kind for record in built.checkpointer.load(name).pending]
        return {"log": state.values["log"], "notes": state.values["notes"], "steps": steps, "kept": kept}

    def config(self, name: str) -> RunnableConfig:
        return {**thread(name), "max_concurrency": 1}

    def run(self, name: str) -> list[str]:
        built = self.graph(name)
        return points(built.checkpointer.engine, lambda: self.whole(name, built))

    def die(self, name: str, number: int, when: When) -> None:
        built = self.graph(name)
        die_at(built.checkpointer.engine, number, when)
        self.whole(name, built)

    def whole(self, name: str, built: Any) -> None:
        config = self.config(name)
        while (given := next_call(built, config)) is not None:
            call(self.colour, built, given[0], config)

    def play(self) -> tuple[int, int]:
        """Die at every point and resume; how many points there are, and how many runs died."""
        found = Fork(self.run, "whole").result()
        episodes: dict[str, tuple[int, When]] = {
            f"{when} {number}": (number, when)
            for number in range(1, len(found) + 1)
            for when in (("before", "after") if SCALE else ("after",))
        }
        died = sum(Fork(self.die, name, *point).died() for name, point in episodes.items())
        whole, *resumed = Fork(self.resume, ["whole", *episodes]).result()
        assert whole["notes"] == {"pays": "tried", "works": "did", "opening": "did", "closing": "did"}
        for name, end in zip(episodes, resumed, strict=True):
            what = f"{name}, {found[episodes[name][0] - 1]!r}"
            # A process that died while it was closing has not asked why.
            end["notes"].setdefault("closing", "did")
            assert end == whole, what
            seen = Counter(effects(self.witness)[name])
            for node in ("pays", "works", "last"):
                assert seen[node] in (1, 2), f"{what}: {seen}"
            assert seen["pays"] + seen["works"] + seen["last"] <= 5, f"{what}: {seen}"
        return len(episodes), died


def play(database: str, colour: str, folder: str) -> tuple[int, int]:
    warm_up(database, colour)
    return Episodes(database, colour, folder).play()


@pytest.mark.parametrize("colour", COLOURS)
def test_an_attended_run_that_dies_at_any_point_is_resumed_to_the_same_end(
    database: str, colour: str, tmp_path: Path
) -> None:
    if colour == "async" and database.startswith("postgresql") and not SCALE:
        pytest.skip("the short form takes one door for PostgreSQL: `make chaos`")
    count, died = fork_child(play, database, colour, str(tmp_path)).result(ENOUGH)
    assert died == count > 20
