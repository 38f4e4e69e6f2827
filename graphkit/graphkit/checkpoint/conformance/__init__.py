"""Door to `graphkit_checkpoint.conformance`."""

from graphkit_checkpoint.conformance import (
    OPTIONAL,
    Capability,
    CheckFailedError,
    Count,
    Damage,
    Report,
    Result,
    check_saver,
    check_store,
    damage_tables,
)

__all__ = [
    "OPTIONAL",
    "Capability",
    "CheckFailedError",
    "Count",
    "Damage",
    "Report",
    "Result",
    "check_saver",
    "check_store",
    "damage_tables",
]
