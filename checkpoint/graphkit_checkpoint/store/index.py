"""Searching by meaning: which texts of a value are embedded, by what, and how near they are to a query.

The vectors of an item are stored in its row, beside its value, and a search compares with all of those in its
namespaces: enough for the memories of agents, some ten thousand items; more want a database made for it.
"""

from __future__ import annotations

import inspect
import json
import math
import operator
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from graphkit_checkpoint.store.base import IndexConfig, Op, PutOp, SearchOp

__all__ = ["Embedded", "Index", "nearness"]

Embedded = Mapping[str, bytes]
"""The vector of each text: float32, little-endian, of length 1."""

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

    def texts(self, op: PutOp) -> list[str]:
        """The texts of a value that are embedded: those of the index's fields, or of those that the write names."""
        if op.value is None or op.index is False:
            return []
        fields = self.fields if op.index is None else _fields(op.index)
        return [text for field in fields for text in _texts(op.value, field)]

    def embedded(self, ops: Sequence[Op]) -> Embedded:
        """The vectors of every text that these operations need, each embedded once. Raises `TypeError` if that can only
        be awaited."""
        found: dict[str, bytes] = {}
        for texts, vectors, is_one in self._calls(ops, "embed"):
            if inspect.isawaitable(vectors):
                if inspect.iscoroutine(vectors):
                    vectors.close()
                raise TypeError("index embeds asynchronously: use the store's async methods, aput, asearch")
            found.update(self._named(texts, [vectors] if is_one else vectors))
        return found

    async def aembedded(self, ops: Sequence[Op]) -> Embedded:
        """`embedded` on the running event loop."""
        found: dict[str, bytes] = {}
        for texts, vectors, is_one in self._calls(ops, "aembed"):
            if inspect.isawaitable(vectors):
                vectors = await vectors
            found.update(self._named(texts, [vectors] if is_one else vectors))
        return found

    def _calls(self, ops: Sequence[Op], verb: str) -> Iterator[tuple[list[str], Any, bool]]:
        """Texts, and what embedding them returns: a vector for each, or if it is one text just its vector."""
        embed = self._embed
        documents = [*dict.fromkeys(text for op in ops if isinstance(op, PutOp) for text in self.texts(op))]
        queries = [*dict.fromkeys(op.query for op in ops if isinstance(op, SearchOp) and op.query)]
        if hasattr(embed, "embed_documents"):  # as LangChain's Embeddings, which tell them apart
            if documents:
                yield documents, getattr(embed, f"{verb}_documents")(documents), False
            for query in queries:
                yield [query], getattr(embed, f"{verb}_query")(query), True
        elif documents or queries:
            texts = [*dict.fromkeys([*documents, *queries])]
            yield texts, embed(texts), False

    def _named(self, texts: Sequence[str], vectors: Any) -> Iterable[tuple[str, bytes]]:
        vectors = [*vectors]
        if len(vectors) != len(texts):
            raise ValueError(f"index was given {len(texts)} texts and returned {len(vectors)} vectors")
        return zip(texts, map(self._packed, vectors), strict=True)

    def _packed(self, vector: Iterable[float]) -> bytes:
        numbers = [float(number) for number in vector]
        if len(numbers) != self.dims:
            raise ValueError(
                f"index has dims={self.dims}, and what embeds returned {len(numbers)} dimensions"
            )
        length = math.hypot(*numbers)
        return struct.pack(f"<{self.dims}f", *(number / length if length else 0.0 for number in numbers))


def nearness(query: bytes, vectors: Iterable[bytes]) -> float | None:
    """How near the nearest of an item's vectors is to that of a query: the cosine of their angle. None if all are of
    another model."""
    wanted = _numbers(query)
    alike = [vector for vector in vectors if len(vector) == len(query)]
    return max((sum(map(operator.mul, wanted, _numbers(vector))) for vector in alike), default=None)


def _numbers(vector: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


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
        return [json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)]
    found = [value]
    for step in _STEP.findall(field):
        found = [part for each in found for part in _parts(each, step)]
    return [text if isinstance(text, str) else str(text) for text in found if _is_text(text)]


def _parts(value: Any, step: str) -> Sequence[Any]:
    if step in ("*", "[*]"):
        return [*value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else []
    if step.startswith("["):
        place = int(step[1:-1])
        return [value[place]] if isinstance(value, list) and -len(value) <= place < len(value) else []
    return [value[step]] if isinstance(value, Mapping) and step in value else []


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and value != ""
