"""`python -P -m opilio.process MODULE:FUNCTION DESCRIPTOR NICENESS ARGUMENT ...`: what every child process runs."""

import sys

from opilio.process.child import main

if __name__ == "__main__":
    main(sys.argv[1:])
