"""What every test may use: both doors to a graph, both local savers, one way to build a graph.

A scenario is written once: `runner` takes it through the sync and the async door, `saver` keeps its
threads in memory, on SQLite and on PostgreSQL.
"""

import asyncio
import gc
import operator
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypedDict

import pytest
from hypothesis import settings
from sqlalchemy import create_engine, delete
from sqlalchemy.engine import Engine

from graphkit.checkpoint.memory import InMemorySaver
from graphkit.checkpoint.postgres import PostgresSaver
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.graph import START, StateGraph
from graphkit.types import Command, Interrupt, RunnableConfig, RunResult, StateSnapshot, interrupt
from graphkit_checkpoint.live import LiveSaver
from graphkit_checkpoint.statements import TABLES
from tests.postgres import PostgresServer, PostgresUnavailableError, unsynced

WHOLE_PRODUCT = bool(os.environ.get("GRAPHKIT_CHAOS"))
"""Whether every scenario is taken through every door on every storage, as `make chaos` does."""


TAKEN = {("memory", "sync"), ("live", "async"), ("sqlite", "sync"), ("postgres", "async")}
"""Which saver the suite takes through which door: each colour in memory and on a database."""
TAKEN_BY_AGENTS = {("memory", "call"), ("sqlite", "call"), ("postgres", "invoke_async")}
"""And of the sessions of agents, and the storage of orchestrators, those that are not "live", which is taken through
every door."""
TAKEN_BY_SEEDS = {"call", "invoke_async"}
"""And the doors to fresh agents with a session; one agent object is taken through every door."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All colours and savers share what they do, so the suite takes a part of the product of doors and storages."""
    if WHOLE_PRODUCT:
        return
    left_out = [item for item in items if _is_left_out(getattr(item, "callspec", None))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _is_left_out(getattr(item, "callspec", None))]


def pytest_collection_finish() -> None:
    """What has been collected stays: without this each collection of garbage looks through all tests, for 0.3 s."""
    gc.collect()
    gc.freeze()


def _is_left_out(taken: Any) -> bool:
    params = {} if taken is None else taken.params
    door = params.get("door") or params.get("either")
    session = params.get("session") or params.get("storage")
    if session is not None and door is not None and session != "live":
        return (session, door) not in TAKEN_BY_AGENTS
    if params.get("play") == "session":
        return door not in TAKEN_BY_SEEDS
    saver, runner = params.get("saver"), params.get("runner")
    return saver is not None and runner is not None and (saver, runner) not in TAKEN


# Servers of tests are on this machine, where a proxy that the environment names would not find them.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"

# The same examples every time: a run that fails can be repeated.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")

Saver: TypeAlias = Any
"""`InMemorySaver`, `LiveSaver`, `SqliteSaver` or `PostgresSaver`."""
Graph: TypeAlias = Any
"""A compiled graph. `Any`, because `Runner` calls its doors by name."""
Edge: TypeAlias = tuple[Any, ...]
"""`(from, to)`, or `(from, function, targets)` for a conditional edge."""
Build: TypeAlias = Callable[..., Graph]
"""`graph_of` with the test's own saver."""
Reopen: TypeAlias = Callable[[Saver], Saver]


class State(TypedDict, total=False):
    """Whatever the nodes of a test report, in order."""

    log: Annotated[list[Any], operator.add]


class Runner:
    """A graph's calls through one door: `colour` "sync" takes `invoke`, …, "async" takes `ainvoke`, …."""

    def __init__(self, colour: str) -> None:
        self.colour = colour

    def invoke(self, graph: Graph, given: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        return self._call(graph, "invoke", given, config, **options)

    def run(
        self, graph: Graph, given: Any, config: RunnableConfig | None = None, **options: Any
    ) -> RunResult:
        result: RunResult = self._call(graph, "run", given, config, **options)
        return result

    def stream(
        self, graph: Graph, given: Any, config: RunnableConfig | None = None, **options: Any
    ) -> list[Any]:
        return self._collect(graph, "stream", given, config, **options)

    def get_state(self, graph: Graph, config: RunnableConfig, **options: Any) -> StateSnapshot:
        state: StateSnapshot = self._call(graph, "get_state", config, **options)
        return state

    def history(self, graph: Graph, config: RunnableConfig, **options: Any) -> list[StateSnapshot]:
        return self._collect(graph, "get_state_history", config, **options)

    def update_state(
        self, graph: Graph, config: RunnableConfig, values: Any, as_node: str | None = None
    ) -> RunnableConfig:
        updated: RunnableConfig = self._call(graph, "update_state", config, values, as_node)
        return updated

    def bulk_update_state(
        self, graph: Graph, config: RunnableConfig, supersteps: Sequence[Any]
    ) -> RunnableConfig:
        updated: RunnableConfig = self._call(graph, "bulk_update_state", config, supersteps)
        return updated

    def thread(self, graph: Graph, config: RunnableConfig) -> list[StateSnapshot]:
        """All there is to see of a thread: its state and its history."""
        return [self.get_state(graph, config), *self.history(graph, config)]

    def _call(self, graph: Graph, door: str, *args: Any, **options: Any) -> Any:
        if self.colour == "sync":
            return getattr(graph, door)(*args, **options)

        async def through() -> Any:
            return await getattr(graph, f"a{door}")(*args, **options)

        return asyncio.run(through())

    def _collect(self, graph: Graph, door: str, *args: Any, **options: Any) -> list[Any]:
        if self.colour == "sync":
            return list(getattr(graph, door)(*args, **options))

        async def through() -> list[Any]:
            return [item async for item in getattr(graph, f"a{door}")(*args, **options)]

        return asyncio.run(through())


def graph_of(
    nodes: Mapping[str, Callable[..., Any]],
    edges: Sequence[Edge] | None = None,
    *,
    saver: Saver = None,
    state: Any = State,
    node_options: Mapping[str, Mapping[str, Any]] | None = None,
    **compile_options: Any,
) -> Graph:
    """Compile `nodes` joined by `edges`; without edges all nodes run side by side, right after the start."""
    builder = StateGraph(state)
    for name, node in nodes.items():
        builder.add_node(name, node, **(node_options or {}).get(name, {}))
    for edge in [(START, name) for name in nodes] if edges is None else edges:
        if callable(edge[1]):
            builder.add_conditional_edges(*edge)
        else:
            builder.add_edge(*edge)
    return builder.compile(checkpointer=saver, **compile_options)


def asks(question: Any, **options: Any) -> Callable[[State], State]:
    """A node that asks and logs the answer."""

    def ask(state: State) -> State:
        return {"log": [interrupt(question, **options)]}

    return ask


def says(word: Any) -> Callable[[State], State]:
    """A node that logs `word`."""

    def say(state: State) -> State:
        return {"log": [word]}

    return say


def in_a_row(*names: str) -> list[Edge]:
    """The edges of a graph that runs `names` one after the other."""
    return list(zip((START, *names), names, strict=False))


def questions(result: Any) -> dict[Any, Interrupt]:
    """The open questions of a result of `invoke`, by what they ask, in the order reported."""
    return {question.value: question for question in result["__interrupt__"]}


def response(question: Interrupt | str, answer: Any) -> dict[str, Any]:
    """One block of the list spelling of an answer; a question is given itself or by its id."""
    question_id = question if isinstance(question, str) else question.id
    return {"interruptResponse": {"interruptId": question_id, "response": answer}}


Spelling: TypeAlias = Callable[[Interrupt, Any], Any]
"""How one question is answered: what is given to `invoke`."""

SPELLINGS: dict[str, Spelling] = {
    "value": lambda question, answer: Command(resume=answer),
    "map": lambda question, answer: Command(resume={question.id: answer}),
    "blocks": lambda question, answer: [response(question, answer)],
}


EMPTY: State = {"log": []}
"""The input of most tests."""


@pytest.fixture(params=["sync", "async"])
def runner(request: pytest.FixtureRequest) -> Runner:
    return Runner(request.param)


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a saver's tables: for copying, since making one waits for the disk several times."""
    path = tmp_path_factory.mktemp("empty") / "t.sqlite"
    SqliteSaver(path).close()
    return path


@pytest.fixture
def open_sqlite(tmp_path: Path, empty_sqlite: Path) -> Iterator[Callable[[], Saver]]:
    """Opens savers on one SQLite file and closes them after the test."""
    opened: list[Saver] = []
    path = tmp_path / "t.sqlite"

    def open_another() -> Saver:
        if not path.exists():
            shutil.copyfile(empty_sqlite, path)
        # "FULL" waits for the disk at every commit; no test here lets a machine crash.
        opened.append(SqliteSaver(path, synchronous="NORMAL"))
        return opened[-1]

    yield open_another
    for saver in opened:
        saver.close()


@pytest.fixture(scope="session")
def postgres_engine(postgres_server: PostgresServer) -> Iterator[Engine]:
    """One database for all tests that only need an empty one: making one takes longer than most tests."""
    # Other tests stop and kill the server.
    url = unsynced(postgres_server.url(postgres_server.create_database()))
    engine = create_engine(url, pool_pre_ping=True)
    yield engine
    engine.dispose()


@pytest.fixture
def open_postgres(postgres_server: PostgresServer, postgres_engine: Engine) -> Iterator[Callable[[], Saver]]:
    """Opens savers on one PostgreSQL database and closes them after the test."""
    postgres_server.start()
    opened: list[Saver] = []

    def open_another() -> Saver:
        opened.append(PostgresSaver(postgres_engine))
        return opened[-1]

    yield open_another
    for saver in opened:
        saver.close()
    with postgres_engine.begin() as connection:
        for table in TABLES:
            connection.execute(delete(table))


IN_MEMORY: dict[str, type[InMemorySaver]] = {"memory": InMemorySaver, "live": LiveSaver}


@pytest.fixture(params=["memory", "live", "sqlite", "postgres"])
def saver(request: pytest.FixtureRequest) -> Iterator[Saver]:
    if request.param in IN_MEMORY:
        memory = IN_MEMORY[request.param]()
        yield memory
        memory.close()
    else:
        open_another: Callable[[], Saver] = request.getfixturevalue(f"open_{request.param}")
        yield open_another()


@pytest.fixture
def reopen(request: pytest.FixtureRequest) -> Reopen:
    """Another saver object on the same storage, as another process has it; in memory just the one."""

    def open_another(saver: Saver) -> Saver:
        if isinstance(saver, InMemorySaver):
            return saver
        kind = "sqlite" if isinstance(saver, SqliteSaver) else "postgres"
        return request.getfixturevalue(f"open_{kind}")()

    return open_another


@pytest.fixture
def config() -> RunnableConfig:
    return {"configurable": {"thread_id": "t"}}


@pytest.fixture
def build(saver: Saver) -> Build:
    """`graph_of` on the test's saver, unless `saver=` names another."""

    def build(*args: Any, **options: Any) -> Graph:
        return graph_of(*args, **{"saver": saver, **options})

    return build


@pytest.fixture(params=SPELLINGS)
def spell(request: pytest.FixtureRequest) -> Spelling:
    """The ways to answer one question; every one must do the same."""
    return SPELLINGS[request.param]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The PostgreSQL of this test process. A test may stop or kill it; the next `postgres_url` starts it."""
    try:
        server = PostgresServer()
        server.start()
    except PostgresUnavailableError as error:
        if os.environ.get("CI"):
            pytest.fail(f"with CI set PostgreSQL must be tested: {error}")
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The SQLAlchemy URL of an empty database of this test's own."""
    postgres_server.start()
    database = postgres_server.create_database()
    yield postgres_server.url(database)
    postgres_server.start()
    postgres_server.drop_database(database)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT interrupts: a test run that was started in the background of a shell ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
