"""Stored rows that are damaged, moved or missing: noticed at reading, never shown as something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.damage import KINDS, Kind, newest
from graphkit_checkpoint.conformance.lab import LONG, Run, SaverLab, loaded
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, refused
from graphkit_checkpoint.errors import CheckpointCorruptError
from graphkit_checkpoint.records import Pending

chapter: Chapter[SaverLab] = Chapter(Capability.CORRUPTION)

Change = Callable[[Any], Any]


def flipped(body: bytes, index: int, mask: int = 1) -> bytes:
    damaged = bytearray(body)
    damaged[index] ^= mask
    return bytes(damaged)


BODIES: Mapping[str, Callable[[bytes], bytes]] = {
    "the first byte": lambda body: flipped(body, 0),
    "the highest bit of the last byte": lambda body: flipped(body, -1, 0x80),
    "a byte in the middle": lambda body: flipped(body, len(body) // 2, 0xFF),
    "a byte too few": lambda body: body[:-1],
    "a byte too many": lambda body: body + b"\0",
    "nothing left": lambda body: b"",
    "zeros": lambda body: bytes(len(body)),
    "other well-formed data": lambda body: b"\x90",
}


def written(lab: SaverLab) -> Run:
    """A finished thread whose head has a value, a list of three parts and a record."""
    run = lab.run()
    run.append("log", "one", LONG)
    run.append("log", "three")
    run.append("log", "four")
    run.record(Pending("task", "output", "key", [1, 2, 3]))
    return run.release()


def check_noticed(lab: SaverLab, run: Run) -> None:
    """Reading the head fails, naming thread and checkpoint, also as part of a history."""
    for saver in (lab.saver, lab.other()):
        with refused(CheckpointCorruptError, repr(run.thread_id), repr(run.last)):
            saver.load(run.thread_id)
        with refused(CheckpointCorruptError, repr(run.thread_id), repr(run.last)):
            list(saver.history(run.thread_id))


def _body_of(kind: Kind, damage: Callable[[bytes], bytes]) -> tuple[Kind, Change]:
    return kind, lambda row: row._replace(body=damage(row.body))


@chapter.each(
    {f"{name}, of a {kind}": _body_of(KINDS[kind], BODIES[name]) for kind in KINDS for name in BODIES}
)
def damaged_body(lab: SaverLab, damage: tuple[Kind, Change]) -> None:
    """A damaged body is noticed: {case}."""
    run = written(lab)
    lab.damage(run.thread_id, *damage)
    check_noticed(lab, run)


FIELDS: Mapping[str, tuple[Kind, Change]] = {
    "checksum of a checkpoint": ("checkpoint", lambda row: row._replace(checksum=row.checksum ^ 1)),
    "parent of a checkpoint": ("checkpoint", lambda row: row._replace(parent_id=None)),
    "base of a checkpoint": ("checkpoint", lambda row: row._replace(base_id=row.id)),
    "step of a checkpoint": ("checkpoint", lambda row: row._replace(step=row.step + 1)),
    "id of a checkpoint": ("checkpoint", lambda row: row._replace(id=row.id + "0")),
    "checksum of a value": ("value", lambda row: row._replace(checksum=row.checksum ^ 1)),
    "channel of a value": ("value", lambda row: row._replace(channel="other")),
    "log of a value": ("value", lambda row: row._replace(log="0")),
    "start of a value": ("value", lambda row: row._replace(start=row.start + 1)),
    "length of a value": ("value", lambda row: row._replace(length=row.length + 1)),
    "kind of a value": ("value", lambda row: row._replace(kind=row.kind ^ 3)),
    "predecessor of a value": ("value", lambda row: row._replace(previous="0")),
    "checksum of a record": ("pending", lambda row: row._replace(checksum=row.checksum ^ 1)),
    "task of a record": ("pending", lambda row: row._replace(task_id="other")),
    "kind of a record": ("pending", lambda row: row._replace(kind="answer")),
    "key of a record": ("pending", lambda row: row._replace(key="other")),
}


@chapter.each(FIELDS)
def damaged_field(lab: SaverLab, damage: tuple[Kind, Change]) -> None:
    """A change in what belongs to a body is noticed: {case}."""
    run = written(lab)
    lab.damage(run.thread_id, *damage)
    if damage[0] == "checkpoint":
        # By which id the error names it depends on whether the row can be found.
        with refused(CheckpointCorruptError, repr(run.thread_id)):
            lab.saver.load(run.thread_id)
    else:
        check_noticed(lab, run)


@chapter.each(KINDS)
def from_another_thread(lab: SaverLab, kind: Kind) -> None:
    """A row of another thread is noticed, though it would fit: a {case}."""
    run, other = written(lab), lab.run()
    for checkpoint_id, values in run.seen.items():
        extended = {"log": 1} if other.seen else {}
        other.step({"log": [f"not {item}" for item in values["log"]]}, id=checkpoint_id, extended=extended)
    other.record(Pending("task", "output", "key", "not it"))
    with lab.saver.reading() as tables:
        theirs = newest(tables, other.thread_id, kind)
    lab.damage(run.thread_id, kind, lambda row: theirs)
    check_noticed(lab, run)


@chapter
def from_another_checkpoint(lab: SaverLab) -> None:
    """A body in the place of another one of its own thread is noticed."""
    run = written(lab)
    with lab.saver.reading() as tables:
        rows = tables.recent(run.thread_id, "", None, None)
    older = rows[1]
    lab.damage(
        run.thread_id, "checkpoint", lambda row: row._replace(body=older.body, checksum=older.checksum)
    )
    check_noticed(lab, run)


@chapter
def missing_value(lab: SaverLab) -> None:
    """A value that is missing is noticed."""
    run = written(lab)
    lab.damage(run.thread_id, "value", lambda row: None)
    check_noticed(lab, run)


@chapter
def missing_scalar(lab: SaverLab) -> None:
    """A value in one piece that is missing is noticed."""
    run = lab.run()
    run.step({"k": "v" * 1000})
    lab.damage(run.thread_id, "value", lambda row: None)
    check_noticed(lab, run)


@chapter
def missing_head(lab: SaverLab) -> None:
    """A head that is missing is noticed, not taken for a thread without checkpoints."""
    run = written(lab)
    lab.damage(run.thread_id, "checkpoint", lambda row: None)
    with refused(CheckpointCorruptError, repr(run.thread_id), repr(run.last)):
        lab.saver.load(run.thread_id)
    with refused(CheckpointCorruptError, repr(run.thread_id)):
        lab.saver.open(run.thread_id)


@chapter
def missing_record(lab: SaverLab) -> None:
    """A record that is missing is noticed, the only one and one of several."""
    run, several = written(lab), lab.run()
    several.append("log", "one", LONG)
    several.record(*(Pending("task", "output", key, [1]) for key in "abc"))
    several.record(Pending("task", "output", "a", [2]), Pending("task", "output", "d", [1]))
    several.release()
    for each in (run, several):
        lab.damage(each.thread_id, "pending", lambda row: None)
        check_noticed(lab, each)


@chapter
def missing_ancestor(lab: SaverLab) -> None:
    """A missing checkpoint that the head is read from is noticed."""
    run = written(lab)
    first = min(run.seen)
    with lab.saver.writing() as tables:
        tables.drop_checkpoints(run.thread_id, "", [first])
    check_noticed(lab, run)


@chapter
def older_checkpoints_can_be_read(lab: SaverLab) -> None:
    """Damage in the newest rows leaves the older checkpoints readable."""
    run = written(lab)
    for kind in KINDS.values():
        lab.damage(run.thread_id, kind, lambda row: row._replace(body=row.body + b"\0"))
    order = sorted(run.seen)
    for checkpoint_id in order[:-1]:
        equal(loaded(lab.saver, run.thread_id, checkpoint_id).values, run.seen[checkpoint_id])


@chapter
def other_threads_can_be_read(lab: SaverLab) -> None:
    """Damage in one thread leaves all others readable, and the thread can be deleted."""
    run, other = written(lab), written(lab)
    lab.damage(run.thread_id, "checkpoint", lambda row: row._replace(body=b""))
    other.check_all()
    lab.saver.delete_thread(run.thread_id)
    equal(lab.saver.find(run.thread_id), (None, None), "find()")


@chapter
def not_claimed(lab: SaverLab) -> None:
    """A run does not get to write to a thread whose head is damaged."""
    run = written(lab)
    lab.damage(run.thread_id, "value", lambda row: row._replace(body=row.body + b"\0"))
    with refused(CheckpointCorruptError, repr(run.thread_id)):
        lab.run(run.thread_id)


@chapter
def damaged_record_found(lab: SaverLab) -> None:
    """A damaged record is noticed where records are looked for."""
    run = written(lab)
    lab.damage(run.thread_id, "pending", lambda row: row._replace(body=flipped(row.body, 0)))
    with refused(CheckpointCorruptError, repr(run.thread_id), repr(run.last)):
        lab.saver.find_pending(run.thread_id, "output", "key")
