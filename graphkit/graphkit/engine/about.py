"""Which task an event is about: looked up when somebody asks, since most listeners ask for little of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from graphkit.constants import PUSH
from graphkit.engine.identity import below
from graphkit.types import RunnableConfig

Path = tuple[str | int, ...]


class Named(Protocol):
    """A task, as far as events tell of it."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...


class Name(NamedTuple):
    """What is left of a task in another process."""

    id: str
    name: str
    path: Path


def triggers_of(name: str, path: Path, joins: tuple[str, ...]) -> tuple[str, ...]:
    """Why a task runs, in LangGraph's words: joins that are complete, an edge, a `Send` or a call."""
    if joins:
        return joins
    return (f"branch:to:{name}",) if path[0] == "pull" and len(path) == 2 else (PUSH,)


def whereabouts(name: str, step: int, path: Path, joins: tuple[str, ...], namespace: str) -> dict[str, Any]:
    """Where a task runs, as the metadata that users of LangGraph look for. `namespace` is that of what runs inside
    it."""
    return {
        "langgraph_step": step,
        "langgraph_node": name,
        "langgraph_triggers": triggers_of(name, path, joins),
        "langgraph_path": path,
        "langgraph_checkpoint_ns": namespace,
    }


def elsewhere(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata that a task has passed on, without its whereabouts."""
    return {key: value for key, value in metadata.items() if not key.startswith("langgraph_")}


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
    def path(self) -> Path:
        return self._task.path

    @property
    def thread_id(self) -> str | None:
        return self._config.get("configurable", {}).get("thread_id")

    @property
    def triggers(self) -> tuple[str, ...]:
        return triggers_of(self.name, self._task.path, self._joins)

    @property
    def whereabouts(self) -> dict[str, Any]:
        inside = below(self.namespace, self.name, self.id)
        return whereabouts(self.name, self.step, self.path, self._joins, inside)

    @property
    def metadata(self) -> dict[str, Any]:
        """Its run's and its node's, with the run's tags."""
        config = self._config
        given, tags = config.get("metadata"), config.get("tags")
        metadata = {**given, **self._node} if given else dict(self._node)
        if tags:
            metadata["tags"] = list(tags)
        return metadata
