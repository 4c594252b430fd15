"""The process that trains: a pickled training set on standard input, a pickled model on standard output.

Both ends are ours; nothing that was fetched is unpickled, only texts inside of our own records. The process ends at
once when nobody is left to take the model.
"""

from __future__ import annotations

import os
import pickle
import select
import sys
import threading

from opilio.errors import OpilioError
from opilio.learn.trainer import train


def _end_with_parent() -> None:
    """Wait until the other end of standard output is closed; then end."""
    poll = select.poll()
    poll.register(sys.stdout, 0)  # only hanging up counts
    poll.poll()
    os._exit(1)


def main() -> None:
    """Entry point: `python -m opilio.learn.process`."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    training, settings, version = pickle.load(sys.stdin.buffer)
    trained, said = None, None
    try:
        trained = train(training, settings, version)
    except OpilioError as error:
        said = (error.message, error.hint)
    sys.stdout.buffer.write(pickle.dumps((trained, said)))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
