"""The checks of savers, by capability, in the order of a report."""

from __future__ import annotations

from typing import Final

from graphkit_checkpoint.conformance.lab import SaverLab
from graphkit_checkpoint.conformance.saver import (
    atomicity,
    checkpoints,
    corruption,
    doors,
    encryption,
    history,
    interface,
    leases,
    life,
    logs,
    namespaces,
    opening,
    ownership,
    pending,
    processes,
    thread_ids,
    ttl,
    values,
    writers,
)
from graphkit_checkpoint.conformance.suite import Chapter, Check

CHAPTERS: Final[tuple[Chapter[SaverLab], ...]] = (
    checkpoints.chapter,
    values.chapter,
    thread_ids.chapter,
    history.chapter,
    logs.chapter,
    pending.chapter,
    namespaces.chapter,
    ownership.chapter,
    leases.chapter,
    writers.chapter,
    processes.chapter,
    atomicity.chapter,
    atomicity.limits,
    atomicity.rollback,
    life.deleting,
    life.copying,
    life.pruning,
    life.runs,
    life.usage,
    ttl.chapter,
    corruption.chapter,
    encryption.chapter,
    doors.chapter,
    doors.off_loop,
    opening.closing,
    opening.objects,
    opening.reopening,
    interface.chapter,
)

SAVER_CHECKS: Final[tuple[Check[SaverLab], ...]] = tuple(
    check for chapter in CHAPTERS for check in chapter.checks
)
