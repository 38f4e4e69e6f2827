"""`check_saver` and `check_store`: the whole suite on one subject."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import closing, suppress
from typing import Final

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.damage import Damage, damage_tables
from graphkit_checkpoint.conformance.lab import SaverBench, SaverLab
from graphkit_checkpoint.conformance.report import Report
from graphkit_checkpoint.conformance.saver import SAVER_CHECKS
from graphkit_checkpoint.conformance.store import STORE_CHECKS
from graphkit_checkpoint.conformance.store.lab import DamageItem, StoreBench, StoreLab, damage_row
from graphkit_checkpoint.conformance.suite import declared, run, selected
from graphkit_checkpoint.store.base import BaseStore

MakeSaver = Callable[..., BaseCheckpointSaver | Awaitable[BaseCheckpointSaver]]
MakeStore = Callable[..., BaseStore | Awaitable[BaseStore]]
SEPARATE: Final = (
    "what one object has stored another one does not find: every call is to open the same storage. Where each object "
    "has its own, say so in `without`: 'several objects', 'reopening' and 'several processes'"
)


def check_saver(
    make: MakeSaver,
    *,
    without: Mapping[str, str] | None = None,
    damage: Damage = damage_tables,
    only: Collection[str] | None = None,
) -> Report:
    """Check a saver, and report by capability.

    Every call of `make` opens another saver object on the same storage, as another process would, with the
    options of `BaseCheckpointSaver` that it is given by keyword; other processes call it too, so it can be
    pickled. The storage is empty and the same for every object (ValueError otherwise): the suite deletes and prunes
    without asking.

    `without` maps optional capabilities to the reason why there is no such thing; their checks are reported as
    not declared. Without "several objects" each object may have storage of its own. `damage` changes a stored
    row behind the saver's back. `only` runs the checks of some capabilities.
    """
    missing = declared(without)
    checks = selected(SAVER_CHECKS, only)
    bench = SaverBench(make, missing, damage)
    with closing(bench.stack):
        if not bench.shared.blocking:
            missing.setdefault(Capability.OFF_LOOP, "never waits for I/O, says `blocking`")
        if present := bench.shared.thread_ids():
            raise ValueError(f"the storage holds {len(present)} threads; checks need one that is empty")
        if bench.has(Capability.OBJECTS) and not _is_shared(bench):
            raise ValueError(SEPARATE)
        results = tuple(run(checks, lambda: SaverLab(bench), missing))
        return Report(type(bench.shared).__name__, results)


def check_store(
    make: MakeStore,
    *,
    without: Mapping[str, str] | None = None,
    damage: DamageItem = damage_row,
    only: Collection[str] | None = None,
) -> Report:
    """Check a store, as `check_saver` does a saver. Of options `make` is given `ttl`, a `TTLConfig`."""
    missing = declared(without)
    checks = selected(STORE_CHECKS, only)
    bench = StoreBench(make, missing, damage)
    with closing(bench.stack):
        if not getattr(bench.shared, "blocking", True):
            missing.setdefault(Capability.OFF_LOOP, "never waits for I/O, says `blocking`")
        if present := bench.shared.search((), limit=1):
            raise ValueError(f"the store holds items ({present[0].key!r} …); checks need one that is empty")
        if bench.has(Capability.OBJECTS) and not _is_shared_store(bench):
            raise ValueError(SEPARATE)
        results = tuple(run(checks, lambda: StoreLab(bench), missing))
        return Report(type(bench.shared).__name__, results)


def _is_shared(bench: SaverBench) -> bool:
    """Whether a second object finds a thread of the first one. What else is wrong with them is for the checks."""
    with closing(SaverLab(bench)) as lab, suppress(Exception):
        return lab.finished(states=1).thread_id in bench.second.thread_ids()
    return True


def _is_shared_store(bench: StoreBench) -> bool:
    """Whether a second object finds an item of the first one."""
    namespace = (bench.prefix,)
    with suppress(Exception):
        bench.shared.put(namespace, "shared", {})
        found = bench.second.get(namespace, "shared")
        bench.shared.delete(namespace, "shared")
        return found is not None
    return True
