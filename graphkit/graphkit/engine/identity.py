"""Names that are the same every time: of checkpoints, tasks and questions.

- A checkpoint id is `milliseconds-step-nonce`: ids sort by time, a child after its parent whatever the
  clock does, and the nonce of the run keeps two writers apart.
- A task id hashes (checkpoint id, namespace, step, path), so it is stable while the checkpoint is.
- A question id hashes (task id, index or name), so it is stable while its task is.
"""

from __future__ import annotations

from hashlib import blake2b

TIME_DIGITS = 11
STEP_DIGITS = 6


def checkpoint_id(now: float, step: int, nonce: str, parent_id: str | None) -> str:
    """`step` counts from -1. Sorts after `parent_id`."""
    moment = max(int(now * 1000), _moment(parent_id))
    return f"{moment:0{TIME_DIGITS}x}-{step + 1:0{STEP_DIGITS}x}-{nonce}"


def unstored_id(nonce: str, step: int) -> str:
    """Where a run without a saver stands: only its task ids depend on it."""
    return f"{nonce}-{step}"


def _moment(checkpoint_id: str | None) -> int:
    try:
        return int((checkpoint_id or "0")[:TIME_DIGITS], 16)
    except ValueError:
        return 0


def task_id(checkpoint: str, namespace: str, step: int, path: tuple[str | int, ...]) -> str:
    return _digest(checkpoint, namespace, str(step), *map(repr, path))


def question_id(task: str, name: str | None, index: int | None) -> str:
    return _digest(task, "name" if name is not None else "index", str(index) if name is None else name)


def looks_like_question_id(key: object) -> bool:
    """32 lower-case hexadecimal digits."""
    return isinstance(key, str) and len(key) == 32 and not key.strip("0123456789abcdef")


def _digest(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()
