"""Items as rows, and every operation on them; a store adds only where its rows are kept.

A row has the namespace as one string of bytes in which a dot ends every label: `b"users.ada."`. Since no
label has a dot, two namespaces never have the same bytes, and a namespace with all below it is the range
from `b"users."` to `b"users/"`, the slash being what follows the dot. Bytes, not text, because they are
ordered and compared alike by every database, whatever its encoding and collation.

Times and spans are whole microseconds. The checksum covers all other columns, so that a row whose time
has begun anew, or that was written again, has another one.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import operator
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar
from zlib import crc32

from graphkit_checkpoint.done import Done
from graphkit_checkpoint.errors import CheckpointCorruptError, UnserializableStateError
from graphkit_checkpoint.forks import survive_forks
from graphkit_checkpoint.serde import pack, unpack
from graphkit_checkpoint.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Namespace,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    Value,
    check_key,
    check_labels,
    check_namespace,
)
from graphkit_checkpoint.store.filters import check_filter, matches
from graphkit_checkpoint.store.index import Embedded, Index, nearness, numbers_of
from graphkit_checkpoint.worker import Worker

T = TypeVar("T")
ItemT = TypeVar("ItemT", bound=Item)
Mode = Literal["read", "write"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECONDS: Final = 1_000_000
MAX_MINUTES: Final = 1e10
"""Some 19,000 years: with it no time overflows the 64 bits of a column."""
SWEEP_MINUTES: Final = 5.0
"""How often a sweeper that was started without an interval is at work, as LangGraph's."""


class Place(NamedTuple):
    namespace: bytes
    key: bytes


class Row(NamedTuple):
    """One item as stored. `ttl` and `expires_at` are None for an item that lives for ever."""

    namespace: bytes
    key: bytes
    body: bytes
    created_at: int
    updated_at: int
    ttl: int | None
    expires_at: int | None
    checksum: int = 0

    @property
    def place(self) -> Place:
        return Place(self.namespace, self.key)


class Rows(ABC):
    """The rows as one transaction sees them. Nothing here shows a row that has expired at `now`."""

    @abstractmethod
    def find(self, namespace: bytes, keys: Sequence[bytes], now: int) -> Iterable[Row]:
        """The rows of this very namespace with these keys, those that there are, in any order."""

    @abstractmethod
    def below(self, start: bytes, now: int) -> Iterable[Row]:
        """The rows of the namespaces that begin with these labels, ordered by `newest_first`."""

    @abstractmethod
    def namespaces(self, start: bytes, now: int) -> Iterable[bytes]:
        """The namespaces that begin with these labels, each once."""

    @abstractmethod
    def put(self, rows: Sequence[Row]) -> None:
        """Write rows, in place of those at the same places."""

    @abstractmethod
    def drop(self, places: Sequence[Place]) -> None: ...

    @abstractmethod
    def exchange(self, pairs: Sequence[tuple[Row, Row]]) -> None:
        """For (old, new): write the new `expires_at` and checksum where the row still is the old one."""

    @abstractmethod
    def sweep(self, now: int) -> int:
        """Remove the rows that have expired; how many."""


def newest_first(row: Row) -> tuple[int, bytes, bytes]:
    """The order of search results; names decide between rows of one moment."""
    return -row.updated_at, row.namespace, row.key


def is_live(row: Row, now: int) -> bool:
    return row.expires_at is None or row.expires_at > now


def sealed(row: Row) -> Row:
    return row._replace(checksum=_checksum(row))


def _checksum(row: Row) -> int:
    return crc32(pack(list(row[:-1])))


def value_of(row: Row) -> Value:
    """The value. Raises `CheckpointCorruptError` naming the item."""
    return _contents_of(row)[0]


def _contents_of(row: Row) -> tuple[Value, Sequence[bytes]]:
    """The value and the vectors of its texts. Raises `CheckpointCorruptError` naming the item."""
    try:
        if row.checksum == _checksum(row):
            stored = unpack(row.body)
            value, vectors = (unpack(stored[0]), stored[1]) if isinstance(stored, tuple) else (stored, ())
            if isinstance(value, dict):
                return value, vectors
        reason = "it does not match its checksum"
    except CheckpointCorruptError as error:
        reason = str(error)
    raise CheckpointCorruptError(
        f"the stored item {row.key!r} of namespace {row.namespace!r} is damaged: {reason}; delete it or put "
        f"it again"
    )


def item_of(kind: type[ItemT], row: Row, value: Value) -> ItemT:
    return kind(
        namespace=labels_of(row.namespace),
        key=row.key.decode(),
        value=value,
        created_at=EPOCH + timedelta(microseconds=row.created_at),
        updated_at=EPOCH + timedelta(microseconds=row.updated_at),
    )


def path_of(labels: Iterable[str]) -> bytes:
    return b"".join(label.encode() + b"." for label in labels)


def labels_of(path: bytes) -> Namespace:
    try:
        *labels, rest = path.decode().split(".")
    except (UnicodeDecodeError, AttributeError):  # the latter: a damaged column may not even hold bytes
        labels, rest = [], "?"
    if rest or not labels:
        raise CheckpointCorruptError(f"the stored namespace {path!r} is damaged")
    return tuple(labels)


def end_of(path: bytes) -> bytes:
    """The first bytes after all namespaces that begin with these labels (which are at least one)."""
    return path[:-1] + b"/"


class Put(NamedTuple):
    """A checked `PutOp`. `body` is None for a removal; `ttl` in microseconds."""

    place: Place
    body: bytes | None
    ttl: int | None
    texts: Sequence[str] = ()
    """What of the value is to be embedded."""


class Plan(NamedTuple):
    """A checked batch: everything the caller can do wrong has been refused, and values have been read."""

    ops: Sequence[GetOp | SearchOp | ListNamespacesOp | None]
    """The reads at their positions in the batch."""
    puts: Mapping[Place, Put]
    """In the order of their places, so that two batches never wait for each other's rows."""
    vectors: Mapping[str, bytes] = {}
    """Of what searches ask."""

    @property
    def places(self) -> set[Place]:
        """What the batch names."""
        return {_place(op) for op in self.ops if isinstance(op, GetOp)}.union(self.puts)

    @property
    def texts(self) -> list[str]:
        """What is embedded of the values, each text once."""
        return [*dict.fromkeys(text for put in self.puts.values() for text in put.texts)]

    @property
    def queries(self) -> list[str]:
        """What searches ask by meaning, each once."""
        return [*dict.fromkeys(op.query for op in self.ops if isinstance(op, SearchOp) and op.query)]

    def with_vectors(self, found: Embedded) -> Plan:
        puts = {
            place: put._replace(body=pack((put.body, [found.texts[text] for text in put.texts])))
            if put.texts
            else put
            for place, put in self.puts.items()
        }
        return self._replace(puts=puts, vectors=found.queries)


class RowStore(BaseStore):
    """A store over rows. `clock` tells the time in unix seconds."""

    supports_ttl = True
    blocking = True
    """Whether an operation may wait for I/O: then async callers are served by a thread of the store's."""

    def __init__(
        self, *, index: IndexConfig | None, ttl: TTLConfig | None, clock: Callable[[], float]
    ) -> None:
        self._index = None if index is None else Index(index)
        self.ttl_config = _checked_config(ttl)
        self._clock = clock
        self._sweep_interval = (self.ttl_config or {}).get("sweep_interval_minutes")
        self._swept_at = -math.inf
        self.lock = threading.Lock()  # held by who uses the rows, where only one may at a time
        self._worker = Worker("graphkit-store")
        survive_forks(self)

    def __enter__(self) -> Self:
        try:
            self.setup()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        try:
            await self._off_loop(self.setup)
        except BaseException:
            await asyncio.to_thread(self.close)
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.close)

    @abstractmethod
    def _rows(self, mode: Mode) -> AbstractContextManager[Rows]:
        """One transaction: what is done with the rows inside of it happens as a whole, or not at all."""

    def setup(self) -> Awaitable[None]:
        """Make ready what the store needs. The first operation does that too; calling it again is harmless.

        It is done when this returns; that the result can be awaited is for async callers.
        """
        return Done()

    def close(self) -> None:
        """Release files, connections and threads. Using the store afterwards is an error."""
        self._worker.close()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        plan = _plan(ops, self._index)
        if self._index is not None:
            plan = plan.with_vectors(self._index.embedded(plan.texts, plan.queries))
        return self._carry_out(plan)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        plan = _plan(ops, self._index)
        if self._index is not None:
            plan = plan.with_vectors(await self._index.aembedded(plan.texts, plan.queries))
        return await self._off_loop(self._carry_out, plan)

    def sweep_ttl(self) -> int:
        """Remove the items that have expired; returns how many. No read shows them before either."""
        with self._rows("write") as rows:
            return rows.sweep(self._now())

    async def asweep_ttl(self) -> int:
        return await self._off_loop(self.sweep_ttl)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Awaitable[None]:
        """From now on a write removes the items that have expired, at most this often (default: as often as the
        store's `ttl` says, or every 5 minutes). LangGraph's name; there is no thread, and no read shows these items
        either way. Done when this returns, and may be awaited."""
        minutes = sweep_interval_minutes
        if minutes is None:
            minutes = (self.ttl_config or {}).get("sweep_interval_minutes") or SWEEP_MINUTES
        _microseconds(minutes)
        self._sweep_interval = minutes
        return Done()

    def stop_ttl_sweeper(self, timeout: float | None = None) -> Awaitable[None]:
        """From now on only `sweep_ttl` removes expired items. There is nothing to wait for."""
        self._sweep_interval = None
        return Done()

    def _carry_out(self, plan: Plan) -> list[Result]:
        read: list[Row] = []
        with self._rows("write" if plan.puts else "read") as rows:
            now = self._now()
            known = _found(rows, plan.places, now)
            answers = [self._answer(rows, op, known, plan.vectors, now, read) for op in plan.ops]
            if plan.puts:
                self._write(rows, plan.puts, known, now)
        if read:
            # Apart from the reading, so that only this needs the right to write.
            with self._rows("write") as rows:
                rows.exchange([(row, _begun_anew(row, now)) for row in read])
        return answers

    def _answer(
        self,
        rows: Rows,
        op: GetOp | SearchOp | ListNamespacesOp | None,
        known: Mapping[Place, Row],
        vectors: Mapping[str, bytes],
        now: int,
        read: list[Row],
    ) -> Result:
        """The answer to a read; the rows whose time begins anew by that are added to `read`."""
        if op is None:
            return None
        if isinstance(op, ListNamespacesOp):
            return _namespaces(rows, op, now)
        if isinstance(op, GetOp):
            got = _got(known, op)
            read += (row for row, _ in got if op.refresh_ttl and row.ttl is not None)
            return item_of(Item, *got[0]) if got else None
        found = _nearest(rows, op, vectors[op.query], now) if op.query else _searched(rows, op, now)
        read += (row for row, _, _ in found if op.refresh_ttl and row.ttl is not None)
        items = [item_of(SearchItem, row, value) for row, value, _ in found]
        for item, (_, _, score) in zip(items, found, strict=True):
            item.score = score
        return items

    def _write(self, rows: Rows, puts: Mapping[Place, Put], known: Mapping[Place, Row], now: int) -> None:
        gone = [place for place, put in puts.items() if put.body is None]
        if gone:
            rows.drop(gone)
        written = [_row(put, known.get(put.place), now) for put in puts.values() if put.body is not None]
        if written:
            rows.put(written)
        interval = self._sweep_interval
        if interval is not None and now - self._swept_at >= _microseconds(interval):
            rows.sweep(now)
            self._swept_at = now

    def _now(self) -> int:
        return round(self._clock() * MICROSECONDS)

    async def _off_loop(self, call: Callable[..., T], *args: Any) -> T:
        if not self.blocking:
            return call(*args)
        return await self._worker.call(call, *args)

    def let_go(self) -> None:
        """Before a fork: close what must not be open on both sides."""

    def begin_anew(self) -> None:
        """In a forked child: threads are gone."""
        self._worker = Worker("graphkit-store")


# --- checking a batch --------------------------------------------------------------------------------


def _plan(ops: Iterable[Op], index: Index | None) -> Plan:
    ops = list(ops)
    puts = [_put(op, index) for op in ops if isinstance(op, PutOp)]
    # Of several puts to one place the last stays.
    places = {put.place: put for put in puts}
    return Plan([_read(op, index) for op in ops], dict(sorted(places.items())))


def _read(op: Op, index: Index | None) -> GetOp | SearchOp | ListNamespacesOp | None:
    if isinstance(op, PutOp):
        return None
    if isinstance(op, GetOp):
        return op._replace(namespace=check_labels(op.namespace), key=check_key(op.key))
    if isinstance(op, SearchOp):
        return _search(op, index)
    if isinstance(op, ListNamespacesOp):
        return _listing(op)
    raise ValueError(f"{op!r:.80} is not an operation of a store")


def _search(op: SearchOp, index: Index | None) -> SearchOp:
    if op.query is not None and index is None:
        raise ValueError(
            "this store has no index to search by meaning with; make it with index={'dims': ..., 'embed': ...}, or "
            "leave out query, and search with a filter"
        )
    _check_page(op.limit, op.offset)
    if op.filter is not None:
        check_filter(op.filter)
    return op._replace(namespace_prefix=check_labels(op.namespace_prefix))


def _listing(op: ListNamespacesOp) -> ListNamespacesOp:
    _check_page(op.limit, op.offset)
    if op.max_depth is not None and (type(op.max_depth) is not int or op.max_depth < 1):
        raise ValueError(f"max_depth is a number of labels from 1, not {op.max_depth!r}")
    conditions = tuple(MatchCondition(*condition) for condition in op.match_conditions or ())
    for condition in conditions:
        if condition.match_type not in ("prefix", "suffix"):
            raise ValueError(f"a match condition is for 'prefix' or 'suffix', not {condition.match_type!r}")
    checked = (condition._replace(path=check_labels(condition.path)) for condition in conditions)
    return op._replace(match_conditions=tuple(checked))


def _check_page(limit: int, offset: int) -> None:
    for name, number in (("limit", limit), ("offset", offset)):
        if type(number) is not int or number < 0:
            raise ValueError(f"{name} is a number from 0, not {number!r}")


def _put(op: PutOp, index: Index | None) -> Put:
    if op.index and index is None:
        raise ValueError("this store has no index for fields of a value; leave out index, or pass False")
    place = Place(path_of(check_namespace(op.namespace)), check_key(op.key).encode())
    if op.value is None:
        return Put(place, None, None)
    value, ttl = _checked_value(op.value), None if op.ttl is None else _microseconds(op.ttl)
    try:
        body = pack(value)
    except UnserializableStateError as error:
        raise error.of(f"item {op.key!r} of namespace {op.namespace!r}") from None
    return Put(place, body, ttl, [] if index is None else index.texts(value, op.index))


def _checked_value(value: object) -> Value:
    if not isinstance(value, Mapping):
        raise TypeError(f"a stored value is a dict with strings for keys, not a {type(value).__name__}")
    for field in value:
        if type(field) is not str:
            raise TypeError(f"a stored value is a dict with strings for keys; {field!r:.80} is none")
    return dict(value)


def _checked_config(config: TTLConfig | None) -> TTLConfig | None:
    if config is None:
        return None
    unknown = [name for name in config if name not in TTLConfig.__annotations__]
    if unknown:
        raise ValueError(
            f"ttl has no option {unknown[0]!r}; there are {', '.join(TTLConfig.__annotations__)}"
        )
    if config.get("omit_expired", True) is not True:
        raise ValueError("omit_expired=False is not offered: no read shows an expired item")
    for minutes in (config.get("default_ttl"), config.get("sweep_interval_minutes")):
        if minutes is not None:
            _microseconds(minutes)
    return config.copy()


def _microseconds(minutes: float) -> int:
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not 0 < minutes <= MAX_MINUTES:
        raise ValueError(f"a ttl is a number of minutes above 0, or None for ever; not {minutes!r}")
    return math.ceil(minutes * 60 * MICROSECONDS)


# --- carrying it out ---------------------------------------------------------------------------------


def _found(rows: Rows, places: Iterable[Place], now: int) -> dict[Place, Row]:
    keys: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for namespace, key in places:
        keys[namespace].append(key)
    return {row.place: row for namespace in keys for row in rows.find(namespace, keys[namespace], now)}


def _got(known: Mapping[Place, Row], op: GetOp) -> list[tuple[Row, Value]]:
    row = known.get(_place(op))
    return [] if row is None else [(row, value_of(row))]


def _place(op: GetOp) -> Place:
    return Place(path_of(op.namespace), op.key.encode())


Found = tuple[Row, Value, float | None]


def _nearest(rows: Rows, op: SearchOp, query: bytes, now: int) -> list[Found]:
    """The items that have vectors, the nearest first."""
    found: list[tuple[float, Found]] = []
    wanted = numbers_of(query)
    for row in rows.below(path_of(op.namespace_prefix), now):
        value, vectors = _contents_of(row)
        score = nearness(wanted, vectors)
        if score is not None and (not op.filter or matches(value, op.filter)):
            found.append((-score, (row, value, score)))
    found.sort(key=operator.itemgetter(0))
    return [each for _, each in found[op.offset : op.offset + op.limit]]


def _searched(rows: Rows, op: SearchOp, now: int) -> list[Found]:
    candidates = rows.below(path_of(op.namespace_prefix), now)
    last = op.offset + op.limit
    if not op.filter:
        return [(row, value_of(row), None) for row in itertools.islice(candidates, op.offset, last)]
    wanted = op.filter
    opened = ((row, value_of(row), None) for row in candidates)
    matching = (found for found in opened if matches(found[1], wanted))
    return list(itertools.islice(matching, op.offset, last))


def _namespaces(rows: Rows, op: ListNamespacesOp, now: int) -> list[Namespace]:
    conditions = op.match_conditions or ()
    starts = [
        itertools.takewhile(lambda label: label != "*", condition.path)
        for condition in conditions
        if condition.match_type == "prefix"
    ]
    # Any of the prefixes narrows the range; that all hold is checked below.
    start = path_of(starts[0]) if starts else b""
    found = {
        labels[: op.max_depth]
        for labels in map(labels_of, rows.namespaces(start, now))
        if all(_fits(labels, condition) for condition in conditions)
    }
    return sorted(found)[op.offset : op.offset + op.limit]


def _fits(labels: Namespace, condition: MatchCondition) -> bool:
    length = len(condition.path)
    if length > len(labels):
        return False
    part = labels[:length] if condition.match_type == "prefix" else labels[len(labels) - length :]
    return all(wanted in ("*", label) for label, wanted in zip(part, condition.path, strict=True))


def _row(put: Put, known: Row | None, now: int) -> Row:
    assert put.body is not None
    # Of a damaged row nothing is believed.
    intact = known is not None and known.checksum == _checksum(known)
    created = known.created_at if known is not None and intact else now
    expires = None if put.ttl is None else now + put.ttl
    return sealed(Row(*put.place, put.body, created, now, put.ttl, expires))


def _begun_anew(row: Row, now: int) -> Row:
    assert row.ttl is not None
    return sealed(row._replace(expires_at=now + row.ttl))
