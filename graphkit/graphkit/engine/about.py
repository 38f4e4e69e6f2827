"""Which task an event is about: looked up when somebody asks, since most listeners ask for little of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from graphkit.constants import PUSH
from graphkit.types import RunnableConfig


class Named(Protocol):
    """A task, as far as events tell of it."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> tuple[str | int, ...]: ...


class Name(NamedTuple):
    """What is left of a task in another process."""

    id: str
    name: str
    path: tuple[str | int, ...]


class About:
    """A task of superstep `step` in the run at `namespace`."""

    __slots__ = ("_config", "_joins", "_node", "_task", "name", "namespace", "step")

    def __init__(
        self,
        task: Named,
        step: int,
        namespace: str,
        config: RunnableConfig,
        node: Mapping[str, Any],
        joins: tuple[str, ...],
    ) -> None:
        self._task = task
        self.name = task.name
        self.step = step
        self.namespace = namespace
        self._config = config
        self._node = node
        self._joins = joins

    def __reduce__(self) -> Any:
        task, known = self._task, ("metadata", "tags")
        config = {key: self._config[key] for key in known if key in self._config}  # type: ignore[literal-required]
        config["configurable"] = {"thread_id": self.thread_id}
        name = Name(task.id, task.name, task.path)
        return About, (name, self.step, self.namespace, config, dict(self._node), self._joins)

    @property
    def id(self) -> str:
        return self._task.id

    @property
    def path(self) -> tuple[str | int, ...]:
        return self._task.path

    @property
    def thread_id(self) -> str | None:
        return self._config.get("configurable", {}).get("thread_id")

    @property
    def triggers(self) -> tuple[str, ...]:
        """Why it runs, in LangGraph's words: joins that are complete, an edge, a `Send` or a call."""
        if self._joins:
            return self._joins
        path = self._task.path
        return (f"branch:to:{self.name}",) if path[0] == "pull" and len(path) == 2 else (PUSH,)

    @property
    def metadata(self) -> dict[str, Any]:
        """Its run's and its node's, with the run's tags."""
        config = self._config
        metadata = {**config.get("metadata", {}), **self._node}
        if config.get("tags"):
            metadata["tags"] = list(config["tags"])
        return metadata
