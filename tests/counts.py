"""What storing costs, counted in bytes: of what is packed and unpacked, whatever the saver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from graphkit_checkpoint import drafts, layout, reading, serde, writing


@dataclass
class Counts:
    packed: int = 0
    unpacked: int = 0

    def taken(self) -> tuple[int, int]:
        """What was packed and unpacked since the last time."""
        taken, self.packed, self.unpacked = (self.packed, self.unpacked), 0, 0
        return taken


@contextmanager
def counted() -> Iterator[Counts]:
    """Count in all modules that pack and unpack for savers."""
    counts = Counts()

    def pack(value: Any) -> bytes:
        body = serde.pack(value)
        counts.packed += len(body)
        return body

    def pack_items(value: Any) -> bytes:
        body = serde.pack_items(value)
        counts.packed += len(body)
        return body

    def unpack(body: bytes) -> Any:
        counts.unpacked += len(body)
        return serde.unpack(body)

    def unpack_items(parts: Any) -> list[Any]:
        listed = list(parts)
        counts.unpacked += sum(len(body) for _, body in listed)
        return serde.unpack_items(listed)

    with pytest.MonkeyPatch.context() as patched:
        for module in (drafts, writing, reading, layout):
            for counting in (pack, pack_items, unpack, unpack_items):
                if hasattr(module, counting.__name__):
                    patched.setattr(module, counting.__name__, counting)
        yield counts
