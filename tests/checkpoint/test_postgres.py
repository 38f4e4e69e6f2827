"""Where a PostgreSQL database can come from, and what becomes of a saver when the server goes away."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any, TypedDict

import pytest
from sqlalchemy import create_engine, func, select, text
from sqlalchemy.engine import make_url

from graphkit import START, Command, StateGraph, interrupt
from graphkit.checkpoint.postgres import PostgresSaver
from graphkit.checkpoint.postgres.aio import AsyncPostgresSaver
from graphkit.errors import StorageBusyError, StorageCorruptError, StorageUnavailableError
from graphkit.types import RunnableConfig
from graphkit_checkpoint.engines.postgres import SETUP_LOCK
from tests.postgres import PostgresServer


class State(TypedDict, total=False):
    answer: str


CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}


def graph(saver: Any) -> Any:
    builder = StateGraph(State).add_node("ask", lambda state: {"answer": interrupt("sure?")})
    return builder.add_edge(START, "ask").compile(checkpointer=saver)


def test_a_url_and_an_engine_lead_to_the_same_threads(postgres_url: str) -> None:
    plain = make_url(postgres_url).set(drivername="postgresql")
    engine = create_engine(postgres_url)
    with PostgresSaver.from_conn_string(plain.render_as_string(hide_password=False)) as one:
        assert graph(one).run({}, CONFIG).status == "interrupted"
    with PostgresSaver(engine) as other:
        assert graph(other).invoke(Command(resume="yes"), CONFIG) == {"answer": "yes"}
    with engine.connect() as connection:  # the caller's engine stays open, and as it was
        assert connection.execute(text("SELECT count(*) FROM graphkit_checkpoint")).scalar() == 3
        assert connection.execute(text("SHOW transaction_isolation")).scalar() == "read committed"
        assert connection.execute(text("SHOW transaction_read_only")).scalar() == "off"
    engine.dispose()


def test_the_async_name_is_the_same_saver(postgres_url: str) -> None:
    async def run() -> None:
        async with AsyncPostgresSaver.from_conn_string(postgres_url) as saver:
            await saver.setup()  # as LangGraph's users write
            await saver.asetup()
            assert (await graph(saver).arun({}, CONFIG)).status == "interrupted"
            assert await graph(saver).ainvoke(Command(resume="yes"), CONFIG) == {"answer": "yes"}

    asyncio.run(run())


def test_savers_that_are_made_together_make_the_tables_once(postgres_url: str) -> None:
    savers: list[PostgresSaver] = []
    makers = [threading.Thread(target=lambda: savers.append(PostgresSaver(postgres_url))) for _ in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert len(savers) == 8
    for saver in savers:
        saver.setup()
        saver.close()


def test_whoever_finds_the_tables_waits_for_nobody_who_makes_some(postgres_url: str) -> None:
    PostgresSaver(postgres_url).close()
    engine = create_engine(postgres_url)
    with engine.connect() as other:
        other.execute(select(func.pg_advisory_xact_lock(SETUP_LOCK)))
        PostgresSaver(postgres_url, timeout=0.05).close()
    engine.dispose()


def test_another_schema_version_is_refused_by_name(postgres_url: str) -> None:
    PostgresSaver(postgres_url).close()
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE graphkit_schema SET version = 999"))
    engine.dispose()
    with pytest.raises(StorageCorruptError, match="999"):
        PostgresSaver(postgres_url)


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("sqlite:///t.sqlite", ValueError),
        ("not a url", ValueError),
        (3, TypeError),
        (create_engine("sqlite://"), ValueError),
    ],
)
def test_anything_else_is_no_location(location: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="PostgresSaver"):
        PostgresSaver(location)


@pytest.mark.parametrize("timeout", [-1, "1", None, True, float("nan"), float("inf")])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout must be a number of seconds"):
        PostgresSaver("postgresql://ada@127.0.0.1:1/none", timeout=timeout)


def test_tables_are_made_unless_that_is_refused(postgres_url: str) -> None:
    with pytest.raises(StorageCorruptError, match="create=True"):
        PostgresSaver(postgres_url, create=False)
    PostgresSaver(postgres_url).close()
    with PostgresSaver(postgres_url, create=False) as saver:
        assert graph(saver).run({}, CONFIG).status == "interrupted"


def test_no_error_shows_a_password() -> None:
    with pytest.raises(StorageUnavailableError) as caught:
        PostgresSaver("postgresql://ada:secret@127.0.0.1:1/none", timeout=1)
    assert "secret" not in str(caught.value)


def test_a_closed_saver_says_so(postgres_url: str) -> None:
    saver = PostgresSaver(postgres_url)
    saver.close()
    saver.close()
    with pytest.raises(StorageUnavailableError, match="closed"):
        graph(saver).invoke({}, CONFIG)


def test_a_restart_between_runs_is_not_noticed(postgres_url: str, postgres_server: PostgresServer) -> None:
    with PostgresSaver(postgres_url) as saver:
        assert graph(saver).run({}, CONFIG).status == "interrupted"
        postgres_server.restart()
        assert graph(saver).invoke(Command(resume="yes"), CONFIG) == {"answer": "yes"}


def test_a_server_that_is_away_is_retryable(postgres_url: str, postgres_server: PostgresServer) -> None:
    with PostgresSaver(postgres_url, timeout=1) as saver:
        assert graph(saver).run({}, CONFIG).status == "interrupted"
        postgres_server.kill()
        with pytest.raises(StorageUnavailableError):
            graph(saver).invoke(Command(resume="yes"), CONFIG)
        postgres_server.start()
        assert graph(saver).invoke(Command(resume="yes"), CONFIG) == {"answer": "yes"}


@pytest.mark.parametrize("timeout", [0.05, 0])
def test_a_foreign_lock_is_retryable(postgres_url: str, timeout: float) -> None:
    engine = create_engine(postgres_url)
    with PostgresSaver(postgres_url, timeout=timeout) as saver:
        assert graph(saver).run({}, CONFIG).status == "interrupted"
        with engine.begin() as connection:
            connection.execute(text("SELECT * FROM graphkit_thread FOR UPDATE"))
            with pytest.raises(StorageBusyError):
                graph(saver).invoke(Command(resume="yes"), CONFIG)
        assert graph(saver).invoke(Command(resume="yes"), CONFIG) == {"answer": "yes"}
    engine.dispose()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking is what is tried here
def test_a_saver_may_be_used_on_both_sides_of_a_fork(postgres_url: str) -> None:
    with PostgresSaver(postgres_url) as saver:
        assert graph(saver).run({}, CONFIG).status == "interrupted"
        child = os.fork()
        if child == 0:
            done = graph(saver).invoke(Command(resume="yes"), CONFIG)
            os._exit(0 if done == {"answer": "yes"} else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert graph(saver).get_state(CONFIG).values == {"answer": "yes"}
