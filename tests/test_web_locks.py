"""Many readers or one writer."""

import threading
import time

import pytest

from opilio.web.shelf import ReadersOrWriter


def test_readers_share_and_a_writer_is_alone() -> None:
    """While threads read and write at random, a writer never sees another, and readers do meet."""
    lock, inside, most, wrong = ReadersOrWriter(), [0, 0], [0], []
    guard = threading.Lock()

    def work(is_writer: bool) -> None:
        for _ in range(30):
            with lock.writing() if is_writer else lock.reading():
                with guard:
                    inside[is_writer] += 1
                    most[0] = max(most[0], inside[0])
                    if inside[1] > 1 or (inside[1] and inside[0]):
                        wrong.append(tuple(inside))
                time.sleep(0.0005)
                with guard:
                    inside[is_writer] -= 1

    threads = [threading.Thread(target=work, args=(n < 2,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not wrong
    assert most[0] > 1


def test_it_may_be_given_back_by_another_thread() -> None:
    """Web servers finish requests in other threads than they begin them in."""
    lock = ReadersOrWriter()
    held = lock.writing()
    held.__enter__()
    other = threading.Thread(target=held.__exit__, args=(None, None, None))
    other.start()
    other.join(5)
    with lock.reading():
        pass


def test_a_reader_does_not_wait_for_ever() -> None:
    """A page that asks while a model is trained is told so after a moment, and the lock stays sound."""
    lock = ReadersOrWriter()
    with lock.writing(), pytest.raises(TimeoutError), lock.reading(0.05):
        pass
    with lock.reading(0.05):
        pass
