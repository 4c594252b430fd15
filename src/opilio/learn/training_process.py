"""The process that trains: what to do, pickled, on standard input; what came of it, pickled, on standard output.

Both ends are ours; nothing that was fetched is unpickled, only texts inside of our own records. The process ends at
once when nobody is left to take the model.
"""

from __future__ import annotations

import os
import pickle
import select
import sys
import threading
from collections.abc import Callable
from typing import Any

from opilio.errors import OpilioError
from opilio.learn.guard import confidences, try_out
from opilio.learn.mined_negatives import choose_negatives
from opilio.learn.trainer import train
from opilio.process import NICENESS

WORK: dict[str, Callable[..., Any]] = {
    "train": train,
    "try": try_out,
    "confidences": confidences,
    "mined negatives": choose_negatives,
}


def _end_with_parent() -> None:
    """Wait until the other end of standard output is closed; then end."""
    poll = select.poll()
    poll.register(sys.stdout, 0)  # only hanging up counts
    poll.poll()
    os._exit(1)


def main() -> None:
    """Entry point: `python -m opilio.learn.training_process`."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    what, given, can_wait = pickle.load(sys.stdin.buffer)
    if can_wait:
        os.nice(NICENESS)  # a crawl goes on meanwhile
    made, said = None, None
    try:
        made = WORK[what](*given)
    except OpilioError as error:
        said = (error.message, error.hint)
    sys.stdout.buffer.write(pickle.dumps((made, said)))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
