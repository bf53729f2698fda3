"""Inputs are read once, whoever asks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from forgepack.errors import CorruptError
from forgepack.verify.inputs.reading import Input


def test_threads_that_ask_at_once_share_one_reading() -> None:
    """Eight threads meet at a barrier; while the first reads, none of the others begins to, and all get its value."""
    reads: list[int] = []
    barrier, second = threading.Barrier(8), threading.Event()

    def read() -> list[int]:
        reads.append(1)
        if len(reads) > 1:
            second.set()
        second.wait(0.2)  # long enough for another thread to come in, if it could
        return reads

    source = Input("shared", read)

    def ask(_: int) -> list[int]:
        barrier.wait()
        return source.value

    with ThreadPoolExecutor(8) as pool:
        assert [[1]] * 8 == list(pool.map(ask, range(8)))


def test_an_input_tells_why_it_has_no_value_through_those_that_need_it() -> None:
    """A fault of one input is the root of every input that is made from it, and is read once for all."""

    def refuse() -> int:
        raise CorruptError("damaged", where="file", code="test")

    source: Input[int] = Input("source", refuse)
    derived = Input("derived", lambda: source.value + 1)
    assert (False, ["damaged"], ()) == (derived.available, [err.what for err in derived.roots], derived.faults)
