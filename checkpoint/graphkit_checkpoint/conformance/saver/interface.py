"""LangGraph's saver interface: `put`, `put_writes`, `get_tuple`, `list` and their async forms."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from graphkit_checkpoint.base import BaseCheckpointSaver
from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.lab import SaverLab, check_gone
from graphkit_checkpoint.conformance.samples import BAD_THREAD_IDS, VALUES
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, refused, that
from graphkit_checkpoint.errors import ConcurrentUpdateError, InvalidThreadIdError, UnserializableStateError

chapter: Chapter[SaverLab] = Chapter(Capability.INTERFACE)

Config = Mapping[str, Any]


def at(thread_id: Any, checkpoint_id: str | None = None, namespace: str = "") -> dict[str, Any]:
    """A config as users of LangGraph write it."""
    place = {"thread_id": thread_id, "checkpoint_ns": namespace}
    return {"configurable": {**place, "checkpoint_id": checkpoint_id} if checkpoint_id else place}


def checkpoint(checkpoint_id: str, **values: Any) -> Any:
    """A checkpoint as LangGraph makes it."""
    return {
        "v": 1,
        "id": checkpoint_id,
        "ts": "2024-07-31T20:14:19.804150+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, 1),
        "versions_seen": {"": {}, "node": {"start": 1}},
        "updated_channels": None,
    }


class Author:
    """Puts checkpoints into one namespace of a thread, each the child of the one before."""

    def __init__(self, saver: BaseCheckpointSaver, thread_id: str, namespace: str = "") -> None:
        self.saver = saver
        self.thread_id = thread_id
        self.namespace = namespace
        self.config: dict[str, Any] = at(thread_id, None, namespace)
        self.count = 0

    def put(self, metadata: Any = None, **values: Any) -> str:
        """Returns the id."""
        self.count += 1
        made = checkpoint(f"{self.count:08}", **values)
        made["channel_versions"] = dict.fromkeys(values, self.count)
        versions = made["channel_versions"]
        described: Any = {"source": "loop", "step": self.count, "parents": {}, **(metadata or {})}
        self.config = self.saver.put(self.config, made, described, versions)
        return str(made["id"])

    def tuple(self, checkpoint_id: str | None = None) -> Any:
        found = self.saver.get_tuple(at(self.thread_id, checkpoint_id, self.namespace))
        if found is None:
            raise LookupError(
                f"checkpoint {checkpoint_id or '(latest)'} of thread {self.thread_id!r} is gone"
            )
        return found


def author(lab: SaverLab) -> Author:
    return Author(lab.saver, lab.thread_id())


def ids(found: Any) -> list[str]:
    return [item.checkpoint["id"] for item in found]


@chapter
def put_and_get(lab: SaverLab) -> None:
    """A checkpoint that was put is got as it was: values, versions, everything."""
    made = checkpoint("1", text="t", log=[1, 2], map={"a": 1}, nothing=None)
    thread_id = lab.thread_id()
    lab.saver.put(
        at(thread_id), made, {"source": "input", "step": -1, "parents": {}}, made["channel_versions"]
    )
    found = lab.other().get_tuple(at(thread_id))
    that(found is not None, "it was not found")
    if found is not None:
        equal(dict(sorted(found.checkpoint.items())), dict(sorted(made.items())), "checkpoint")


@chapter
def returned_config(lab: SaverLab) -> None:
    """`put` returns the config of what was put, by which it is got."""
    writer = author(lab)
    writer.put(k=1)
    equal(writer.config["configurable"], at(writer.thread_id, "00000001")["configurable"])
    found = lab.saver.get_tuple(writer.config)
    equal(found and found.checkpoint["channel_values"], {"k": 1}, "values")
    equal(found and dict(found.config["configurable"]), dict(writer.config["configurable"]), "config")


@chapter
def latest(lab: SaverLab) -> None:
    """Without a checkpoint id the latest is got, with one that very checkpoint."""
    writer = author(lab)
    for number in range(4):
        writer.put(n=number)
    equal(writer.tuple().checkpoint["channel_values"], {"n": 3})
    for number in range(4):
        equal(writer.tuple(f"{number + 1:08}").checkpoint["channel_values"], {"n": number})


@chapter
def nothing_there(lab: SaverLab) -> None:
    """Of an unknown thread, checkpoint or namespace nothing is got, nothing listed, and nothing made."""
    writer = author(lab)
    writer.put(k=1)
    unknown = lab.thread_id()
    for config in (at(unknown), at(unknown, "1"), at(writer.thread_id, "9"), at(writer.thread_id, None, "x")):
        equal(lab.saver.get_tuple(config), None, f"get_tuple({config})")
        equal(lab.saver.get(config), None, f"get({config})")
        equal(list(lab.saver.list(config)), [], f"list({config})")
    check_gone(lab.saver, unknown)


@chapter
def parents(lab: SaverLab) -> None:
    """The parent is the checkpoint that the config of `put` named; the first one has none."""
    writer = author(lab)
    first = writer.put(k=1)
    second = writer.put(k=2)
    equal(writer.tuple(first).parent_config, None, "parent of the first")
    parent = writer.tuple(second).parent_config
    equal(dict(parent["configurable"]), at(writer.thread_id, first)["configurable"], "parent of the second")


@chapter
def unchanged_channels(lab: SaverLab) -> None:
    """Values of channels that have no new version are those of before."""
    thread_id = lab.thread_id()
    first = checkpoint("1", kept={"deep": [1, (2,)]}, changed=1)
    config = lab.saver.put(at(thread_id), first, {}, first["channel_versions"])
    second = checkpoint("2", kept={"deep": [1, (2,)]}, changed=2)
    second["channel_versions"] = {"kept": 1, "changed": 2}
    lab.saver.put(config, second, {}, {"changed": 2})
    for checkpoint_id, changed in (("1", 1), ("2", 2)):
        found = lab.other().get(at(thread_id, checkpoint_id))
        equal(found and found["channel_values"], {"kept": {"deep": [1, (2,)]}, "changed": changed})


@chapter
def removed_channels(lab: SaverLab) -> None:
    """A channel that is no longer among the versions has no value from there on."""
    writer = author(lab)
    first = writer.put(a=1, b=2)
    second = writer.put(a=1)
    equal(writer.tuple(first).checkpoint["channel_values"], {"a": 1, "b": 2})
    equal(writer.tuple(second).checkpoint["channel_values"], {"a": 1})


@chapter
def values(lab: SaverLab) -> None:
    """Values and writes come back exact in type."""
    writer = author(lab)
    for name, samples in VALUES.items():
        writer.put(sample=samples)
        lab.saver.put_writes(writer.config, [("sample", samples)], "task")
        found = writer.tuple()
        equal(found.checkpoint["channel_values"], {"sample": samples}, name)
        equal([tuple(write) for write in found.pending_writes], [("task", "sample", samples)], name)


@chapter
def metadata(lab: SaverLab) -> None:
    """Metadata comes back as it was given."""
    writer = author(lab)
    described = {"source": "update", "step": 7, "parents": {"a": "b"}, "writes": {"n": (1,)}, "user": "ada"}
    writer.put(described, k=1)
    equal(dict(sorted(writer.tuple().metadata.items())), dict(sorted(described.items())))


@chapter
def writes(lab: SaverLab) -> None:
    """Writes are got with their checkpoint, by task and in their order."""
    writer = author(lab)
    first = writer.put(k=1)
    lab.saver.put_writes(writer.config, [("a", 1), ("b", [2])], "task-1")
    lab.saver.put_writes(writer.config, [("a", None)], "task-2")
    writer.put(k=2)
    expected = [("task-1", "a", 1), ("task-1", "b", [2]), ("task-2", "a", None)]
    equal([tuple(write) for write in writer.tuple(first).pending_writes], expected)
    equal(list(writer.tuple().pending_writes or []), [], "writes of the next checkpoint")


@chapter
def writes_again(lab: SaverLab) -> None:
    """Writes that are put again are there once; special ones are replaced."""
    writer = author(lab)
    writer.put(k=1)
    for value in ("first", "second"):
        lab.saver.put_writes(writer.config, [("a", value), ("b", value)], "task")
        lab.saver.put_writes(writer.config, [("__error__", value)], "other")
    found = sorted(tuple(write) for write in writer.tuple().pending_writes)
    equal(found, [("other", "__error__", "second"), ("task", "a", "first"), ("task", "b", "first")])


@chapter
def listing(lab: SaverLab) -> None:
    """`list` gives the checkpoints of a thread, newest first, each complete."""
    writer = author(lab)
    for number in range(35):
        writer.put(n=number)
    found = list(lab.saver.list(at(writer.thread_id)))
    equal(ids(found), [f"{number:08}" for number in range(35, 0, -1)])
    equal([item.checkpoint["channel_values"]["n"] for item in found], list(range(34, -1, -1)))


@chapter
def listing_part(lab: SaverLab) -> None:
    """`list` may be limited in number and to checkpoints before another one."""
    writer = author(lab)
    for number in range(6):
        writer.put(n=number)
    config = at(writer.thread_id)
    equal(ids(lab.saver.list(config, limit=2)), ["00000006", "00000005"])
    equal(ids(lab.saver.list(config, limit=0)), [])
    before = at(writer.thread_id, "00000003")
    equal(ids(lab.saver.list(config, before=before)), ["00000002", "00000001"])
    equal(ids(lab.saver.list(config, before=before, limit=1)), ["00000002"])


@chapter
def listing_by_metadata(lab: SaverLab) -> None:
    """`list` finds by metadata: all items of the filter, equal as a whole."""
    writer = author(lab)
    writer.put({"user": "ada", "score": 1}, n=1)
    writer.put({"user": "bob", "score": 1}, n=2)
    writer.put({"user": "ada", "score": None, "a.b": "%"}, n=3)
    config = at(writer.thread_id)
    for wanted, found in (
        ({"user": "ada"}, [3, 1]),
        ({"user": "ada", "score": 1}, [1]),
        ({"user": "a"}, []),
        ({"user": "%"}, []),
        ({"a.b": "%"}, [3]),
        ({"score": None}, [3]),
        ({"step": 2}, [2]),
        ({"missing": 1}, []),
        ({}, [3, 2, 1]),
    ):
        listed = [int(name) for name in ids(lab.saver.list(config, filter=wanted))]
        equal(listed, found, f"filter {wanted}")


@chapter
def listing_everything(lab: SaverLab) -> None:
    """`list` without a config looks at all threads."""
    one, other, name = author(lab), author(lab), lab.name()
    one.put({"mark": name}, n=1)
    other.put({"mark": name}, n=2)
    found = {item.config["configurable"]["thread_id"] for item in lab.saver.list(None, filter={"mark": name})}
    equal(found, {one.thread_id, other.thread_id})


@chapter
def nested(lab: SaverLab) -> None:
    """Namespaces of one thread have checkpoints of their own; without a namespace all are listed."""
    root = author(lab)
    inner = Author(lab.saver, root.thread_id, "child:1")
    root.put(k="root")
    inner.put(k="inner")
    inner.put(k="inner again")
    equal(root.tuple().checkpoint["channel_values"], {"k": "root"})
    equal(inner.tuple().checkpoint["channel_values"], {"k": "inner again"})
    equal(ids(lab.saver.list(at(root.thread_id))), ["00000001"])
    equal(len(list(lab.saver.list({"configurable": {"thread_id": root.thread_id}}))), 3, "all namespaces")


@chapter
def threads(lab: SaverLab) -> None:
    """Deleting, copying and pruning know what was put."""
    writer, target = author(lab), lab.thread_id()
    for number in range(3):
        writer.put(n=number)
    lab.saver.put_writes(writer.config, [("a", 1)], "task")
    lab.saver.copy_thread(writer.thread_id, target)
    copied = list(lab.saver.list(at(target)))
    equal(ids(copied), ["00000003", "00000002", "00000001"], "the copy")
    equal(
        [tuple(write) for write in copied[0].pending_writes or []], [("task", "a", 1)], "writes of the copy"
    )
    lab.saver.prune([target], strategy="keep_latest")
    equal(ids(lab.saver.list(at(target))), ["00000003"], "the pruned copy")
    lab.saver.delete_thread(writer.thread_id)
    equal(lab.saver.get_tuple(at(writer.thread_id)), None, "the deleted thread")


@chapter
def runs(lab: SaverLab) -> None:
    """`delete_for_runs` knows the run of what was put."""
    writer, name = author(lab), lab.name()
    writer.put(n=0)
    writer.put({"run_id": name}, n=1)
    lab.saver.delete_for_runs([name])
    equal(ids(lab.saver.list(at(writer.thread_id))), ["00000001"])


@chapter
def versions(lab: SaverLab) -> None:
    """`get_next_version` gives a larger version each time."""
    version: Any = None
    seen = []
    for _ in range(200):
        version = lab.saver.get_next_version(version, None)
        seen.append(version)
    equal(seen, sorted(set(seen)))


@chapter
def refused_while_owned(lab: SaverLab) -> None:
    """Nothing can be put into a thread that a run owns; it can be looked at."""
    run = lab.run()
    run.step({"k": 1})
    made = checkpoint("9", k=2)
    with refused(ConcurrentUpdateError, run.thread_id):
        lab.saver.put(at(run.thread_id), made, {}, made["channel_versions"])
    with refused(ConcurrentUpdateError, run.thread_id):
        lab.saver.put_writes(at(run.thread_id, run.last), [("k", 2)], "task")
    found = lab.saver.get_tuple(at(run.thread_id))
    equal(found and found.checkpoint["channel_values"], {"k": 1})


@chapter
def what_runs_have_written(lab: SaverLab) -> None:
    """What a run has written is got and listed as well."""
    run = lab.finished(4)
    order = sorted(run.seen, reverse=True)
    equal(ids(lab.saver.list(at(run.thread_id))), order)
    for checkpoint_id in order:
        found = lab.saver.get_tuple(at(run.thread_id, checkpoint_id))
        values = found.checkpoint["channel_values"] if found else {}
        equal(dict(sorted(values.items())), dict(sorted(run.seen[checkpoint_id].items())))
        equal(found and found.metadata.get("source"), "loop", "source")


@chapter
def unstorable(lab: SaverLab) -> None:
    """A value that cannot be stored is refused, and makes no thread."""
    made = checkpoint("1", k=object())
    thread_id = lab.thread_id()
    with refused(UnserializableStateError):
        lab.saver.put(at(thread_id), made, {}, made["channel_versions"])
    check_gone(lab.saver, thread_id)


@chapter.each(BAD_THREAD_IDS)
def bad_thread_id(lab: SaverLab, thread_id: Any) -> None:
    """A config whose thread id is {case} is refused for reading and for writing."""
    made = checkpoint("1", k=1)
    with refused(InvalidThreadIdError):
        lab.saver.put(at(thread_id), made, {}, made["channel_versions"])
    with refused(InvalidThreadIdError):
        lab.saver.get_tuple(at(thread_id))
    with refused(InvalidThreadIdError):
        list(lab.saver.list(at(thread_id)))


@chapter
def async_forms(lab: SaverLab) -> None:
    """The async forms do the same as the sync ones."""
    thread_id = lab.thread_id()

    async def work() -> None:
        saver = lab.saver
        config: Any = at(thread_id)
        for number in range(1, 4):
            made = checkpoint(str(number), n=number)
            made["channel_versions"] = {"n": number}
            config = await saver.aput(config, made, {"step": number}, {"n": number})
            await saver.aput_writes(config, [("a", number)], "task")
        found = await saver.aget_tuple(at(thread_id))
        equal(found and found.checkpoint["channel_values"], {"n": 3}, "aget_tuple()")
        equal([tuple(w) for w in (found and found.pending_writes) or []], [("task", "a", 3)], "writes")
        first = await saver.aget(at(thread_id, "1"))
        equal(first and first["channel_values"], {"n": 1}, "aget()")
        equal(
            [item.checkpoint["id"] async for item in saver.alist(at(thread_id))], ["3", "2", "1"], "alist()"
        )
        options: dict[str, Any] = {"limit": 1, "filter": {"step": 2}}
        equal([item.checkpoint["id"] async for item in saver.alist(at(thread_id), **options)], ["2"])

    asyncio.run(work())
    equal(ids(lab.saver.list(at(thread_id))), ["3", "2", "1"])
