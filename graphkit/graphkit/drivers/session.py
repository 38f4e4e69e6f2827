"""What a driver needs for one run: where to save, where to run, and the events that come from inside nodes."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphkit.engine import effects
from graphkit.engine.attempt import Attempt, Failed, Outcome
from graphkit.engine.effects import Effect
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.cache.base import BaseCache
from graphkit_checkpoint.records import ANSWER

if TYPE_CHECKING:
    from concurrent.futures import Executor

Kernel = Generator[Effect, Any, Any]


class Abandoned(BaseException):
    """Nobody listens to the run any more: it is to clean up and end.

    Not `GeneratorExit`: that one closes the generators which the kernel is made of from the inside out,
    so that none of them could ask for anything any more.
    """


@dataclass(slots=True, eq=False, repr=False)
class Session:
    """`pool` is given by the user or None; `live` says that nodes' events must be shown while they run."""

    saver: BaseCheckpointSaver | None = None
    cache: BaseCache | None = None
    pool: Executor | None = None
    depth: int = 0
    live: bool = False

    def look_up(self, effect: Effect) -> Any:
        """Obey an effect that only reads (or fills a cache)."""
        if isinstance(effect, (effects.CacheGet, effects.CachePut)):
            return self._use_cache(effect)
        assert self.saver is not None
        if isinstance(effect, effects.Open):
            place = (effect.thread_id, effect.namespace, effect.checkpoint_id)
            return self.saver.open(*place, claims=effect.claims)
        if isinstance(effect, effects.FindInput):
            return self.saver.find_input(effect.thread_id)
        if isinstance(effect, effects.FindAnswers):
            return self.saver.find_pending(effect.thread_id, ANSWER, effect.question_id)
        raise TypeError(f"no driver knows the effect {effect!r}")

    def _use_cache(self, effect: effects.CacheGet | effects.CachePut) -> Any:
        if self.cache is None:
            return None
        if isinstance(effect, effects.CacheGet):
            return self.cache.get(effect.namespace, effect.key)
        return self.cache.put(effect.namespace, effect.key, effect.value, effect.ttl)

    def is_inline(self, attempt: Attempt) -> bool:
        """Whether an attempt may keep the driver waiting: nothing else happens until it has ended."""
        return attempt.alone and self.pool is None and not self.live and attempt.node.timeout is None


def outcome_of(future: Any) -> Outcome:
    """What a finished future came to; an attempt that broke outside of user code is a failed one."""
    try:
        return future.result()  # type: ignore[no-any-return]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # cancellations are not Exceptions
        return Failed(error)
