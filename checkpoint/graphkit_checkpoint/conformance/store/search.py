"""Searching, filtering, listing."""

from __future__ import annotations

from typing import Any

from graphkit_checkpoint.conformance.capabilities import Capability
from graphkit_checkpoint.conformance.store.lab import StoreLab, keys
from graphkit_checkpoint.conformance.suite import Chapter
from graphkit_checkpoint.conformance.verdicts import equal, refused, that
from graphkit_checkpoint.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

search: Chapter[StoreLab] = Chapter(Capability.SEARCH)
filters: Chapter[StoreLab] = Chapter(Capability.FILTERS)
listing: Chapter[StoreLab] = Chapter(Capability.LISTING)
batches: Chapter[StoreLab] = Chapter(Capability.BATCHES)


# Searching


@search
def below(lab: StoreLab) -> None:
    """A search finds a namespace and all below it, and nothing whose label only begins alike."""
    stem = lab.label()
    for labels in (
        ("users",),
        ("users", "ada"),
        ("users", "ada", "notes"),
        ("users2",),
        ("user",),
        ("other",),
    ):
        lab.store.put((stem, *labels), "k", {"labels": list(labels)})
    found = {item.namespace[1:] for item in lab.other().search((stem, "users"))}
    equal(found, {("users",), ("users", "ada"), ("users", "ada", "notes")})
    equal(len(lab.store.search((stem,))), 6, "all")
    equal(lab.store.search((stem, "nobody")), [], "nothing")


@search
def everything(lab: StoreLab) -> None:
    """A search of no namespace finds all items."""
    one, other = lab.namespace(), lab.namespace("deep", "down")
    lab.store.put(one, "k", {})
    lab.store.put(other, "k", {})
    found = {item.namespace for item in lab.store.search((), limit=10_000)}
    that({one, other} <= found, f"found: {found}")


@search
def newest_first(lab: StoreLab) -> None:
    """What was updated last comes first."""
    namespace = lab.namespace()
    for key in ("a", "b", "c", "a"):
        lab.store.put(namespace, key, {})
        found = lab.store.search(namespace)
        times = [item.updated_at for item in found]
        equal(times, sorted(times, reverse=True), "times")


@search
def pages(lab: StoreLab) -> None:
    """Pages by `limit` and `offset` have every item once."""
    namespace = lab.namespace()
    for number in range(25):
        lab.store.put(namespace, f"{number:02}", {})
    whole = keys(lab.store.search(namespace, limit=100))
    paged = [keys(lab.store.search(namespace, limit=7, offset=offset)) for offset in range(0, 28, 7)]
    equal([key for page in paged for key in page], whole)
    equal(sorted(whole), [f"{number:02}" for number in range(25)])
    equal(len(lab.store.search(namespace)), 10, "the default limit")
    equal(lab.store.search(namespace, limit=0), [], "limit 0")
    equal(lab.store.search(namespace, offset=25), [], "beyond the end")


@search
def bad_pages(lab: StoreLab) -> None:
    """A limit or offset that is no whole number from 0 is a ValueError."""
    for bad in (-1, 1.5, "1", True):
        with refused(ValueError):
            lab.store.search(lab.namespace(), limit=bad)  # type: ignore[arg-type]
        with refused(ValueError):
            lab.store.search(lab.namespace(), offset=bad)  # type: ignore[arg-type]


# Filters


def found(lab: StoreLab, wanted: dict[str, Any], *values: dict[str, Any]) -> list[int]:
    """The positions of the values that the filter finds."""
    namespace = lab.namespace()
    for number, value in enumerate(values):
        lab.store.put(namespace, str(number), value)
    return sorted(int(key) for key in keys(lab.other().search(namespace, filter=wanted, limit=1000)))


@filters
def by_value(lab: StoreLab) -> None:
    """A filter finds the values whose fields are equal, all of them."""
    values: list[dict[str, Any]] = [{"a": 1, "b": 2}, {"a": 1}, {"a": 2, "b": 2}, {}]
    equal(found(lab, {"a": 1}, *values), [0, 1])
    equal(found(lab, {"a": 1, "b": 2}, *values), [0])
    equal(found(lab, {}, *values), [0, 1, 2, 3], "an empty filter")


@filters
def by_none(lab: StoreLab) -> None:
    """A missing field counts as None."""
    equal(found(lab, {"a": None}, {"a": None}, {}, {"a": 0}, {"a": ""}), [0, 1])


@filters
def no_patterns(lab: StoreLab) -> None:
    """Text in a filter is neither a part nor a pattern of what is found, and no number."""
    values = ({"a": "abc"}, {"a": "%"}, {"a": "ABC"}, {"a": 1}, {"a": "1"}, {"a": "a_c"})
    for wanted, positions in (("b", []), ("%", [1]), ("abc", [0]), (1, [3]), ("1", [4]), ("a_c", [5])):
        equal(found(lab, {"a": wanted}, *values), positions, f"filter {wanted!r}")


@filters
def comparisons(lab: StoreLab) -> None:
    """`$gt`, `$gte`, `$lt`, `$lte`, `$eq` and `$ne` compare numbers and text."""
    values = ({"n": 1}, {"n": 2}, {"n": 3.5}, {"n": 10})
    for wanted, positions in (
        ({"$gt": 2}, [2, 3]),
        ({"$gte": 2}, [1, 2, 3]),
        ({"$lt": 3}, [0, 1]),
        ({"$lte": 2}, [0, 1]),
        ({"$eq": 10}, [3]),
        ({"$ne": 1}, [1, 2, 3]),
        ({"$gt": 1, "$lt": 10}, [1, 2]),
    ):
        equal(found(lab, {"n": wanted}, *values), positions, f"{wanted}")
    equal(found(lab, {"t": {"$gt": "b"}}, {"t": "a"}, {"t": "c"}, {"t": "B"}), [1], "text")


@filters
def incomparable(lab: StoreLab) -> None:
    """What cannot be put in order does not match, and is no error."""
    equal(found(lab, {"n": {"$gt": 1}}, {"n": "text"}, {"n": None}, {}, {"n": [2]}, {"n": 2}), [4])


@filters
def nested_fields(lab: StoreLab) -> None:
    """A dict in a filter names fields of a dict, further ones do not matter; `$eq` compares it as a whole."""
    values = ({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, {"a": {"y": 2}}, {"a": 1}, {"a.x": 1})
    equal(found(lab, {"a": {"x": 1}}, *values), [0, 1])
    equal(found(lab, {"a": {"x": {"$lt": 5}, "y": 2}}, *values), [1])
    equal(found(lab, {"a": {"$eq": {"x": 1}}}, *values), [0])
    equal(found(lab, {"a.x": 1}, *values), [4], "a field with a dot")


@filters
def lists(lab: StoreLab) -> None:
    """A list in a filter is equal item by item, and as long."""
    equal(found(lab, {"a": [1, 2]}, {"a": [1, 2]}, {"a": [1]}, {"a": [2, 1]}, {"a": [1, 2, 3]}), [0])


@filters
def hostile_fields(lab: StoreLab) -> None:
    """A field's name is only a name, whatever it looks like."""
    fields = ("a.b", "a[0]", "' OR 1=1 --", '"', "%", "*", "", "日本", "a\0b", "\ud800", "a$b")
    values: list[dict[str, Any]] = [{"a": {"b": 1}}, *({field: 1} for field in fields)]
    for index, field in enumerate(fields):
        equal(found(lab, {field: 1}, *values), [index + 1], f"field {field!r}")


@filters
def hostile_values(lab: StoreLab) -> None:
    """A value in a filter is compared, whatever it holds."""
    values = ("' OR ''='", "\0", "\ud800", "\\", ":x", "%s", "?", 2**70, float("inf"), b"\xff", "")
    for index, value in enumerate(values):
        equal(found(lab, {"a": value}, *({"a": each} for each in values)), [index], f"value {value!r}")


@filters
def unknown_operator(lab: StoreLab) -> None:
    """An operator that there is not is a ValueError, whatever is stored."""
    for wanted in ({"a": {"$in": [1]}}, {"a": {"$gt": 1, "x": 2}}, {"a": {"b": {"$like": "x"}}}):
        with refused(ValueError):
            lab.store.search(lab.namespace(), filter=wanted)


@filters
def filtered_pages(lab: StoreLab) -> None:
    """With a filter, `limit` and `offset` count what is found."""
    namespace = lab.namespace()
    for number in range(20):
        lab.store.put(namespace, f"{number:02}", {"odd": number % 2})
    whole = keys(lab.store.search(namespace, filter={"odd": 1}, limit=100))
    equal(len(whole), 10, "found")
    equal(keys(lab.store.search(namespace, filter={"odd": 1}, limit=3, offset=4)), whole[4:7])


@filters
def by_meaning(lab: StoreLab) -> None:
    """A search by meaning is refused where there is no index for it, not answered with anything."""
    with refused(ValueError):
        lab.store.search(lab.namespace(), query="what was it about?")


# Listing namespaces


def listed(lab: StoreLab, stem: str, **options: Any) -> list[tuple[str, ...]]:
    prefix = (stem, *options.pop("prefix", ()))
    return [labels[1:] for labels in lab.other().list_namespaces(prefix=prefix, **options)]


def settled(lab: StoreLab) -> str:
    """The label above some namespaces."""
    stem = lab.label()
    for labels in (("b",), ("a", "x"), ("a", "y", "z"), ("a", "x", "z"), ("c", "z")):
        lab.store.put((stem, *labels), "k", {})
        lab.store.put((stem, *labels), "l", {})
    return stem


@listing
def all_in_order(lab: StoreLab) -> None:
    """Every namespace that holds items is listed once, in order; those above it are not."""
    expected = [("a", "x"), ("a", "x", "z"), ("a", "y", "z"), ("b",), ("c", "z")]
    equal(listed(lab, settled(lab)), expected)


@listing
def by_prefix_and_suffix(lab: StoreLab) -> None:
    """Namespaces are listed by their first and last labels."""
    stem = settled(lab)
    equal(listed(lab, stem, prefix=("a",)), [("a", "x"), ("a", "x", "z"), ("a", "y", "z")])
    equal(listed(lab, stem, suffix=("z",)), [("a", "x", "z"), ("a", "y", "z"), ("c", "z")])
    equal(listed(lab, stem, prefix=("a",), suffix=("y", "z")), [("a", "y", "z")])


@listing
def any_label(lab: StoreLab) -> None:
    """A star stands for any one label."""
    stem = settled(lab)
    equal(listed(lab, stem, prefix=("*", "x")), [("a", "x"), ("a", "x", "z")])
    equal(listed(lab, stem, suffix=("*", "z")), [("a", "x", "z"), ("a", "y", "z"), ("c", "z")])


@listing
def cut_off(lab: StoreLab) -> None:
    """`max_depth` cuts off what is deeper, and lists each once."""
    stem = settled(lab)
    equal(listed(lab, stem, max_depth=2), [("a",), ("b",), ("c",)])
    equal(listed(lab, stem, max_depth=3), [("a", "x"), ("a", "y"), ("b",), ("c", "z")])


@listing
def pages_of_namespaces(lab: StoreLab) -> None:
    """Pages by `limit` and `offset` have every namespace once."""
    stem = settled(lab)
    whole = listed(lab, stem)
    equal(
        [*listed(lab, stem, limit=2), *listed(lab, stem, limit=2, offset=2), *listed(lab, stem, offset=4)],
        whole,
    )


@listing
def emptied(lab: StoreLab) -> None:
    """A namespace is listed as long as it holds an item."""
    stem = settled(lab)
    lab.store.delete((stem, "b"), "k")
    that(("b",) in listed(lab, stem), "it is gone with its first item")
    lab.store.delete((stem, "b"), "l")
    that(("b",) not in listed(lab, stem), "it is there without any item")


@listing
def bad_listing(lab: StoreLab) -> None:
    """A depth below 1 or a negative page is a ValueError."""
    for options in ({"max_depth": 0}, {"limit": -1}, {"offset": -1}, {"max_depth": True}):
        with refused(ValueError):
            lab.store.list_namespaces(**options)


# Batches


@batches
def answers_in_order(lab: StoreLab) -> None:
    """The answers of a batch are in the order of its operations."""
    namespace = lab.namespace()
    lab.store.put(namespace, "k", {"x": 1})
    answers: list[Any] = lab.other().batch(
        [
            GetOp(namespace, "k"),
            PutOp(namespace, "l", {"x": 2}),
            SearchOp(namespace),
            GetOp(namespace, "none"),
            ListNamespacesOp((MatchCondition("prefix", namespace),)),
        ]
    )
    equal(answers[0].value, {"x": 1}, "the first")
    equal((answers[1], keys(answers[2]), answers[3], answers[4]), (None, ["k"], None, [namespace]))


@batches
def reads_before_writes(lab: StoreLab) -> None:
    """The reads of a batch see what was there before its writes."""
    namespace = lab.namespace()
    answers = lab.store.batch([PutOp(namespace, "k", {"x": 1}), GetOp(namespace, "k"), SearchOp(namespace)])
    equal(answers, [None, None, []])
    answers = lab.store.batch([PutOp(namespace, "k", None), GetOp(namespace, "k")])
    that(answers[1] is not None, "the read has seen the deletion")
    equal(lab.store.get(namespace, "k"), None)


@batches
def last_write_counts(lab: StoreLab) -> None:
    """Of several writes to one key the last counts."""
    namespace = lab.namespace()
    lab.store.batch(
        [PutOp(namespace, "k", {"x": 1}), PutOp(namespace, "k", None), PutOp(namespace, "k", {"x": 2})]
    )
    lab.store.batch([PutOp(namespace, "l", {"x": 1}), PutOp(namespace, "l", None)])
    equal([(item.key, item.value) for item in lab.other().search(namespace)], [("k", {"x": 2})])


@batches
def whole_or_not_at_all(lab: StoreLab) -> None:
    """A batch with an operation that is refused does nothing."""
    namespace = lab.namespace()
    bad: list[Any] = [
        PutOp(namespace, "", {}),
        PutOp(namespace, "b", {"x": object()}),
        SearchOp(namespace, limit=-1),
    ]
    for operation in bad:
        with refused(Exception):
            lab.store.batch([PutOp(namespace, "a", {}), operation])
    equal(lab.store.search(namespace), [])


@batches
def large_batch(lab: StoreLab) -> None:
    """A batch may have thousands of operations, and be empty."""
    namespace = lab.namespace()
    equal(lab.store.batch([]), [])
    lab.store.batch([PutOp(namespace, str(number), {"n": number}) for number in range(3000)])
    answers: list[Any] = lab.other().batch([GetOp(namespace, str(number)) for number in range(3000)])
    equal([answer.value["n"] for answer in answers], list(range(3000)))
