"""Items: put, got, replaced, deleted, under names of every kind."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.samples import LOOKALIKES, VALUES
from graphkit_checkpoint.conformance.store.lab import StoreLab, keys
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, refused, that
from graphkit_checkpoint.errors import UnserializableStateError
from graphkit_checkpoint.store.base import BaseStore, InvalidNamespaceError, Item

items: Chapter[StoreLab] = Chapter(Capability.ITEMS)
values: Chapter[StoreLab] = Chapter(Capability.VALUES)
names: Chapter[StoreLab] = Chapter(Capability.NAMES)


def got(store: BaseStore, namespace: tuple[str, ...], key: str) -> Item:
    found = store.get(namespace, key)
    if found is None:
        raise LookupError(f"item {key!r} of namespace {namespace!r} is gone")
    return found


@items
def put_and_get(lab: StoreLab) -> None:
    """An item that was put is got, with its names and times."""
    namespace = lab.namespace("users")
    lab.store.put(namespace, "k", {"x": 1})
    found = got(lab.other(), namespace, "k")
    equal((found.namespace, found.key, found.value), (namespace, "k", {"x": 1}))
    equal((found.created_at.utcoffset(), found.created_at), (timedelta(0), found.updated_at), "times")


@items
def nothing_there(lab: StoreLab) -> None:
    """A missing item is None, and looking for it makes none."""
    namespace = lab.namespace()
    equal(lab.store.get(namespace, "k"), None)
    lab.store.put(namespace, "k", {})
    equal(lab.store.get((*namespace, "below"), "k"), None, "in a namespace below")
    equal(lab.store.get(namespace, "K"), None, "in another case")
    equal(keys(lab.store.search(namespace)), ["k"])


@items
def replaced(lab: StoreLab) -> None:
    """A value that is put again replaces the old one as a whole; the item keeps the time of its making."""
    namespace = lab.namespace()
    lab.store.put(namespace, "k", {"x": 1, "old": True})
    first = got(lab.store, namespace, "k")
    lab.store.put(namespace, "k", {"x": 2})
    second = got(lab.other(), namespace, "k")
    equal(second.value, {"x": 2}, "value")
    equal(second.created_at, first.created_at, "created_at")
    that(second.updated_at >= first.updated_at, "updated_at went back")
    equal(len(lab.store.search(namespace)), 1, "items")


@items
def deleted(lab: StoreLab) -> None:
    """A deleted item is gone, the others stay, and deleting it again is no error."""
    namespace = lab.namespace()
    for key in ("k", "k%", "kk"):
        lab.store.put(namespace, key, {"key": key})
    lab.store.put((*namespace, "below"), "k%", {})
    lab.store.delete(namespace, "k%")
    lab.store.delete(namespace, "k%")
    equal(lab.other().get(namespace, "k%"), None)
    equal(sorted(keys(lab.store.search(namespace))), ["k", "k%", "kk"])


@items
def made_anew(lab: StoreLab) -> None:
    """An item that is put after it was deleted is a new one."""
    namespace = lab.namespace()
    lab.store.put(namespace, "k", {"x": 1})
    first = got(lab.store, namespace, "k")
    lab.store.delete(namespace, "k")
    lab.store.put(namespace, "k", {"y": 2})
    second = got(lab.store, namespace, "k")
    equal(second.value, {"y": 2}, "value")
    that(second.created_at >= first.updated_at, "it is as old as the deleted one")


@items
def values_are_copies(lab: StoreLab) -> None:
    """What is done to a value that was put or got changes nothing that is stored."""
    namespace = lab.namespace()
    value = {"list": [1]}
    lab.store.put(namespace, "k", value)
    value["list"].append(2)
    got(lab.store, namespace, "k").value["list"].append(3)
    lab.store.search(namespace)[0].value["list"].append(4)
    equal(got(lab.store, namespace, "k").value, {"list": [1]})


@items
def none_is_no_value(lab: StoreLab) -> None:
    """None cannot be put, and neither can what is no dict with text for keys."""
    namespace = lab.namespace()
    for bad in (None, 1, "text", [("a", 1)], {1: "a"}):
        with refused(TypeError):
            lab.store.put(namespace, "k", bad)  # type: ignore[arg-type]
    equal(lab.store.get(namespace, "k"), None)


@items
def unstorable(lab: StoreLab) -> None:
    """A value that would not come back exactly is refused, and the old one stays."""
    namespace = lab.namespace()
    lab.store.put(namespace, "k", {"x": 1})
    with refused(UnserializableStateError):
        lab.store.put(namespace, "k", {"x": object()})
    equal(got(lab.store, namespace, "k").value, {"x": 1})


@items
def large(lab: StoreLab) -> None:
    """A value of a megabyte comes back."""
    namespace, value = lab.namespace(), {"text": "é" * 250_000, "bytes": bytes(500_000)}
    lab.store.put(namespace, "k", value)
    equal(got(lab.other(), namespace, "k").value == value, True, "equal")


@values.each(VALUES)
def value(lab: StoreLab, samples: list[Any]) -> None:
    """Exact in value and type: {case}."""
    namespace = lab.namespace()
    lab.store.put(namespace, "k", {"samples": samples})
    equal(got(lab.other(), namespace, "k").value, {"samples": samples}, "got")
    equal(lab.other().search(namespace)[0].value, {"samples": samples}, "found")


@names
def alike(lab: StoreLab) -> None:
    """Keys and labels that look alike are different."""
    stem = lab.label()
    for name in LOOKALIKES:
        lab.store.put((stem, name), "k", {"label": name})
        lab.store.put((stem,), name, {"key": name})
    for name in LOOKALIKES:
        equal(got(lab.store, (stem, name), "k").value, {"label": name}, f"label {name!r}")
        equal(got(lab.store, (stem,), name).value, {"key": name}, f"key {name!r}")
        equal(len(lab.store.search((stem, name))), 1, f"items below {name!r}")


@names
def hostile(lab: StoreLab) -> None:
    """Any text is a key, and any without a dot a label."""
    stem = lab.label()
    for name in ("'; --", '"', "%", "_", "\\", "a/b", "a|b", "*", " ", "\n", "日本", "😀", "$ne", "x" * 300):
        lab.store.put((stem, name), name, {"name": name})
        found = got(lab.other(), (stem, name), name)
        equal((found.namespace, found.key, found.value), ((stem, name), name, {"name": name}))
    lab.store.put((stem,), "a.b", {"dot": True})
    equal(got(lab.store, (stem,), "a.b").value, {"dot": True}, "a key with a dot")


@names
def labels_are_not_joined(lab: StoreLab) -> None:
    """Namespaces are told apart by their labels, not by all their text."""
    stem = lab.label()
    namespaces = [(stem, "ab"), (stem, "a", "b"), (stem, "a"), (stem, "a", "b", "c"), (stem, "a", "bc")]
    for namespace in namespaces:
        lab.store.put(namespace, "k", {"labels": list(namespace)})
    for namespace in namespaces:
        equal(got(lab.store, namespace, "k").value, {"labels": list(namespace)})


@names
def uuids(lab: StoreLab) -> None:
    """A uuid is a key by its canonical text."""
    namespace, key = lab.namespace(), uuid.uuid4()
    lab.store.put(namespace, key, {"x": 1})  # type: ignore[arg-type]
    equal(got(lab.store, namespace, str(key)).value, {"x": 1})


BAD_NAMESPACES: Mapping[str, Any] = {
    "empty": (),
    "with an empty label": ("a", ""),
    "with a dot in a label": ("a.b",),
    "with a NUL in a label": ("a\0",),
    "with a lone surrogate in a label": ("\ud800",),
    "with a label that is no text": ("a", 1),
    "reserved": ("langgraph", "x"),
    "a text": "users",
    "too long": ("x" * 2000,),
}


@names.each(BAD_NAMESPACES)
def bad_namespace(lab: StoreLab, namespace: Any) -> None:
    """A namespace that is {case} is refused."""
    with refused(InvalidNamespaceError):
        lab.store.put(namespace, "k", {})
    equal([item for item in lab.store.search(()) if item.namespace == namespace], [])


BAD_KEYS: Mapping[str, Any] = {
    "empty": "",
    "no text": 1,
    "None": None,
    "a text with NUL": "a\0",
    "a text with a lone surrogate": "\ud800",
    "too long": "x" * 2000,
}


@names.each(BAD_KEYS)
def bad_key(lab: StoreLab, key: Any) -> None:
    """A key that is {case} is refused."""
    namespace = lab.namespace()
    with refused(ValueError):
        lab.store.put(namespace, key, {})
    equal(lab.store.search(namespace), [])
