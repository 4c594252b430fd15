"""`python -m opilio` is the command `opilio`."""

from opilio.cli import main

main()
