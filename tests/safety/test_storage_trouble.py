"""Safety 14 and 16: many writers on one file, a lock that is held, a server that restarts, a disk that is full.

The callers see retryable errors only, and the same call again goes on with nothing lost.
"""

from __future__ import annotations

import resource
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url

from graphkit import Command, StateGraph, interrupt
from graphkit.errors import StorageBusyError, StorageError, StorageUnavailableError
from tests.faults import PATIENCE, PROCESSES, Witness, fork_child
from tests.postgres import PostgresServer
from tests.safety.conftest import Report
from tests.safety.figures import chance, size
from tests.safety.forks import ENOUGH, in_parallel
from tests.safety.scenes import (
    COLOURS,
    GIVEN,
    Cast,
    State,
    call,
    effects,
    in_a_row,
    open_saver,
    thread,
    view,
    warm_up,
)

WRITERS = 32
TURNS = size(3, 40)
"""How many times each of the writers runs its thread."""
RESTARTS = size(3, 100)
"""Of the server, for each colour."""
NODES = "abcdef"
AWAY = (StorageBusyError, StorageUnavailableError)
Act = Callable[[str], None]


def line(cast: Cast, database: str, works: dict[str, Callable[[str], Any]], **options: Any) -> Any:
    """The nodes in a row, on a saver of their own."""
    nodes = {name: cast.node(name, works.get(name)) for name in NODES}
    return in_a_row(StateGraph(State), nodes).compile(open_saver(database, **options))


# Many writers


def write_together(database: str, folder: str, turns: int) -> tuple[Counter[str], int]:
    """How the processes ended: "finished", or their errors. And how often one was refused because the others kept it
    from writing for longer than it waits; then it made the same call again."""
    warm_up(database, "sync")
    witness = Witness(Path(folder, "witness"))

    def write(index: int) -> tuple[str, int]:
        graph, name = line(Cast("sync", witness), database, {}), f"{index}"
        refused = done = 0
        while done < turns:
            try:
                graph.invoke(GIVEN, thread(name))
                done += 1
            except StorageBusyError:
                refused += 1
            except StorageError as error:
                return repr(error), refused
        whole = graph.get_state(thread(name)).values["log"] == ["in", *NODES] * turns
        return "finished" if whole else "lost something", refused

    ended, refused = zip(*in_parallel(WRITERS, write), strict=True)
    return Counter(ended), sum(refused)


def test_many_processes_write_to_one_database(database: str, tmp_path: Path, reports: Report) -> None:
    ended, refused = fork_child(write_together, database, str(tmp_path), TURNS).result(ENOUGH)
    kind = make_url(database).get_backend_name()
    reports(
        "14 writers",
        f"{kind}: {WRITERS} processes with {TURNS} runs each at once: {dict(ended)}, {refused} calls refused",
    )
    assert ended == Counter(finished=WRITERS)


# A lock


@contextmanager
def locked(database: str) -> Iterator[None]:
    """Another program's write lock."""
    engine = create_engine(database)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.connection.dbapi_connection.isolation_level = None  # type: ignore[union-attr]
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql("LOCK TABLE graphkit_thread IN EXCLUSIVE MODE")
        yield
        connection.rollback()
    engine.dispose()


@pytest.mark.parametrize("colour", COLOURS)
def test_a_call_that_met_a_lock_goes_on_when_it_is_made_again(
    database: str, colour: str, tmp_path: Path, reports: Report
) -> None:
    """The lock is there before the run, when it pauses, when it is resumed, and in the middle of it."""
    witness = Witness(tmp_path / "witness")
    holds: list[Any] = []

    def lock_once(name: str) -> str:
        if not holds:
            holds.append(locked(database))
            holds[0].__enter__()
        return "d"

    works: dict[str, Callable[[str], Any]] = {"c": lambda name: interrupt("sure?"), "d": lock_once}
    graph, config = line(Cast(colour, witness), database, works, timeout=0.05), thread("t")
    refused = 0

    def refuses(given: Any) -> None:
        nonlocal refused
        with pytest.raises(StorageBusyError, match="again"):
            call(colour, graph, given, config)
        refused += 1

    with locked(database):
        refuses(GIVEN)
    assert graph.get_state(config).metadata is None
    call(colour, graph, GIVEN, config)
    answer: Command[Any] = Command(resume="yes")
    with locked(database):
        refuses(answer)
    assert len(graph.get_state(config).interrupts) == 1
    refuses(answer)
    holds[0].__exit__(None, None, None)
    state = graph.get_state(config)
    assert (state.values, state.next) == ({"log": ["in", "a", "b", "yes"]}, ("d",))
    refused += 1
    call(colour, graph, None, config)
    end = view(graph, config)
    graph.checkpointer.close()
    kind = make_url(database).get_backend_name()
    reports("14 lock", f"{kind}, {colour}: {refused} calls refused, then {end.values['log']}")
    assert end.values == {"log": ["in", "a", "b", "yes", "d", "e", "f"]}
    assert effects(witness)["t"] == Counter("abcdef") + Counter("cd")


# A server that restarts


class Restarted:
    """A client in a process of its own, which tells at each effect, and when the server is away."""

    def __init__(self, database: str, colour: str, witness: Witness, parent: Connection) -> None:
        self.parent = parent
        self.errors: Counter[str] = Counter()
        self.colour = colour
        self.graph = line(
            Cast(colour, witness, lambda node: parent.send(node)), database, {}, timeout=PATIENCE
        )

    def persist(self, act: Callable[[], Any]) -> Any:
        """Do it until the server is there."""
        while True:
            try:
                return act()
            except AWAY as error:
                self.errors[type(error).__name__] += 1
                self.parent.send("away")
                self.parent.recv()

    def run(self, name: str) -> Any:
        """Bring a thread to its end: its input is given until it is stored, then the run goes on."""
        config = thread(name)

        def go_on() -> Any:
            state = self.graph.get_state(config)
            given = GIVEN if state.metadata is None else None
            return call(self.colour, self.graph, given, config)

        self.persist(go_on)
        return self.persist(lambda: view(self.graph, config))


def run_through_restarts(
    database: str, colour: str, witness: Witness, parent: Connection, names: list[str]
) -> tuple[list[Any], Counter[str]]:
    client = Restarted(database, colour, witness, parent)
    ends = [client.run(name) for name in names]
    parent.send("done")
    return ends, client.errors


def disturb(server: PostgresServer, client: Connection, dice: Random, restarts: int) -> Counter[str]:
    """Restart the server at random effects, by turns cleanly and by SIGKILL, until the client is done."""
    done: Counter[str] = Counter()
    until = dice.randint(1, len(NODES))
    while client.poll(PATIENCE):
        told = client.recv()
        if told == "done":
            return done
        if told == "away":
            server.start()
            client.send("back")
            continue
        until -= 1
        if until == 0 and done.total() < restarts:
            until = dice.randint(1, len(NODES))
            way = (
                dice.choice(["stopped", "killed"])
                if done.total() > 1
                else ["stopped", "killed"][done.total()]
            )
            (server.stop if way == "stopped" else server.kill)()
            done[way] += 1
            server.start()
    raise TimeoutError("the client says nothing any more")


BATCH = 25


@pytest.mark.parametrize("colour", COLOURS)
def test_runs_survive_restarts_of_the_server(
    postgres_server: PostgresServer, postgres_url: str, colour: str, tmp_path: Path, reports: Report
) -> None:
    witness = Witness(tmp_path / "witness")
    restarts, errors, wrong, again, threads = Counter[str](), Counter[str](), 0, 0, 0
    for batch in range(0, RESTARTS, BATCH):
        wanted = min(BATCH, RESTARTS - batch)
        names = [f"{batch}-{number}" for number in range(wanted + 2)]
        mine, its = PROCESSES.Pipe()
        child = fork_child(run_through_restarts, postgres_url, colour, witness, its, names)
        restarts += disturb(postgres_server, mine, chance("restarts", colour, batch), wanted)
        ends, seen = child.result(ENOUGH)
        errors += seen
        wrong += sum(end.values != {"log": ["in", *NODES]} or len(end.history) != 8 for end in ends)
        threads += len(ends)
        for name in names:
            counts = effects(witness)[name]
            assert counts.keys() == set(NODES)
            again += counts.total() - len(NODES)
    reports(
        "14 restarts",
        f"{colour}: server {dict(restarts)} during {threads} runs, callers saw {dict(errors)}, {wrong} threads "
        f"wrong, {again} nodes executed again",
    )
    assert (restarts.total(), wrong) == (RESTARTS, 0)
    assert again <= errors.total() <= 2 * RESTARTS


# A full disk


class SmallDisk:
    """A file system of its own, which only root may make."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.filler = folder / "filler"

    def fill(self) -> None:
        with self.filler.open("wb", buffering=0) as stream:
            try:
                while True:
                    stream.write(b"\0" * 4096)
            except OSError:
                pass

    def free(self) -> None:
        self.filler.unlink()


class SmallFiles:
    """A limit on how large a file may become in this process, which is as good as a full disk to SQLite."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        largest = max(file.stat().st_size for file in self.folder.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def run_on_a_full_disk(kind: type[SmallDisk] | type[SmallFiles], colour: str, folder: str, out: str) -> Any:
    """The message of the error, the log right after it, what SQLite says of the file, and the log in the end."""
    disk, database = kind(Path(folder)), f"sqlite:///{folder}/t.sqlite"
    filled: list[str] = []

    def fill_once(name: str) -> str:
        if not filled:
            filled.append(name)
            disk.fill()
        # More than what is free in the pages that the file has.
        return "c" * 100_000

    graph = line(Cast(colour, Witness(Path(out, "witness"))), database, {"c": fill_once})
    with pytest.raises(StorageError) as caught:
        call(colour, graph, GIVEN, thread("t"))
    try:
        left = graph.get_state(thread("t")).values["log"]
    finally:
        disk.free()
    call(colour, graph, None, thread("t"))
    end = [entry[:1] for entry in view(graph, thread("t")).values["log"]]
    graph.checkpointer.close()
    with sqlite3.connect(f"{folder}/t.sqlite") as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
    return f"{type(caught.value).__name__}: {caught.value}", left, verdict, end


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(params=[SmallDisk, SmallFiles])
def full(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Path]:
    if request.param is SmallDisk:
        return SmallDisk, request.getfixturevalue("small_disk")
    folder = tmp_path / "limited"
    folder.mkdir()
    return SmallFiles, folder


@pytest.mark.parametrize("colour", COLOURS)
def test_a_run_on_a_full_disk_goes_on_when_there_is_space(
    full: tuple[Any, Path], colour: str, tmp_path: Path, reports: Report
) -> None:
    kind, folder = full
    child = fork_child(run_on_a_full_disk, kind, colour, str(folder), str(tmp_path))
    message, left, verdict, end = child.result()
    reports(
        "16 full disk",
        f"{kind.__name__}, {colour}: {message.split(':')[0]}; integrity check {verdict}; goes on",
    )
    assert "full" in message or "I/O error" in message, message
    assert left == ["in", "a", "b"]
    assert verdict == "ok"
    assert end == ["i", *NODES]
    assert effects(Witness(tmp_path / "witness"))["t"] == Counter(NODES) + Counter("c")
