"""What every test of orchestrators may use, and the fixtures of agents.

A scenario is written once: `door` takes it through the five ways of calling, `storage` lets fresh orchestrators find
each other's thread in memory, on SQLite and on PostgreSQL, as another process would.
"""

import pytest

from graphkit.checkpoint.memory import InMemorySaver
from graphkit_checkpoint.live import LiveSaver
from tests.agents.conftest import DOORS, answers, session, watched
from tests.multiagent.teams import Scripts, Storage, TeamDoor

__all__ = ["answers", "session", "watched"]


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> TeamDoor:
    return TeamDoor(request.param)


@pytest.fixture(params=["call", "invoke_async"])
def either(request: pytest.FixtureRequest) -> TeamDoor:
    """Of the doors, one of each colour."""
    return TeamDoor(request.param)


@pytest.fixture
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture(params=["live", "memory", "sqlite", "postgres"])
def storage(request: pytest.FixtureRequest) -> Storage:
    if request.param in ("live", "memory"):
        saver = LiveSaver() if request.param == "live" else InMemorySaver()
        return Storage(lambda: saver)
    return Storage(request.getfixturevalue(f"open_{request.param}"))
