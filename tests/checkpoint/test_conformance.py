"""The conformance suite: our own savers and stores pass all of it, and every planted fault is found."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphkit.checkpoint.conformance import (
    OPTIONAL,
    Capability,
    CheckFailedError,
    Report,
    Result,
    check_saver,
    check_store,
)
from graphkit.checkpoint.memory import InMemorySaver
from graphkit.checkpoint.postgres import PostgresSaver
from graphkit.checkpoint.sqlite import SqliteSaver
from graphkit.store.memory import InMemoryStore
from graphkit.store.postgres import PostgresStore
from graphkit.store.sqlite import SqliteStore
from graphkit_checkpoint.admission import current, idle
from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.conformance import __main__ as shell
from graphkit_checkpoint.conformance.saver import SAVER_CHECKS
from graphkit_checkpoint.conformance.store import STORE_CHECKS
from graphkit_checkpoint.layout import Layout, Rows
from graphkit_checkpoint.live import LiveSaver
from graphkit_checkpoint.records import Checkpoint, Commit
from graphkit_checkpoint.store import rows as store_rows
from graphkit_checkpoint.writing import encode
from tests.postgres import unsynced

IN_MEMORY = {
    "several objects": "every object has memory of its own",
    "reopening": "ends with its object",
    "several processes": "ends with its process",
}
MEMORY_SAVER = {
    **IN_MEMORY,
    "leases": "every owner is in this process, which knows whether he lives",
    "rollback": "nothing can fail halfway",
}

# --- Ours ---------------------------------------------------------------------------------------------


def check_green(report: Report, at_least: int) -> None:
    assert report.failures == [], str(report)
    assert report.run >= at_least
    report.raise_if_failed()


def quick(url: str) -> str:
    """Without waiting for the disk, which nothing here is about."""
    return f"{unsynced(url)}%20-c%20lock_timeout%3D5000"


def test_in_memory_saver() -> None:
    check_green(check_saver(InMemorySaver, without=MEMORY_SAVER), 120)


def test_live_saver() -> None:
    check_green(check_saver(LiveSaver, without=MEMORY_SAVER), 120)


def test_sqlite_saver(tmp_path: Path) -> None:
    report = check_saver(partial(SqliteSaver, tmp_path / "t.sqlite", synchronous="NORMAL"))
    check_green(report, 120)
    assert all(result.outcome == "passed" for result in report.results), "something is not declared"


@pytest.mark.timeout(400)
def test_postgres_saver(postgres_url: str) -> None:
    report = check_saver(partial(PostgresSaver, quick(postgres_url)))
    check_green(report, 120)
    assert all(result.outcome == "passed" for result in report.results), "something is not declared"


def test_in_memory_store() -> None:
    check_green(check_store(InMemoryStore, without=IN_MEMORY), 30)


def test_sqlite_store(tmp_path: Path) -> None:
    check_green(check_store(partial(SqliteStore, tmp_path / "s.sqlite")), 30)


def test_postgres_store(postgres_url: str) -> None:
    check_green(check_store(partial(PostgresStore, quick(postgres_url))), 30)


def test_every_check_has_a_name_of_its_own() -> None:
    for checks in (SAVER_CHECKS, STORE_CHECKS):
        names = [(check.capability, check.name) for check in checks]
        assert len(set(names)) == len(names)


# --- Faults -------------------------------------------------------------------------------------------


class Faulty(InMemorySaver):
    """A saver with a fault, in `write` or elsewhere."""


class IgnoresTheEpoch(Faulty):
    def write(self, rows: Rows) -> None:
        row = current(self._tables.thread(rows.thread_id))
        if rows.claims:
            rows.acquire = row.state if row else None
        super().write(rows)


class IgnoresTheOwner(Faulty):
    def write(self, rows: Rows) -> None:
        row = self._tables.thread(rows.thread_id)
        if not rows.claims and row is not None:
            rows.claims, rows.acquire = True, row.state
        super().write(rows)


class LetsTwoClaimsWin(Faulty):
    """Looks first and writes later, as who does not use a transaction."""

    def write(self, rows: Rows) -> None:
        import time

        row = current(self._tables.thread(rows.thread_id))
        seen, found = rows.acquire, row.state if row else None
        if rows.claims and (seen.epoch if seen else None) == (found.epoch if found else None):
            time.sleep(0.02)
            row = current(self._tables.thread(rows.thread_id))
            rows.acquire = row.state if row else None
        super().write(rows)


class ForgetsToRelease(Faulty):
    def write(self, rows: Rows) -> None:
        rows.release = False
        super().write(rows)


class LosesTheLastRecord(Faulty):
    def write(self, rows: Rows) -> None:
        rows.pending = rows.pending[:-1]
        super().write(rows)


class ForgetsNothing(Faulty):
    def write(self, rows: Rows) -> None:
        rows.forget = ()
        super().write(rows)


class WritesHalf(Faulty):
    """Writes what it can, and then finds out that it must not."""

    def commit(self, commit: Commit) -> None:
        if len(commit.checkpoints) > 1:
            first = Commit(**{**_fields(commit), "checkpoints": commit.checkpoints[:1]})
            self.write(encode(self.layout, first))
            commit = Commit(**{**_fields(commit), "checkpoints": commit.checkpoints[1:], "claims": False})
        self.write(encode(self.layout, commit))


class KnowsOnlyTheHead(Faulty):
    def find(self, thread_id: str, namespace: str = "", checkpoint_id: str | None = None) -> Any:
        return super().find(thread_id, namespace)


class DropsNuls(Faulty):
    def encode(self, commit: Commit) -> Rows:
        points = [
            Checkpoint(**{**_fields(p), "changed": _without_nuls(p.changed)}) for p in commit.checkpoints
        ]
        return super().encode(Commit(**{**_fields(commit), "checkpoints": points}))

    def commit(self, commit: Commit) -> None:
        self.write(self.encode(commit))


class MakesTuplesLists(Faulty):
    def find(self, *place: Any) -> Any:
        thread, saved = super().find(*place)
        if saved is not None:
            saved.values = {name: _listed(value) for name, value in saved.values.items()}
        return thread, saved


class NoChecksums(Faulty):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)

        class Trusting(Layout):
            def _uncovered(
                self, thread_id: str, checkpoint_id: str, what: str, row: Any, place: str
            ) -> tuple[bytes, int]:
                body: bytes = row.body
                return body if self.cipher is None else self.cipher.decrypt(body, place.encode()), 0

        self.layout = Trusting(self.layout.cipher, self.layout.limit)


class StoresInTheClear(Faulty):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "serde": None})


class FiltersByParts(Faulty):
    @staticmethod
    def _matches(reader: Any, row: Any, filter: Mapping[str, Any]) -> bool:
        found = reader.checkpoint(row, reader.body(row)).described
        return all(str(value) in str(found.get(key)) for key, value in filter.items())


class IncludesBefore(Faulty):
    def history(self, *place: Any, before: str | None = None, **options: Any) -> Iterator[Any]:
        return super().history(*place, before=before and before + "\x01", **options)


class NeverExpires(Faulty):
    def __init__(self, **options: Any) -> None:
        super().__init__(clock=lambda: 0.0, **options)


class PrunesWhatIsShared(Faulty):
    def _prune(self, thread_id: str, keep_last: Any, kept_since: Any, whole: bool) -> int:
        removed = super()._prune(thread_id, keep_last, kept_since, whole)
        with self.writing() as tables:
            for namespace in tables.namespaces(thread_id) if removed else ():
                kept = {row.id for row in tables.recent(thread_id, namespace, None, None)}
                keys = tables.value_keys(thread_id, namespace)
                tables.drop_values(thread_id, namespace, [key[:3] for key in keys if key[1] not in kept])
        return removed


class PrunesBeforeLooking(Faulty):
    """Does not care who owns the thread."""

    def _prune(self, thread_id: str, keep_last: Any, kept_since: Any, whole: bool) -> int:
        with self._lock:
            thread = self._tables.threads.get(thread_id)
            holder = thread.holder if thread else None
            if thread:
                thread.holder = None
            try:
                return super()._prune(thread_id, keep_last, kept_since, whole)
            finally:
                if thread:
                    thread.holder = holder


class CopiesShareRows(Faulty):
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        threads = self._tables.threads
        with self._lock:
            if target_thread_id in threads:
                raise ValueError(f"thread {target_thread_id!r} exists already")
            idle(self._tables, source_thread_id)
            if source_thread_id in threads:
                threads[target_thread_id] = threads[source_thread_id]


class DeletesOnlyTheRoot(Faulty):
    def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            idle(self._tables, thread_id)
            thread = self._tables.threads.get(thread_id)
            if thread is not None:
                del thread.namespaces[""]


class RemovesRunsByPart(Faulty):
    def delete_for_runs(self, run_ids: Any) -> int:
        known = {
            str(saved.checkpoint.metadata.get("run_id"))
            for thread_id in self.thread_ids()
            for saved in self.history(thread_id)
        }
        return super().delete_for_runs(run_id for run_id in known if any(part in run_id for part in run_ids))


class UsableWhenClosed(Faulty):
    def close(self) -> None:
        pass


class SwapsAsyncCommits(Faulty):
    """Every second commit waits for the next one."""

    async def acommit(self, commit: Commit) -> None:
        import asyncio

        rows = self.encode(commit)
        if rows.checkpoints and rows.checkpoints[0].step % 2:
            await asyncio.sleep(0.01)
        self.write(rows)


class PutsOverOthers(Faulty):
    """Writes that are there already are written again under another name."""

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        found = self.get_tuple(config)
        again = any(write[0] == task_id for write in (found.pending_writes if found else None) or ())
        super().put_writes(config, writes, f"{task_id}-again" if again else task_id, task_path)


FAULTS: dict[type[Faulty], Capability] = {
    IgnoresTheEpoch: Capability.OWNERSHIP,
    IgnoresTheOwner: Capability.OWNERSHIP,
    ForgetsToRelease: Capability.OWNERSHIP,
    LetsTwoClaimsWin: Capability.WRITERS,
    LosesTheLastRecord: Capability.PENDING,
    ForgetsNothing: Capability.PENDING,
    WritesHalf: Capability.ATOMICITY,
    KnowsOnlyTheHead: Capability.CHECKPOINTS,
    DropsNuls: Capability.VALUES,
    MakesTuplesLists: Capability.VALUES,
    NoChecksums: Capability.CORRUPTION,
    StoresInTheClear: Capability.ENCRYPTION,
    FiltersByParts: Capability.HISTORY,
    IncludesBefore: Capability.HISTORY,
    NeverExpires: Capability.TTL,
    PrunesWhatIsShared: Capability.PRUNING,
    PrunesBeforeLooking: Capability.PRUNING,
    CopiesShareRows: Capability.COPYING,
    DeletesOnlyTheRoot: Capability.DELETING,
    RemovesRunsByPart: Capability.RUNS,
    UsableWhenClosed: Capability.CLOSING,
    SwapsAsyncCommits: Capability.DOORS,
    PutsOverOthers: Capability.INTERFACE,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found(fault: type[Faulty], monkeypatch: pytest.MonkeyPatch) -> None:
    # What never comes takes as long as this.
    monkeypatch.setattr("graphkit_checkpoint.conformance.verdicts.PATIENCE", 0.25)
    report = check_saver(fault, without=MEMORY_SAVER, only=[FAULTS[fault]])
    assert report.failures
    assert not report.ok
    with pytest.raises(CheckFailedError, match=f"FAILED {FAULTS[fault]}"):
        report.raise_if_failed()


class SqliteFault(SqliteSaver):
    """A saver in a file with a fault."""


class NeverRenews(SqliteFault):
    def renew(self, thread_id: str, token: str) -> None:
        pass


class SeesItsOwnPast(SqliteFault):
    """Remembers what it has read."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.known: dict[Any, Any] = {}

    def find(self, *place: Any) -> Any:
        if place not in self.known:
            self.known[place] = super().find(*place)
        return self.known[place]


class WorksInTheLoop(SqliteFault):
    async def off_loop(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return call(*args, **options)


class CommitsAnyway(SqliteFault):
    @contextmanager
    def writing(self) -> Iterator[Any]:
        error: Exception | None = None
        with super().writing() as tables:
            try:
                yield tables
            except Exception as raised:
                error = raised
        if error is not None:
            raise error


class IgnoresDead(SqliteFault):
    """Nobody is ever dead, and no lease runs out."""

    def open(self, *args: Any, **options: Any) -> Any:
        thread, _ = self.find(*args[:1])
        if thread and thread.holder:
            thread.holder = thread.holder._replace(left=math.inf)
            from graphkit_checkpoint.admission import conflict

            raise conflict(args[0], thread.holder)
        return super().open(*args, **options)


SQLITE_FAULTS: dict[type[SqliteFault], Capability] = {
    NeverRenews: Capability.LEASES,
    IgnoresDead: Capability.LEASES,
    SeesItsOwnPast: Capability.OBJECTS,
    WorksInTheLoop: Capability.OFF_LOOP,
    CommitsAnyway: Capability.ROLLBACK,
}


@pytest.mark.parametrize("fault", SQLITE_FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_of_a_shared_saver_is_found(
    fault: type[SqliteFault], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphkit_checkpoint.conformance.verdicts.PATIENCE", 0.5)
    make = partial(fault, tmp_path / "t.sqlite", synchronous="NORMAL")
    assert check_saver(make, only=[SQLITE_FAULTS[fault]]).failures


class FaultyStore(InMemoryStore):
    """A store with a fault."""


class KeepsWhatIsDeleted(FaultyStore):
    def delete(self, namespace: Any, key: str) -> None:
        pass


class SearchesByText(FaultyStore):
    def search(self, namespace_prefix: Any, /, **options: Any) -> Any:
        found = super().search(namespace_prefix[:1], **{**options, "limit": 10_000, "offset": 0})
        start = ".".join(namespace_prefix)
        return [item for item in found if ".".join(item.namespace).startswith(start)][
            : options.get("limit", 10)
        ]


class IgnoresOffsets(FaultyStore):
    def search(self, namespace_prefix: Any, /, **options: Any) -> Any:
        return super().search(namespace_prefix, **{**options, "offset": 0})


class FiltersStoreByParts(FaultyStore):
    def search(self, namespace_prefix: Any, /, **options: Any) -> Any:
        wanted = options.pop("filter", None) or {}
        found = super().search(namespace_prefix, **options)
        return [item for item in found if all(str(v) in str(item.value.get(k)) for k, v in wanted.items())]


class WritesFirst(FaultyStore):
    def batch(self, ops: Any) -> Any:
        ops = list(ops)
        for op in ops:
            if len(op) == 5 and hasattr(op, "value"):
                super().batch([op])
        return super().batch(ops)


class ItemsForEver(FaultyStore):
    def put(self, *args: Any, ttl: Any = None, **options: Any) -> None:
        super().put(*args, ttl=None, **options)


class TrustsItsRows(FaultyStore):
    pass


STORE_FAULTS: dict[type[FaultyStore], Capability] = {
    KeepsWhatIsDeleted: Capability.ITEMS,
    SearchesByText: Capability.SEARCH,
    IgnoresOffsets: Capability.SEARCH,
    FiltersStoreByParts: Capability.FILTERS,
    WritesFirst: Capability.BATCHES,
    ItemsForEver: Capability.TTL,
    TrustsItsRows: Capability.CORRUPTION,
}


@pytest.mark.parametrize("fault", STORE_FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_of_a_store_is_found(fault: type[FaultyStore], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphkit_checkpoint.conformance.verdicts.PATIENCE", 0.5)
    if fault is TrustsItsRows:
        monkeypatch.setattr(store_rows, "_checksum", lambda row: row.checksum)
    report = check_store(fault, without=IN_MEMORY, only=[STORE_FAULTS[fault]])
    assert report.failures, str(report)


# --- What is said and asked ---------------------------------------------------------------------------


def test_what_is_not_declared_is_listed_and_never_passed() -> None:
    report = check_saver(InMemorySaver, without=MEMORY_SAVER, only=["leases", "usage"])
    assert report.counts()[Capability.LEASES].passed == 0
    assert report.counts()[Capability.LEASES].not_declared > 5
    assert "not declared: every owner is in this process" in str(report)
    assert report.ok
    nothing = check_saver(InMemorySaver, without=MEMORY_SAVER, only=["leases"])
    assert not nothing.ok


def test_what_everybody_has_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="'ownership' is no optional capability"):
        check_saver(InMemorySaver, without={"ownership": "too hard"})
    with pytest.raises(ValueError, match="say why there is no"):
        check_saver(InMemorySaver, without={"leases": ""})
    with pytest.raises(ValueError, match="'no such thing'"):
        check_saver(InMemorySaver, without={"no such thing": "x"})
    assert {Capability(name) for name in MEMORY_SAVER} < OPTIONAL


def test_a_storage_that_holds_threads_is_left_alone() -> None:
    saver = InMemorySaver()
    saver.commit(Commit("mine", "", "t", tip=_new_tip(), claims=True, release=True))
    with pytest.raises(ValueError, match="1 threads"):
        check_saver(lambda **options: saver, without=MEMORY_SAVER)


def test_the_suite_leaves_an_empty_storage(tmp_path: Path) -> None:
    make = partial(SqliteSaver, tmp_path / "t.sqlite", synchronous="NORMAL")
    check_saver(make, only=["checkpoints", "ownership", "leases", "pruning"])
    with make() as saver:
        assert saver.thread_ids() == []


def test_a_saver_may_be_made_asynchronously() -> None:
    async def make(**options: Any) -> BaseCheckpointSaver:
        return InMemorySaver(**options)

    assert check_saver(make, without=MEMORY_SAVER, only=["usage"]).ok


def test_a_report_as_text() -> None:
    results = (
        Result(Capability.HISTORY, "good", "passed"),
        Result(Capability.HISTORY, "bad", "failed", "the end\nof a traceback"),
        Result(Capability.LEASES, "other", "not declared", "none"),
    )
    assert str(Report("Saver", results)).splitlines() == [
        "Saver: 2 checks, 1 failed",
        "",
        "capability  passed  failed",
        "history          1       1",
        "leases           0       0  1 not declared: none",
        "",
        "FAILED history: bad",
        "    the end",
        "    of a traceback",
    ]


def test_from_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.main([f"sqlite:///{tmp_path / 't.sqlite'}", "--only", "usage"]) == 0
    assert "SqliteSaver: 3 checks, 0 failed" in capsys.readouterr().out
    assert shell.main([f"sqlite:///{tmp_path / 's.sqlite'}", "--store", "--only", "search"]) == 0
    for wrong, why in (
        (["nothing"], "neither a URL nor module:callable"),
        (["mysql://x"], "no saver for mysql"),
        (["sqlite:///x", "--without", "leases"], "say why"),
        (["sqlite:///x", "--only", "magic"], "no capability 'magic'; there are checkpoints, values"),
        (["no_such_module:make"], "'no_such_module:make' cannot be found"),
        (["graphkit.checkpoint.memory:make"], "cannot be found.*'make'"),
        (
            ["graphkit.checkpoint.memory:InMemorySaver"],
            "what one object has stored another one does not find",
        ),
        (["graphkit.store.memory:InMemoryStore", "--store"], "every call is to open the same storage"),
    ):
        with pytest.raises(SystemExit) as ended:
            shell.main(wrong)
        assert ended.value.code == 2
        assert re.search(why, capsys.readouterr().err.replace("\n", " "))


def test_from_the_shell_with_a_callable() -> None:
    command = [sys.executable, "-W", "error", "-m", "graphkit_checkpoint.conformance"]
    subject = ["graphkit_checkpoint.memory:InMemorySaver", "--only", "deleting", "--only", "leases"]
    without = [part for name in MEMORY_SAVER for part in ("--without", f"{name}=in memory")]
    done = subprocess.run([*command, *subject, *without], capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    assert "InMemorySaver: 6 checks, 0 failed" in done.stdout
    assert "not declared: in memory" in done.stdout


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}


def _new_tip() -> Any:
    from graphkit_checkpoint.records import Tip

    return Tip()


def _without_nuls(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "")
    if type(value) is list:
        return [_without_nuls(item) for item in value]
    if type(value) is dict:
        return {_without_nuls(key): _without_nuls(item) for key, item in value.items()}
    return value


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if type(value) in (list, tuple) else value
