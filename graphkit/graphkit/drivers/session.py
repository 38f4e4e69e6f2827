"""What a driver needs for one run: where to save, where to run, and the events that come from inside nodes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphkit.control import RunControl
from graphkit.engine import effects
from graphkit.engine.attempt import Attempt, Failed, Outcome
from graphkit.engine.effects import Effect
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.cache.base import BaseCache
from graphkit_checkpoint.records import ANSWER

if TYPE_CHECKING:
    from concurrent.futures import Executor

Kernel = Generator[Effect, Any, Any]

WAKING = 0.2
"""Seconds that a blocking node has to end once the graphs that it has called have been woken."""


class AtRest(BaseException):
    """A pump has nothing more to do: the attempt that its driver ran itself has ended."""


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
    control: RunControl | None = None
    beat: Callable[[], None] | None = None

    def look_up(self, effect: Effect) -> Any:
        """Obey an effect that only reads (or fills a cache)."""
        if effect is effects.DRAINING:
            return self.control.drain_reason if self.control is not None else None
        if effect is effects.PROGRESS:
            return self.beat() if self.beat is not None else None
        if isinstance(effect, (effects.CacheGet, effects.CachePut)):
            return self.use_cache(effect)
        assert self.saver is not None
        if isinstance(effect, effects.Open):
            place = (effect.thread_id, effect.namespace, effect.checkpoint_id)
            return self.saver.open(*place, claims=effect.claims)
        if isinstance(effect, effects.FindInput):
            return self.saver.find_input(effect.thread_id)
        if isinstance(effect, effects.FindAnswers):
            return self.saver.find_pending(effect.thread_id, ANSWER, effect.question_id)
        if isinstance(effect, effects.FindOnWay):
            return self.saver.find_on_way(effect.thread_id, effect.namespace, effect.at, effect.behind)
        if isinstance(effect, effects.FindNamespaces):
            return self.saver.namespaces(effect.thread_id, effect.under)
        raise TypeError(f"no driver knows the effect {effect!r}")

    def use_cache(self, effect: effects.CacheGet | effects.CachePut) -> Any:
        assert self.cache is not None
        place = (effect.namespace, effect.key)
        if isinstance(effect, effects.CacheGet):
            return self.cache.get([place]).get(place)
        return self.cache.set({place: (effect.value, effect.ttl)})

    async def ause_cache(self, effect: effects.CacheGet | effects.CachePut) -> Any:
        """`use_cache` by the cache's own async forms: in its own thread, if it may wait."""
        assert self.cache is not None
        place = (effect.namespace, effect.key)
        if isinstance(effect, effects.CacheGet):
            return (await self.cache.aget([place])).get(place)
        return await self.cache.aset({place: (effect.value, effect.ttl)})

    def pool_for(self, attempt: Attempt) -> Executor | None:
        """The pool that the user gave, if the attempt is to run there."""
        return None if attempt.local else self.pool

    def is_inline(self, attempt: Attempt) -> bool:
        """Whether an attempt may keep the driver waiting: nothing else happens until it has ended."""
        return attempt.alone and attempt.node.timeout is None and self.pool is None and not self.live


def context_of(attempt: Attempt) -> Context:
    """The context that an attempt runs in: of whoever called it, or of its driver."""
    return copy_context() if attempt.context is None else attempt.context.copy()


def outcome_of(future: Any) -> Outcome:
    """What a finished future came to; an attempt that broke outside of user code is a failed one."""
    try:
        return future.result()  # type: ignore[no-any-return]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # cancellations are not Exceptions
        return Failed(error)
