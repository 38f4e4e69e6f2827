"""Models of LangChain that nodes call themselves: their tokens in stream mode "messages", and the callbacks, tags and
metadata of the run's config, as users of LangGraph know it. Loaded only where LangChain is.

LangChain looks for the config of whatever runs around a call in a context variable of its own. There it finds that of
the running task, and among its callbacks a `Teller`. Callbacks hear of the task too: it is a chain in the chain that
its run is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables.config import var_child_runnable_config

from graphkit.constants import TAG_NOSTREAM
from graphkit.engine.attempt import Asked, Done, Failed, Outcome
from graphkit.engine.program import Seen
from graphkit.errors import GraphInterrupt
from graphkit.frame import Frame, current
from graphkit.runtime import config_of
from graphkit.tracing import Traced, metadata_of
from graphkit.types import RunnableConfig

__all__ = [
    "Teller",
    "abroken_off",
    "aended",
    "aentered",
    "broken_off",
    "ended",
    "entered",
    "left",
    "with_manager",
]


def entered(frame: Frame, given: Any) -> None:
    """Let callbacks hear of an attempt that begins to run here, and LangChain find its config."""
    traced = _traced(frame, given)
    if traced is not None:
        frame.traced = traced.__enter__()
    frame.langchain = var_child_runnable_config.set(config_of(frame))


async def aentered(frame: Frame, given: Any) -> None:
    """`entered` on the running event loop."""
    traced = _traced(frame, given)
    if traced is not None:
        frame.traced = await traced.__aenter__()
    frame.langchain = var_child_runnable_config.set(config_of(frame))


def ended(frame: Frame, outcome: Outcome, returned: Any) -> None:
    """Let callbacks hear what became of an attempt."""
    traced, frame.traced = frame.traced, None
    assert traced is not None
    traced.__exit__(None, _told(traced, outcome, returned), None)


async def aended(frame: Frame, outcome: Outcome, returned: Any) -> None:
    """`ended` on the running event loop."""
    traced, frame.traced = frame.traced, None
    assert traced is not None
    await traced.__aexit__(None, _told(traced, outcome, returned), None)


def broken_off(frame: Frame, error: BaseException) -> None:
    """Let callbacks hear of an attempt that has no outcome."""
    with suppress(Exception):  # of a handler that has raise_error: there is an error already
        ended(frame, Failed(error), None)


async def abroken_off(frame: Frame, error: BaseException) -> None:
    """`broken_off` on the running event loop."""
    with suppress(Exception):
        await aended(frame, Failed(error), None)


def left(frame: Frame) -> None:
    """The task does not run here any more."""
    var_child_runnable_config.reset(frame.langchain)


def _traced(frame: Frame, given: Any) -> Traced | None:
    """An attempt at a task of its graph, if there are callbacks that hear of the run."""
    attempt = frame.attempt
    if not (attempt.node.shown and attempt.scope.config.get("callbacks")):
        return None
    config = config_of(frame)
    if attempt.context is not None:  # it was called, and is inside its caller
        around = var_child_runnable_config.get()
        config["callbacks"] = (around or config)["callbacks"]
    given = given.view if type(given) is Seen else given
    return Traced(config, attempt.node.name, given, [f"graph:step:{attempt.place.step + 1}"])


def _told(traced: Traced, outcome: Outcome, returned: Any) -> BaseException | None:
    """The error that a handler hears of, if it is one; a question is. Else what the node has returned is shown."""
    if isinstance(outcome, Failed):
        return outcome.error
    if isinstance(outcome, Asked):
        return GraphInterrupt([question for question, _ in outcome.questions])
    if isinstance(outcome, Done):
        traced.show(returned)
    traced.output = returned
    return None


def with_manager(config: RunnableConfig, shows: bool) -> RunnableConfig:
    """The config of a task with its callbacks as a manager, which LangChain knows again where it finds it twice, and
    from which models have tags and metadata whatever their own are. `shows` puts a `Teller` among them."""
    given: Any = config.get("callbacks")
    if isinstance(given, BaseCallbackManager):
        manager = given.copy()
    else:
        manager = BaseCallbackManager([])
        for handler in given or ():
            manager.add_handler(handler)
    if shows:
        manager.add_handler(_TELLER)
    manager.add_tags(config.get("tags") or [])
    manager.add_metadata(metadata_of(config))
    return {**config, "callbacks": manager}


class Teller(BaseCallbackHandler):
    """Shows what a chat model says as messages of the task that calls it, if somebody listens to those: its tokens, or
    the whole message of one that does not stream. Not of a model that has the tag "nostream"."""

    run_inline = True  # in the task's context, and in order

    def __init__(self) -> None:
        self._calls: dict[Any, tuple[Frame, dict[str, Any], bool]] = {}

    def tap_output_iter(self, run_id: Any, output: Iterator[Any]) -> Iterator[Any]:
        """That this is here lets LangChain stream an answer that was not asked for as a stream."""
        return output

    def tap_output_aiter(self, run_id: Any, output: Any) -> Any:
        return output

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[Any]],
        *,
        run_id: Any,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        frame = current.get()
        if (
            frame is not None
            and "messages" in frame.attempt.scope.listen
            and TAG_NOSTREAM not in (tags or ())
        ):
            about = {**(metadata or {})}
            named = [tag for tag in tags or () if not tag.startswith("seq:step")]
            if named:
                about["tags"] = named
            self._calls[run_id] = frame, about, False

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: Any, **more: Any) -> None:
        call = self._calls.get(run_id)
        if call is not None and isinstance(chunk, ChatGenerationChunk):
            frame, metadata, _ = call
            self._calls[run_id] = frame, metadata, True
            frame.emit_message(chunk.message, metadata)

    def on_llm_end(self, response: LLMResult, *, run_id: Any, **more: Any) -> None:
        call = self._calls.pop(run_id, None)
        if call is None or call[2] or not response.generations or not response.generations[0]:
            return
        said = response.generations[0][0]
        if isinstance(said, ChatGeneration):
            call[0].emit_message(said.message, call[1])

    def on_llm_error(self, error: BaseException, *, run_id: Any, **more: Any) -> None:
        self._calls.pop(run_id, None)


_TELLER = Teller()
