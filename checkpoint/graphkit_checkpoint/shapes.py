"""LangGraph's shapes of checkpoints, as its users import them from `langgraph.checkpoint.base`.

`Checkpoint` here is a dict; the record that the engine and the savers exchange is `records.Checkpoint`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict

from graphkit_checkpoint.registry import register_type

RunnableConfig: TypeAlias = Mapping[str, Any]
"""`{"configurable": {"thread_id": …, "checkpoint_ns": …, "checkpoint_id": …}}`; the last two may be missing."""
ChannelVersions: TypeAlias = dict[str, str | int | float]
"""The version of each channel; later ones are larger."""
PendingWrite: TypeAlias = tuple[str, str, Any]
"""(task id, channel, value)."""

ERROR: Final = "__error__"
SCHEDULED: Final = "__scheduled__"
INTERRUPT: Final = "__interrupt__"
RESUME: Final = "__resume__"
WRITES_IDX_MAP: Final[Mapping[str, int]] = {ERROR: -1, SCHEDULED: -2, INTERRUPT: -3, RESUME: -4}
"""The places of special writes of a task; those of others are counted from 0."""

LATEST_VERSION: Final = 2
"""The `v` of new checkpoints."""

EXCLUDED_METADATA_KEYS: Final = frozenset(
    {
        "thread_id",
        "checkpoint_id",
        "checkpoint_ns",
        "checkpoint_map",
        "langgraph_step",
        "langgraph_node",
        "langgraph_triggers",
        "langgraph_path",
        "langgraph_checkpoint_ns",
    }
)
"""What a config says of the place and not of the run."""


class Checkpoint(TypedDict):
    """The state of a thread at one moment. `id`s sort by time, `ts` is ISO 8601."""

    v: int
    id: str
    ts: str
    channel_values: dict[str, Any]
    channel_versions: ChannelVersions
    versions_seen: dict[str, ChannelVersions]
    updated_channels: list[str] | None


class CheckpointMetadata(TypedDict, total=False):
    """What is known of a checkpoint; callers add keys of their own."""

    source: Literal["input", "loop", "update", "fork"]
    step: int
    parents: dict[str, str]
    run_id: str


class CheckpointTuple(NamedTuple):
    """A checkpoint with what belongs to it."""

    config: dict[str, Any]
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent_config: dict[str, Any] | None = None
    pending_writes: list[PendingWrite] | None = None


class Place(NamedTuple):
    """What a config addresses. Without `checkpoint_id`: the latest checkpoint, or all of them."""

    thread_id: str
    namespace: str
    checkpoint_id: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """An item of an `__interrupt__` write: a question that a task of the engine asked."""

    value: Any
    id: str
    name: str | None = None
    index: int | None = None
    node: str = ""
    namespace: str = ""
    response_schema: Any = None


# A tool that copies a thread puts what it was shown.
register_type(Question, name="graphkit:Question")

_ids = threading.Lock()
_last_id = 0


def empty_checkpoint() -> Checkpoint:
    """A checkpoint without values; its id sorts after those made before in this process."""
    return Checkpoint(
        v=LATEST_VERSION,
        id=_new_id(),
        ts=datetime.now(UTC).isoformat(),
        channel_values={},
        channel_versions={},
        versions_seen={},
        updated_channels=None,
    )


def _new_id() -> str:
    """In the form of the engine's ids: milliseconds, a number that counts on, and a nonce."""
    global _last_id
    with _ids:
        _last_id = max(_last_id + 1, time.time_ns() // 1_000_000 << 24)
        return f"{_last_id >> 24:011x}-{_last_id & 0xFFFFFF:06x}-{os.urandom(4).hex()}"


def copy_checkpoint(checkpoint: Checkpoint) -> Checkpoint:
    """A copy whose values, versions and versions seen can be changed by key."""
    copied = checkpoint.copy()
    copied["channel_values"] = checkpoint["channel_values"].copy()
    copied["channel_versions"] = checkpoint["channel_versions"].copy()
    copied["versions_seen"] = {node: seen.copy() for node, seen in checkpoint["versions_seen"].items()}
    return copied


def config_of(thread_id: str, namespace: str, checkpoint_id: str) -> dict[str, Any]:
    """The config that addresses a checkpoint."""
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
    }


def get_checkpoint_id(config: RunnableConfig) -> str | None:
    """The checkpoint that a config addresses; None for the latest."""
    found: str | None = config.get("configurable", {}).get("checkpoint_id")
    return found


def get_checkpoint_metadata(config: RunnableConfig, metadata: Mapping[str, Any]) -> CheckpointMetadata:
    """The metadata with the plain values of the config's `metadata` and `configurable`, where it has no such key."""
    complete = dict(metadata)
    for extra in (config.get("metadata"), config.get("configurable")):
        for key, value in (extra or {}).items():
            private = key in EXCLUDED_METADATA_KEYS or key.startswith("__")
            if not private and type(value) in (str, int, bool, float):
                complete.setdefault(key, value)
    return complete  # type: ignore[return-value]
