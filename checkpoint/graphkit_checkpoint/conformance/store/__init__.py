"""The checks of stores, by capability, in the order of a report."""

from __future__ import annotations

from typing import Final

from graphkit_checkpoint.conformance.store import items, living, search
from graphkit_checkpoint.conformance.store.lab import StoreLab
from graphkit_checkpoint.conformance.suite import Chapter, Check

CHAPTERS: Final[tuple[Chapter[StoreLab], ...]] = (
    items.items,
    items.values,
    items.names,
    search.search,
    search.filters,
    search.listing,
    search.batches,
    living.writers,
    living.ttl,
    living.corruption,
    living.doors,
    living.off_loop,
    living.closing,
    living.objects,
    living.reopening,
)

STORE_CHECKS: Final[tuple[Check[StoreLab], ...]] = tuple(
    check for chapter in CHAPTERS for check in chapter.checks
)
