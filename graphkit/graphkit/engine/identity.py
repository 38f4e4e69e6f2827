"""Names that are the same every time: of checkpoints, tasks and questions.

- A checkpoint id is `milliseconds-step-nonce`: ids sort by time, each after the head that it follows whatever
  the clock does, and the nonce of the run keeps two writers apart.
- A task id hashes (checkpoint id, namespace, step, path), so it is stable while the checkpoint is.
- A question id hashes (task id, index or name), so it is stable while its task is.
"""

from __future__ import annotations

from hashlib import blake2b

TIME_DIGITS = 11
STEP_DIGITS = 6


def checkpoint_id(now: float, step: int, nonce: str, after: str | None) -> str:
    """`step` counts from -1. Sorts after `after`: the parent, or the thread's head where that is newer."""
    moment = int(now * 1000)
    if after is not None:
        before, its_step = _parts(after)
        if before >= moment:  # the same millisecond, or a clock that went back
            moment = before if its_step < step + 1 else before + 1
    return f"{moment:0{TIME_DIGITS}x}-{step + 1:0{STEP_DIGITS}x}-{nonce}"


def unstored_id(nonce: str, step: int) -> str:
    """Where a run without a saver stands: only its task ids depend on it."""
    return f"{nonce}-{step}"


def _parts(checkpoint_id: str) -> tuple[int, int]:
    """Milliseconds and step (from 0) of an id; zeros for one of another make."""
    try:
        return int(checkpoint_id[:TIME_DIGITS], 16), int(checkpoint_id[TIME_DIGITS + 1 :][:STEP_DIGITS], 16)
    except ValueError:
        return 0, 0


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
