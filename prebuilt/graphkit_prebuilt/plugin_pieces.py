"""The pieces that a value is kept in, its fields and what is in those: what is stored of a change is as large as the
change. A list that grows by an item a turn costs that item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from graphkit.channels import MISSING
from graphkit.types import Overwrite
from graphkit_prebuilt.conversation import copied
from graphkit_prebuilt.log import DELETED, Keyed

__all__ = ["LATEST", "NO_PIECES", "Pieces", "Stamped", "put_together", "same", "taken_apart"]

NO_PIECES: Final[Mapping[Any, Any]] = MappingProxyType({})
Path = tuple[Any, ...]
"""Where a piece is: the plugin's name, then a field or an index, then a key or an index in that."""
Pieces = dict[Any, Any]
"""By path, `[number, value]`: the number of its write. A dict or list that was taken apart stands for itself as `{}` or
`[]`."""

LATEST: Final = None
"""In the place of the number of a write: this one is later than all that are stored."""
DEPTH: Final = 2
"""How deep values are taken apart."""


class Stamped(Keyed):
    """Values by key, each `[number, value]`: of several writes of a key the one with the highest number stays, `LATEST`
    the last of them. Values without a number, and `Overwrite`, are as in `Keyed`."""

    def update(self, values: Sequence[Any]) -> bool:
        if any(type(write) is not dict for write in values):
            emptied = all(type(write) is Overwrite and not write.value for write in values)
            return bool(self.value or not emptied) and super().update(values)
        latest: Pieces = {}
        for write in values:
            for key, one in write.items():
                old = latest.get(key, self.value.get(key))
                if type(one) is list and one[0] is LATEST:
                    one = [1 + (old[0] if type(old) is list else 0), one[1]]
                if type(one) is not list or type(old) is not list or one[0] > old[0]:
                    latest[key] = one
        deleted = {key for key, one in latest.items() if type(one) is list and one[1] is DELETED}
        return super().update([{key: DELETED if key in deleted else one for key, one in latest.items()}])

    def from_checkpoint(self, checkpoint: Any) -> Stamped:
        channel = Stamped(self.typ, self.key)
        if checkpoint is not MISSING:
            channel.value = checkpoint
        return channel


def taken_apart(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """The pieces of a value, by path."""
    deep = len(path) <= DEPTH
    if deep and type(value) is dict and all(type(key) is str for key in value):
        yield path, {}
        for key, one in value.items():
            yield from taken_apart((*path, key), one)
    elif deep and type(value) is list:
        yield path, []
        for index, one in enumerate(value):
            yield from taken_apart((*path, index), one)
    else:
        yield path, value


def put_together(pieces: Mapping[Any, Any], name: str) -> Any:
    """The value that these pieces of a plugin are of, a copy; `MISSING` if there are none."""
    found: dict[Path, Any] = {}
    for path in sorted((path for path in pieces if type(path) is tuple and path[0] == name), key=_order):
        value = pieces[path][1]
        if value is DELETED:
            continue
        value = copied(value)
        found[path] = value
        around = found.get(path[:-1])
        if type(around) is list:
            around.append(value)
        elif type(around) is dict:
            around[path[-1]] = value
    return found.get((name,), MISSING)


def _order(path: Path) -> Any:
    """Those around others first, and the items of lists in order; the order of fields is that of their writes."""
    return len(path), [step if type(step) is int else 0 for step in path]


def same(old: Any, new: Any) -> bool:
    """Whether two pieces are stored alike: 1, 1.0 and True are not."""
    return old is new or (type(old) is type(new) and old == new and repr(old) == repr(new))
