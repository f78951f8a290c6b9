"""Work that waits for others, a few items at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_parallel(
    work: Callable[[T], R], items: Sequence[T], *, workers: int, on_failure: Callable[[], object] = lambda: None
) -> Iterator[tuple[int, R]]:
    """Do something with many items in threads, a few at a time.

    Args:
        work: what is done with an item; may raise.
        items: the items.
        workers: threads.
        on_failure: called once, as soon as an item failed, so that those under way can give up.

    Yields:
        Index and result of each item, in the order in which they are done. After a failure no item is begun; results
        of those that were under way still come.

    Raises:
        Exception: that of the item that failed first, at the end.
    """
    failure: BaseException | None = None
    left = iter(enumerate(items))
    running: dict[Future[R], int] = {}
    with ThreadPoolExecutor(workers, thread_name_prefix="llmstack-work") as pool:
        try:
            while True:
                while failure is None and len(running) < workers and (following := next(left, None)) is not None:
                    running[pool.submit(work, following[1])] = following[0]
                if not running:
                    break
                # a wait without an end would keep an interrupt from being seen
                done, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=running.__getitem__):
                    index, error = running.pop(future), future.exception()
                    if error is None:
                        yield index, future.result()
                    elif failure is None:
                        failure = error
                        on_failure()
        except BaseException:
            on_failure()
            raise
    if failure is not None:
        raise failure
