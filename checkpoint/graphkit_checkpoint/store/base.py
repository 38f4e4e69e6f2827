"""The store contract: operations, what they answer, and which names are allowed.

A store keeps dicts by (namespace, key). A namespace is a tuple of labels, such as `("users", "ada")`; a
search looks at one namespace and all below it. Every call is a batch of operations: a store implements
`batch` and `abatch`, the calls with names of their own make batches of one.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypedDict, cast

from graphkit_checkpoint.errors import GraphkitError
from graphkit_checkpoint.serde import register_type

__all__ = [
    "NOT_PROVIDED",
    "BaseStore",
    "GetOp",
    "IndexConfig",
    "InvalidNamespaceError",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "NamespaceMatchType",
    "NamespacePath",
    "NotProvided",
    "Op",
    "PutOp",
    "Result",
    "SearchItem",
    "SearchOp",
    "TTLConfig",
]

Namespace = tuple[str, ...]
NamespacePath = tuple[str, ...]
"""Labels, of which "*" stands for any one label."""
NamespaceMatchType = Literal["prefix", "suffix"]
Value = dict[str, Any]

MAX_BYTES: Final = 1024
"""The longest key, and the longest namespace (its labels together), in UTF-8.

PostgreSQL refuses an index entry of more than 2,700 bytes; the limit is the same on every store.
"""


class InvalidNamespaceError(GraphkitError, ValueError):
    """A namespace must be a tuple of 1 or more labels; a label a non-empty string without ".", NUL or lone
    surrogates; the first one must not be "langgraph"; together at most 1,023 bytes in UTF-8 with the dots
    between them."""


class NotProvided(enum.Enum):
    """The type of `NOT_PROVIDED`."""

    NOT_PROVIDED = "not provided"


NOT_PROVIDED: Final = NotProvided.NOT_PROVIDED
"""No `ttl` was given: the store's default holds. (None is a ttl: never.)"""


class TTLConfig(TypedDict, total=False):
    """How long items live.

    `default_ttl`: minutes, for a `put` without ttl (default: for ever). `refresh_on_read`: whether reading
    an item lets its time begin anew (default: True). `sweep_interval_minutes`: a write removes the expired
    items when this long has passed since the last time (default: only `sweep_ttl` does). `omit_expired`
    may only be True: no read ever shows an expired item, swept or not.
    """

    default_ttl: float | None
    refresh_on_read: bool
    sweep_interval_minutes: float | None
    omit_expired: bool


class IndexConfig(TypedDict, total=False):
    """What a store embeds values with, to search them by meaning.

    `embed` makes vectors of `dims` numbers: a function of a list of texts (blocking or async), LangChain's
    `Embeddings`, or "provider:model" with LangChain. `fields` of a value are embedded, each for itself: "text",
    "a.b", "a[0]", "notes[*].text"; by default "$", the whole of it.
    """

    dims: int
    embed: Any
    fields: list[str] | None


@dataclass(slots=True)
class Item:
    """What is stored under a key. The times are timezone-aware; `created_at` stays when a value is replaced."""

    namespace: Namespace
    key: str
    value: Value
    created_at: datetime
    updated_at: datetime

    def __hash__(self) -> int:
        return hash((self.namespace, self.key))

    def dict(self) -> Value:
        """The item as plain data, the times in ISO format."""
        return {
            "namespace": list(self.namespace),
            "key": self.key,
            "value": self.value,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }


@dataclass(slots=True)
class SearchItem(Item):
    """What a search found. `score` says how near it is to the query, from -1 to 1; None without one."""

    score: float | None = None

    __hash__ = Item.__hash__

    def dict(self) -> Value:
        """The item as plain data, the times in ISO format."""
        return {**Item.dict(self), "score": self.score}


register_type(Item)  # so that a node can put what it found into its graph's state
register_type(SearchItem)


class GetOp(NamedTuple):
    """Answer: the `Item`, or None."""

    namespace: Namespace
    key: str
    refresh_ttl: bool = True


class PutOp(NamedTuple):
    """Answer: None. Stores the value, or removes the item if `value` is None. `ttl` in minutes, None: for ever."""

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    index: Literal[False] | list[str] | None = None  # type: ignore[assignment]  # tuple has a method `index`
    ttl: float | None = None


class SearchOp(NamedTuple):
    """Answer: a list of `SearchItem`s at and below a namespace, the last updated first; with a `query` the nearest."""

    namespace_prefix: Namespace
    filter: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool = True


class MatchCondition(NamedTuple):
    """A namespace begins or ends with the labels of `path`, where "*" is any one label."""

    match_type: NamespaceMatchType
    path: NamespacePath


class ListNamespacesOp(NamedTuple):
    """Answer: the namespaces that hold items and meet all conditions, cut off below `max_depth`, in order."""

    match_conditions: tuple[MatchCondition, ...] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Op = GetOp | PutOp | SearchOp | ListNamespacesOp
Result = Item | list[Item] | list[SearchItem] | list[Namespace] | None


class BaseStore(ABC):
    """Values by (namespace, key), shared by all threads. One object serves sync and async callers."""

    supports_ttl: bool = False
    ttl_config: TTLConfig | None = None

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations at once; the answers are in their order.

        The reads see the store as it was before the writes of the same batch; of several writes to one key
        the last counts.
        """

    @abstractmethod
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch`, keeping no event loop waiting."""

    def get(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """The item, or None. `refresh_ttl` (default: the store's) lets its time begin anew."""
        return cast("Item | None", self._one(self._get_op(namespace, key, refresh_ttl)))

    async def aget(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """`get`, keeping no event loop waiting."""
        return cast("Item | None", await self._aone(self._get_op(namespace, key, refresh_ttl)))

    def search(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """The items at and below a namespace (`()`: all), the last updated first.

        `filter` maps fields of the value to what they must be: equal to a value, a dict of fields of their
        own, or a dict of operators `$eq $ne $gt $gte $lt $lte`. A field that is missing counts as None.
        With a `query` the items are those that the store's index has vectors of, the nearest first, and have a
        `score`. Raises `ValueError` for a query to a store without an index.
        """
        op = SearchOp(namespace_prefix, filter, limit, offset, query, self._refreshes(refresh_ttl))
        return cast("list[SearchItem]", self._one(op))

    async def asearch(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """`search`, keeping no event loop waiting."""
        op = SearchOp(namespace_prefix, filter, limit, offset, query, self._refreshes(refresh_ttl))
        return cast("list[SearchItem]", await self._aone(op))

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Store a value, in place of the one that may be there.

        `ttl` is in minutes from now, and from the last read if that refreshes it; None is for ever. `index` names
        the fields to search by meaning in, instead of those of the store's index; False is none. Raises
        `ValueError` for fields without an index, `UnserializableStateError` for a value that would not come back
        exactly.
        """
        self._one(self._put_op(namespace, key, value, index, ttl))

    async def aput(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """`put`, keeping no event loop waiting."""
        await self._aone(self._put_op(namespace, key, value, index, ttl))

    def delete(self, namespace: Namespace, key: str) -> None:
        """Remove an item; a missing one is no error."""
        self._one(PutOp(namespace, key, None))

    async def adelete(self, namespace: Namespace, key: str) -> None:
        """`delete`, keeping no event loop waiting."""
        await self._aone(PutOp(namespace, key, None))

    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """The namespaces that hold items, in order. "*" in `prefix` and `suffix` is any one label.

        Those deeper than `max_depth` are cut off there, and each is listed once.
        """
        op = ListNamespacesOp(_conditions(prefix, suffix), max_depth, limit, offset)
        return cast("list[Namespace]", self._one(op))

    async def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """`list_namespaces`, keeping no event loop waiting."""
        op = ListNamespacesOp(_conditions(prefix, suffix), max_depth, limit, offset)
        return cast("list[Namespace]", await self._aone(op))

    def _one(self, op: Op) -> Result:
        return self.batch([op])[0]

    async def _aone(self, op: Op) -> Result:
        return (await self.abatch([op]))[0]

    def _get_op(self, namespace: Namespace, key: str, refresh_ttl: bool | None) -> GetOp:
        return GetOp(namespace, key, self._refreshes(refresh_ttl))

    def _put_op(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None,
        ttl: float | NotProvided | None,
    ) -> PutOp:
        if value is None:
            raise TypeError("a value is a dict, not None; use delete() to remove an item")
        if isinstance(ttl, NotProvided):
            ttl = (self.ttl_config or {}).get("default_ttl")
        elif ttl is not None and not self.supports_ttl:
            raise NotImplementedError(f"{type(self).__name__} keeps items for ever; leave out ttl")
        return PutOp(namespace, key, value, index, ttl)

    def _refreshes(self, refresh_ttl: bool | None) -> bool:
        if refresh_ttl is not None:
            return refresh_ttl
        return (self.ttl_config or {}).get("refresh_on_read", True)


def _conditions(prefix: NamespacePath | None, suffix: NamespacePath | None) -> tuple[MatchCondition, ...]:
    found = []
    if prefix:
        found.append(MatchCondition("prefix", prefix))
    if suffix:
        found.append(MatchCondition("suffix", suffix))
    return tuple(found)


def check_namespace(namespace: object) -> Namespace:
    """The namespace of an item that is to be written, as a tuple. Raises `InvalidNamespaceError`."""
    labels = check_labels(namespace)
    if not labels:
        raise InvalidNamespaceError("a namespace is empty; use one or more labels, such as ('users', 'ada')")
    if labels[0] == "langgraph":
        raise InvalidNamespaceError(f"namespace {labels!r:.200} begins with 'langgraph', which is reserved")
    return labels


def check_labels(namespace: object) -> Namespace:
    """A namespace, or a part of one, as a tuple. Raises `InvalidNamespaceError`."""
    if isinstance(namespace, str) or not isinstance(namespace, Sequence):
        raise InvalidNamespaceError(
            f"a namespace is a tuple of strings, such as ('users', 'ada'), not {namespace!r:.200}"
        )
    for label in namespace:
        problem = _text_problem(label) or ("contains '.'" if "." in label else "")
        if problem:
            raise InvalidNamespaceError(f"label {label!r:.80} of namespace {namespace!r:.200} {problem}")
    size = sum(len(label.encode()) + 1 for label in namespace)
    if size > MAX_BYTES:
        raise InvalidNamespaceError(
            f"namespace {namespace!r:.200} … has {size} bytes; {MAX_BYTES} are allowed"
        )
    return tuple(str.__str__(label) for label in namespace)


def check_key(key: object) -> str:
    """The key as text; a UUID by its canonical form. Raises ValueError."""
    if not isinstance(key, str):
        from uuid import UUID

        if isinstance(key, UUID):
            return str(key)
    problem = _text_problem(key)
    if problem:
        raise ValueError(f"key {key!r:.80} {problem}; use a non-empty string")
    text = str.__str__(cast(str, key))
    size = len(text.encode())
    if size > MAX_BYTES:
        raise ValueError(f"key {key!r:.80} … has {size} bytes; {MAX_BYTES} are allowed")
    return text


def _text_problem(text: object) -> str:
    if not isinstance(text, str):
        return f"is a {type(text).__name__}"
    if not text:
        return "is empty"
    if "\0" in text:
        return "contains NUL"
    if any("\ud800" <= char <= "\udfff" for char in text):
        return "contains a lone surrogate"
    return ""
