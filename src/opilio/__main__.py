"""`python -m opilio` is the command `opilio`."""

from __future__ import annotations

from opilio.process import exit_at_once, let_interrupt_exit, own_interpreter


def run() -> None:
    """Entry point of the command. Ctrl-C before it begins and after it has ended is silent, too."""
    own_interpreter()
    with exit_at_once():
        from opilio.cli import main  # noqa: PLC0415
    try:
        main()
    finally:
        let_interrupt_exit()  # until the interpreter has ended


if __name__ == "__main__":
    run()
