"""What older versions wrote: every golden database reads today as it did for the code that made it, and lives on.

`tests/golden/make.py` says what the files are and how they came to be. They are never written again; a test here
that fails has found a stored thread that a user could no longer open.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from graphkit import Command
from graphkit.checkpoint.postgres import PostgresSaver
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit_checkpoint.serde import fingerprint
from tests.golden.make import APPENDED, EVERYTHING, FOLDER, GRAPHS, LETTER, PRESENT, Invoice, at, seen

FILES = sorted(path.name for suffix in ("sqlite", "sql") for path in FOLDER.glob(f"schema-*.{suffix}"))


@pytest.fixture(params=FILES)
def name(request: pytest.FixtureRequest) -> str:
    """Of a golden file."""
    return str(request.param)


@pytest.fixture
def location(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A database of the test's own with what the file has."""
    if name.endswith(".sqlite"):
        return str(shutil.copy(FOLDER / name, tmp_path / "t.sqlite"))
    url: str = request.getfixturevalue("postgres_url")
    place = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(place) as connection:
        connection.execute((FOLDER / name).read_bytes())
    return url


@pytest.fixture
def saver(location: str) -> Iterator[Any]:
    with PostgresSaver(location) if location.startswith("postgresql") else SqliteSaver(location) as opened:
        yield opened


def test_the_present_version_has_its_files() -> None:
    assert {f"{PRESENT}.sqlite", f"{PRESENT}.sql"} <= set(FILES)


def test_a_file_is_small_and_names_no_machine(name: str) -> None:
    content = (FOLDER / name).read_bytes()
    assert len(content) < 100_000
    assert Path(FOLDER / f"{name}.seen").stat().st_size < 100_000
    # Owners' tokens have them, settings and OWNER clauses of a dump would.
    assert b"/proc" not in content and b"OWNER TO" not in content and b"\nSET " not in content


def test_everything_is_seen_as_the_writer_saw_it(name: str, saver: Any) -> None:
    """States, histories, metadata, tasks, questions with their ids, and the checkpoints of nested graphs."""
    assert seen(saver).splitlines() == (FOLDER / f"{name}.seen").read_text().splitlines()


def test_values_are_exact_in_type(saver: Any) -> None:
    _, saved = saver.find("types")
    assert fingerprint(saved.values["word"]) == fingerprint(EVERYTHING)
    assert fingerprint(saved.values["answer"]) == fingerprint(EVERYTHING)
    assert fingerprint(saved.values["log"]) == fingerprint(list(EVERYTHING.values()))


# How each thread goes on: what it is given, which nodes run then, and what they leave.
BILLS = [Invoice(f"{n}", Decimal(n), []) for n in (1, 2, 3)]
NEXT_TURN: dict[str, Any] = {"log": ["next"]}
GOES_ON: dict[str, tuple[Any, list[str], dict[str, Any]]] = {
    "finished": (NEXT_TURN, ["add"], {"log": [*range(APPENDED), "next", APPENDED + 1]}),
    "question": (Command(resume="two"), ["ask", "close"], {"log": ["amended", "one", "two"], "answer": 3}),
    "forked": (NEXT_TURN, [*"abcd"], {"word": LETTER}),
    "waiting": (None, [*"abcd"], {"log": ["in", *"abcd"], "word": LETTER, "marks": {"a": 1, "b": 2, "c": 3, "d": 4}}),
    "nested": (Command(resume="three"), ["ask"], {"log": ["in", "in", "in", "before"], "answer": "three"}),
    "siblings": (None, ["work 3", "close"], {"log": BILLS, "answer": ["1", "2", "3"]}),
    "joined": (Command(resume="yes"), ["ask", "close"], {"answer": ["left", "right", "yes"]}),
    "entry": (Command(resume="go"), ["way", "go"], {"log": [EVERYTHING["invoice"], "went"], "word": LETTER}),
    "types": ({"word": "plain", "log": []}, ["keep"], {"answer": "plain"}),
}  # fmt: skip


def go_on(saver: Any, thread: str, into: str | None = None) -> None:
    """Run the thread, or its copy `into`, as `GOES_ON` says, and check what comes of it."""
    ran: list[str] = []
    graph = GRAPHS[thread](saver, ran.append)
    given, nodes, expected = GOES_ON[thread]
    result = graph.run(given, at(into or thread))
    assert (result.status, ran) == ("completed", nodes)
    assert {key: result.value[key] for key in expected} == expected


@pytest.mark.parametrize("thread", GRAPHS)
def test_a_thread_goes_on(thread: str, saver: Any) -> None:
    before = len(list(saver.history(thread)))
    go_on(saver, thread)
    state = GRAPHS[thread](saver, lambda name: None).get_state(at(thread))
    assert (state.next, state.interrupts) == ((), ())
    assert len(list(saver.history(thread))) > before


def test_runs_begin_again_at_every_checkpoint_of_a_history(saver: Any) -> None:
    ran: list[str] = []
    graph = GRAPHS["forked"](saver, ran.append)
    for point in list(graph.get_state_history(at("forked"))):
        ran.clear()
        result = graph.invoke(None, point.config)
        log = point.values["log"]
        if point.next == ("__start__",):  # the first input, and the turn that was sent to a node
            given, nodes = (["again"], ["d"]) if log else (["in"], [*"abcd"])
        else:
            given, nodes = [], [*"abcd"["abcd".index(point.next[0]) :]] if point.next else []
        assert (ran, result["log"], result["word"]) == (nodes, [*log, *given, *nodes], LETTER)


@pytest.mark.parametrize("thread", GRAPHS)
def test_a_copy_and_what_pruning_leaves_go_on_like_the_thread(thread: str, saver: Any) -> None:
    graph = GRAPHS[thread](saver, lambda name: None)
    saver.copy_thread(thread, "copy")
    head, copy = graph.get_state(at(thread)), graph.get_state(at("copy"))
    assert repr(copy).replace("'copy'", repr(thread)) == repr(head)
    assert len(list(saver.history("copy"))) == len(list(saver.history(thread)))

    removed = saver.prune(thread, keep_last=1)
    assert removed == len(list(saver.history("copy"))) - 1 + (3 if thread == "nested" else 0)
    left = graph.get_state(at(thread))
    assert repr(left._replace(parent_config=None)) == repr(head._replace(parent_config=None))
    go_on(saver, thread)
    go_on(saver, thread, into="copy")
