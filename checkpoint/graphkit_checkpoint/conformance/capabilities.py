"""What is checked, in chapters: every saver and store has the first ones, the optional ones are declared."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Capability(StrEnum):
    """A chapter of the suite. The value is its heading in a report."""

    CHECKPOINTS = "checkpoints"
    VALUES = "values"
    THREAD_IDS = "thread ids"
    HISTORY = "history"
    LOGS = "logs"
    PENDING = "pending records"
    NAMESPACES = "namespaces"
    OWNERSHIP = "ownership"
    WRITERS = "several writers"
    ATOMICITY = "atomicity"
    DELETING = "deleting"
    COPYING = "copying"
    PRUNING = "pruning"
    RUNS = "deleting runs"
    USAGE = "usage"

    ITEMS = "items"
    SEARCH = "search"
    FILTERS = "filters"
    LISTING = "listing namespaces"
    NAMES = "names"
    BATCHES = "batches"

    DOORS = "async doors"
    CLOSING = "closing"

    OFF_LOOP = "event loop left free"
    OBJECTS = "several objects"
    REOPENING = "reopening"
    PROCESSES = "several processes"
    LEASES = "leases"
    TTL = "time to live"
    LIMITS = "size limit"
    ROLLBACK = "rollback"
    CORRUPTION = "corruption"
    ENCRYPTION = "encryption"
    INTERFACE = "LangGraph's interface"

    @classmethod
    def _missing_(cls, value: object) -> Capability:
        raise ValueError(f"there is no capability {value!r}; there are {', '.join(cls)}")


OPTIONAL: Final = frozenset(
    {
        Capability.OFF_LOOP,
        Capability.OBJECTS,
        Capability.REOPENING,
        Capability.PROCESSES,
        Capability.LEASES,
        Capability.TTL,
        Capability.LIMITS,
        Capability.ROLLBACK,
        Capability.CORRUPTION,
        Capability.ENCRYPTION,
        Capability.INTERFACE,
    }
)
"""What one may do without, saying why."""
