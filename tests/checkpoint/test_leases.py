"""Claims of this process are renewed while their runs work, whoever else claims or ends meanwhile."""

import gc
import threading
from collections.abc import Iterator
from itertools import count

import pytest

from graphkit_checkpoint.ownership import Leases, forget_token, new_token

PATIENCE = 30.0


@pytest.fixture
def collecting_always() -> Iterator[None]:
    """Garbage is collected at every object that is made, as it is now and then anyway."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()  # and it stays so: there is nothing in it that anybody would look for
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("collecting_always")
def test_a_claim_that_comes_while_others_are_renewed_ends_no_renewing() -> None:
    """A collection runs finalizers, at which another thread may come in: here it is the collection that claims."""
    leases, tokens, renewed = Leases(), [new_token() for _ in range(4)], threading.Event()
    turns = count()

    def claim(phase: str, info: object) -> None:
        if threading.current_thread().name == "graphkit-leases" and phase == "start":
            if next(turns) % 2:
                leases.release(tokens[-1])
            else:
                leases.hold(tokens[-1], 60.0, lambda: None)

    gc.callbacks.append(claim)
    try:
        for token in tokens[:-1]:
            leases.hold(token, 0.01, renewed.set)
        assert renewed.wait(PATIENCE)
    finally:
        gc.callbacks.remove(claim)
        for token in tokens:
            leases.release(token)
            forget_token(token)
