"""The process that trains: a pickled training set on standard input, a pickled model on standard output.

Both ends are ours; nothing that was fetched is unpickled, only texts inside of our own records.
"""

from __future__ import annotations

import pickle
import sys

from opilio.errors import OpilioError
from opilio.learn.trainer import train


def main() -> None:
    """Entry point: `python -m opilio.learn.process`."""
    training, settings, version = pickle.load(sys.stdin.buffer)
    trained, said = None, None
    try:
        trained = train(training, settings, version)
    except OpilioError as error:
        said = (error.message, error.hint)
    sys.stdout.buffer.write(pickle.dumps((trained, said)))


if __name__ == "__main__":
    main()
