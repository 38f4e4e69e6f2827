"""A saver that is given a cipher stores nothing readable, and reads nothing that is not encrypted."""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest
from zlib import crc32

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.damage import KINDS, Kind, newest
from graphkit_checkpoint.conformance.lab import Run, SaverLab
from graphkit_checkpoint.conformance.samples import VALUES
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, refused, that
from graphkit_checkpoint.errors import EncryptionError, StorageError
from graphkit_checkpoint.layout import seal
from graphkit_checkpoint.records import Pending

chapter: Chapter[SaverLab] = Chapter(Capability.ENCRYPTION)

SECRET = "the secret that must not be found"
MARK = b"\xc1"
"""msgpack never writes this byte, so that no encrypted body is taken for a plain one."""


class ExampleCipher:
    """Enough of a cipher to see what a saver does with one; protects nothing from anybody."""

    def __init__(self, key: bytes) -> None:
        self.key = key

    def encrypt(self, body: bytes, context: bytes) -> bytes:
        return MARK + self._tag(body, context) + self._mixed(body)

    def decrypt(self, body: bytes, context: bytes) -> bytes:
        if not body.startswith(MARK):
            raise EncryptionError("is not encrypted")
        opened = self._mixed(body[17:])
        if not compare_digest(self._tag(opened, context), body[1:17]):
            raise EncryptionError("cannot be opened: another key, or another place")
        return opened

    def _tag(self, body: bytes, context: bytes) -> bytes:
        return blake2b(
            len(context).to_bytes(8, "big") + context + body, key=self.key, digest_size=16
        ).digest()

    def _mixed(self, body: bytes) -> bytes:
        pad = blake2b(b"pad", key=self.key).digest() * (len(body) // 64 + 1)
        mixed = int.from_bytes(body, "big") ^ int.from_bytes(pad[: len(body)], "big")
        return mixed.to_bytes(len(body), "big")


def secretive(lab: SaverLab) -> Run:
    """A finished run that has put its secret wherever a secret can be."""
    run = lab.run(saver=lab.open(serde=ExampleCipher(b"key")))
    for number in range(3):
        value = [*run.values.get("log", []), SECRET]
        fields = {"metadata": {"m": SECRET}, "work": {"w": SECRET}, "given": [("g", SECRET)]}
        run.step({"log": value, "k": 2 * SECRET, "n": number}, extended={"log": 1}, **fields)
        run.record(Pending("t", "question", "q", SECRET))
    inner = run.nested("child")
    inner.append("log", SECRET)
    return run.release()


def bodies(run: Run) -> list[bytes]:
    """All that is stored of a thread."""
    with run.saver.reading() as tables:
        found: list[bytes] = []
        for namespace in tables.namespaces(run.thread_id):
            checkpoints = tables.recent(run.thread_id, namespace, None, None)
            found += (row.body for row in checkpoints)
            for row in checkpoints:
                found += (record.body for record in tables.pending(run.thread_id, namespace, row.id))
            for channel, log in {key[:2] for key in tables.value_keys(run.thread_id, namespace)}:
                values = tables.values(run.thread_id, namespace, channel, log, None)
                found += (value.body for value in values)
        return found


@chapter
def nothing_readable(lab: SaverLab) -> None:
    """No stored body shows what is in it: values, metadata, records, work, nested graphs."""
    stored = bodies(secretive(lab))
    that(len(stored) > 10, f"only {len(stored)} bodies are stored")
    that(not any(SECRET.encode() in body for body in stored), "a body shows the secret")
    that(all(body.startswith(MARK) for body in stored), "a body is not encrypted")


@chapter
def read_again(lab: SaverLab) -> None:
    """What was encrypted is read exactly: alone, as history, of every kind of value."""
    run = secretive(lab)
    run.check_all()
    again = lab.run(run.thread_id, saver=run.saver)
    for name, values in VALUES.items():
        again.step({name: values})
    again.check_all()
    found = run.saver.find_pending(run.thread_id, "question", "q")
    equal([record.value for record in found], [SECRET] * 3, "records")


@chapter
def long_lists(lab: SaverLab) -> None:
    """Lists grow, are put together and fork as without a cipher."""
    run = lab.run(saver=lab.open(serde=ExampleCipher(b"key")))
    for number in range(70):
        run.append("log", number)
    run.go_to(sorted(run.seen)[30])
    run.append("log", "fork")
    run.check_all()


@chapter
def kept_in_copies(lab: SaverLab) -> None:
    """A copy is encrypted for its own place, and can be read."""
    run, target = secretive(lab), lab.thread_id()
    run.saver.copy_thread(run.thread_id, target)
    run.check_all(thread_id=target)
    copy = lab.run(target, saver=run.saver)
    that(not any(SECRET.encode() in body for body in bodies(copy)), "a body of the copy shows the secret")


@chapter
def kept_by_pruning(lab: SaverLab) -> None:
    """What pruning writes anew is encrypted, and can be read."""
    run = secretive(lab)
    run.saver.prune(run.thread_id, keep_last=1)
    run.seen = {max(run.seen): run.seen[max(run.seen)]}
    run.check_all()
    that(all(body.startswith(MARK) for body in bodies(run)), "a body is not encrypted")


@chapter.needing(Capability.OBJECTS)
def other_key(lab: SaverLab) -> None:
    """With another key a thread cannot be read, and nothing of it is shown."""
    run = secretive(lab)
    stranger = lab.open(serde=ExampleCipher(b"other key"))
    with refused(EncryptionError):
        stranger.load(run.thread_id)
    with refused(EncryptionError):
        list(stranger.history(run.thread_id))
    with refused(EncryptionError):
        stranger.find_pending(run.thread_id, "question", "q")


@chapter.needing(Capability.OBJECTS)
def no_key(lab: SaverLab) -> None:
    """A saver without a cipher cannot read what is encrypted, and does not take it for something else."""
    run = secretive(lab)
    with refused(StorageError):
        lab.saver.load(run.thread_id)
    with refused(StorageError):
        list(lab.saver.history(run.thread_id))


@chapter.needing(Capability.OBJECTS)
def plain_rows(lab: SaverLab) -> None:
    """A saver with a cipher refuses rows that are not encrypted: nobody can slip any in."""
    run = lab.finished()
    with refused(EncryptionError):
        lab.open(serde=ExampleCipher(b"key")).load(run.thread_id)


@chapter.each(KINDS)
def bound_to_its_place(lab: SaverLab, kind: Kind) -> None:
    """An encrypted body opens in its own place only, also with a checksum that is right for another: a {case}."""
    run, other = secretive(lab), secretive(lab)
    with other.saver.reading() as tables:
        body = newest(tables, other.thread_id, kind).body
    place = (run.thread_id, "")
    lab.damage(
        run.thread_id,
        kind,
        lambda row: row._replace(body=body, checksum=seal(crc32(body), (*place, *row[:-2]))),
        run.saver,
    )
    with refused(EncryptionError):
        run.saver.load(run.thread_id)
