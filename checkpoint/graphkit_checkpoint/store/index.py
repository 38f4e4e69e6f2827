"""Searching by meaning: which texts of a value are embedded, by what, and how near they are to a query.

The vectors of an item are stored in its row, beside its value, and a search compares with all of those in its
namespaces: enough for the memories of agents, some thousand items. In ten thousand of 1536 dimensions it takes one to
two seconds; more want a database made for it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import operator
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from graphkit_checkpoint.store.base import IndexConfig

__all__ = ["Embedded", "Index", "nearness", "numbers_of"]


class Embedded(NamedTuple):
    """The vector of each text and of each query: float32, little-endian, of length 1."""

    texts: dict[str, bytes]
    queries: dict[str, bytes]


_Call = tuple[Callable[[Any], Any], "list[str] | str", dict[str, bytes]]
"""What embeds a list of texts, or one; and where their vectors go."""

WHOLE: Final = "$"
"""The field that is the whole value, as JSON."""
_STEP: Final = re.compile(r"[^.\[\]]+|\[(?:\*|-?\d+)\]")


class Index:
    """What a store embeds with. Raises `ValueError` for a config that says too little, or what is not known."""

    def __init__(self, config: IndexConfig) -> None:
        unknown = [name for name in config if name not in IndexConfig.__annotations__]
        if unknown:
            raise ValueError(
                f"index has no option {unknown[0]!r}; there are {', '.join(IndexConfig.__annotations__)}"
            )
        dims, embed = config.get("dims"), config.get("embed")
        if type(dims) is not int or dims < 1 or embed is None:
            raise ValueError(
                "index needs dims, the number of dimensions, and embed, what makes vectors of texts"
            )
        self.dims: int = dims
        self.fields = _fields(config.get("fields") or [WHOLE])
        self._embed = _loaded(embed) if isinstance(embed, str) else embed

    def texts(self, value: Any, fields: Any = None) -> list[str]:
        """The texts of a value that are embedded: those of the index's fields, or of those that the write names; of
        False none."""
        if fields is False:
            return []
        named = self.fields if fields is None else _fields(fields)
        return [text for field in named for text in _texts(value, field)]

    def embedded(self, texts: list[str], queries: list[str]) -> Embedded:
        """The vectors of these. Raises `TypeError` if they can only be awaited, and `ValueError` if they are no vectors
        of this index."""
        found, calls = self._calls("embed", texts, queries)
        for embed, given, into in calls:
            vectors = embed(given)
            if inspect.isawaitable(vectors):
                if inspect.iscoroutine(vectors):
                    vectors.close()
                raise TypeError("index embeds asynchronously: use the store's async methods, aput, asearch")
            into.update(self._named(given, vectors))
        return found

    async def aembedded(self, texts: list[str], queries: list[str]) -> Embedded:
        """`embedded` on the running event loop; a function that blocks is called in a thread."""
        found, calls = self._calls("aembed", texts, queries)
        for embed, given, into in calls:
            is_async = inspect.iscoroutinefunction(embed)
            vectors = embed(given) if is_async else await asyncio.to_thread(embed, given)
            if inspect.isawaitable(vectors):
                vectors = await vectors
            into.update(self._named(given, vectors))
        return found

    def _calls(self, verb: str, texts: list[str], queries: list[str]) -> tuple[Embedded, list[_Call]]:
        embed = self._embed
        if hasattr(embed, "embed_documents"):  # as LangChain's Embeddings, which tell texts and queries apart
            found = Embedded({}, {})
            calls: list[_Call] = [
                (getattr(embed, f"{verb}_query"), query, found.queries) for query in queries
            ]
            if texts:
                calls.append((getattr(embed, f"{verb}_documents"), texts, found.texts))
            return found, calls
        both: dict[str, bytes] = {}
        distinct = [*dict.fromkeys([*texts, *queries])]
        return Embedded(both, both), [(embed, distinct, both)] if distinct else []

    def _named(self, given: list[str] | str, vectors: Any) -> Iterable[tuple[str, bytes]]:
        if isinstance(given, str):
            return [(given, self._packed(vectors))]
        vectors = [*vectors]
        if len(vectors) != len(given):
            raise ValueError(f"index was given {len(given)} texts and returned {len(vectors)} vectors")
        return zip(given, map(self._packed, vectors), strict=True)

    def _packed(self, vector: Iterable[float]) -> bytes:
        numbers = [float(number) for number in vector]
        if len(numbers) != self.dims:
            raise ValueError(
                f"index has dims={self.dims}, and what embeds returned {len(numbers)} dimensions"
            )
        length = math.hypot(*numbers)
        if not math.isfinite(length):
            raise ValueError(f"index cannot compare a vector of length {length}")
        return struct.pack(f"<{self.dims}f", *(number / length if length else 0.0 for number in numbers))


def numbers_of(vector: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def nearness(wanted: Sequence[float], vectors: Iterable[bytes]) -> float | None:
    """How near the nearest of an item's vectors is to the numbers of a query: the cosine of their angle. None if all
    are of another model."""
    alike = [numbers_of(vector) for vector in vectors if len(vector) == 4 * len(wanted)]
    if not alike:
        return None
    cosine: float = max(sum(map(operator.mul, wanted, numbers)) for numbers in alike)
    return min(1.0, max(-1.0, cosine))  # what is rounded may be beyond


def _loaded(name: str) -> Any:
    """The embeddings of "provider:model", by LangChain."""
    try:
        return import_module("langchain.embeddings").init_embeddings(name)
    except ImportError as error:
        raise ImportError(f"embed={name!r} needs langchain; or give a function, or an Embeddings") from error


# --- The texts of a value -----------------------------------------------------------------------------------


def _fields(given: Any) -> list[str]:
    if not isinstance(given, (list, tuple)) or not all(isinstance(field, str) and field for field in given):
        raise ValueError(
            f'fields of an index are a list of names such as "text", "a.b" or "notes[*].text", not {given!r}'
        )
    return [*given]


def _texts(value: Any, field: str) -> list[str]:
    """What a value has in a field: "a.b" inside of "a", "a[0]" and "a[-1]" one of a list, "a[*]" or "a.*" each."""
    if field == WHOLE:
        return [json.dumps(_with_names(value), sort_keys=True, ensure_ascii=False, default=str)]
    found = [value]
    for step in _STEP.findall(field):
        found = [part for each in found for part in _parts(each, step)]
    return [text if isinstance(text, str) else str(text) for text in found if _is_text(text)]


def _with_names(value: Any) -> Any:
    """With strings for keys, as JSON has them."""
    if isinstance(value, Mapping):
        return {str(key): _with_names(each) for key, each in value.items()}
    return [_with_names(each) for each in value] if isinstance(value, (list, tuple)) else value


def _parts(value: Any, step: str) -> Sequence[Any]:
    if step in ("*", "[*]"):
        return [*value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else []
    if step.startswith("["):
        place = int(step[1:-1])
        return [value[place]] if isinstance(value, list) and -len(value) <= place < len(value) else []
    return [value[step]] if isinstance(value, Mapping) and step in value else []


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and value != ""
