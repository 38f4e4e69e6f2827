"""What a driver needs for one run: where to save, where to run, and the events that come from inside nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import CancelledError, Executor
from dataclasses import dataclass
from typing import Any

from graphkit.engine.attempt import Attempt, Failed, Outcome
from graphkit.engine.effects import Effect
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.cache import BaseCache

Kernel = Generator[Effect, Any, Any]


class Abandoned(BaseException):
    """Nobody listens to the run any more: it is to clean up and end.

    Not `GeneratorExit`: that one closes the generators which the kernel is made of from the inside out,
    so that none of them could ask for anything any more.
    """


@dataclass(slots=True)
class Session:
    """`pool` is given by the user or None; `live` says that nodes' events must be shown while they run."""

    saver: BaseCheckpointSaver | None = None
    cache: BaseCache | None = None
    pool: Executor | None = None
    depth: int = 0
    live: bool = False

    def is_inline(self, attempt: Attempt) -> bool:
        """Whether an attempt that is alone may keep the driver waiting."""
        return self.pool is None and not self.live and attempt.node.timeout is None


def outcome_of(future: Any) -> Outcome:
    """What a finished future came to; an attempt that broke outside of user code is a failed one."""
    try:
        return future.result()  # type: ignore[no-any-return]
    except (CancelledError, asyncio.CancelledError) as error:
        return Failed(error)
    except Exception as error:
        return Failed(error)
