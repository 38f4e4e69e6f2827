"""Door to `graphkit_checkpoint.base` and to LangGraph's shapes."""

from graphkit_checkpoint.base import (
    BaseCheckpointSaver,
)
from graphkit_checkpoint.shapes import (
    ERROR,
    EXCLUDED_METADATA_KEYS,
    INTERRUPT,
    LATEST_VERSION,
    RESUME,
    SCHEDULED,
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    copy_checkpoint,
    empty_checkpoint,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

__all__ = [
    "ERROR",
    "EXCLUDED_METADATA_KEYS",
    "INTERRUPT",
    "LATEST_VERSION",
    "RESUME",
    "SCHEDULED",
    "WRITES_IDX_MAP",
    "BaseCheckpointSaver",
    "ChannelVersions",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
    "PendingWrite",
    "copy_checkpoint",
    "empty_checkpoint",
    "get_checkpoint_id",
    "get_checkpoint_metadata",
]
