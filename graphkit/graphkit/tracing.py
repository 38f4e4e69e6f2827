"""Runs and tasks as LangChain's callbacks hear of them, which whoever traces or streams events listens to. Loaded only
where LangChain is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager

from graphkit.engine.program import UNNAMED, Program
from graphkit.types import RunnableConfig

__all__ = ["Traced", "TracedTool", "metadata_of", "name_of"]


def name_of(program: Program) -> str:
    """What a graph is called among LangChain's runs (source of the name of one without: LangGraph)."""
    return "LangGraph" if program.name == UNNAMED else program.name


def metadata_of(config: RunnableConfig) -> dict[str, Any]:
    """The metadata, with the namespace of what runs inside a task under both names that LangGraph's users look for."""
    metadata = config.get("metadata") or {}
    inside = metadata.get("langgraph_checkpoint_ns")
    return metadata if inside is None else {**metadata, "checkpoint_ns": inside}


class Traced:
    """One run of a graph, or one attempt at a task: a chain, in LangChain's words.

    `config` has the callbacks, tags and metadata, `tags` are its own and nobody's inside. A context manager of either
    colour: what it is left with is the `output`, or an error. Handlers are called where what they hear of runs: of a
    blocking node in its thread, async ones on a loop of LangChain's. What one raises that has `raise_error` comes from
    here.
    """

    def __init__(self, config: RunnableConfig, name: str, given: Any, tags: Sequence[str] = ()) -> None:
        self.output: Any = None
        self._config = config
        self._name = name
        self._given = given
        self._tags = list(tags)
        self._run: Any = None

    @property
    def children(self) -> Any:
        """The manager of callbacks for what runs inside."""
        return self._run.get_child()

    def __enter__(self) -> Traced:
        self._run = self._started(CallbackManager)
        return self

    async def __aenter__(self) -> Traced:
        self._run = await self._started(AsyncCallbackManager)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._ended(error)

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        await self._ended(error)

    def show(self, chunk: Any) -> None:
        """Show a part of the output to handlers that stream."""
        for handler in self._run.handlers:
            tap = getattr(handler, "tap_output_iter", None)
            if tap is not None:
                for _ in tap(self._run.run_id, iter((chunk,))):
                    pass

    def _started(self, kind: Any) -> Any:
        config = self._config
        manager = kind.configure(
            config.get("callbacks"), None, False, config.get("tags"), self._tags, metadata_of(config)
        )
        return self._begun(manager, _uuid(config.get("run_id")))

    def _begun(self, manager: Any, run_id: UUID | None) -> Any:
        return manager.on_chain_start(None, self._given, name=self._name, run_id=run_id)

    def _ended(self, error: BaseException | None) -> Any:
        return self._run.on_chain_end(self.output) if error is None else self._run.on_chain_error(error)


class TracedTool(Traced):
    """One call of a tool; `given` are its arguments."""

    def _begun(self, manager: Any, run_id: UUID | None) -> Any:
        about, given = {"name": self._name}, self._given
        return manager.on_tool_start(about, str(given), name=self._name, inputs=given, run_id=run_id)

    def _ended(self, error: BaseException | None) -> Any:
        return self._run.on_tool_end(self.output) if error is None else self._run.on_tool_error(error)


def _uuid(run_id: Any) -> UUID | None:
    """The id of a run as LangChain has it. Ours may be any text; LangChain then makes one."""
    if run_id is None or isinstance(run_id, UUID):
        return run_id
    try:
        return UUID(str(run_id))
    except ValueError:
        return None
