"""`python -m opilio` is the command `opilio`."""

from __future__ import annotations

from opilio.process import (
    collect_rarely,
    exit_quickly,
    let_interrupt_exit,
    lighten_duckdb,
    own_interpreter,
    share_one_heap,
    use_one_thread,
)


def run() -> None:
    """Entry point of the command. Ctrl-C before it begins and after it has ended is silent, too."""
    let_interrupt_exit()  # until `main` catches it
    own_interpreter()
    use_one_thread()
    lighten_duckdb()
    collect_rarely()  # nothing that an import makes is garbage
    share_one_heap()  # before there are threads, which would keep the heaps that they have
    from opilio.cli import main  # noqa: PLC0415

    try:
        main()
        exit_quickly()
    except SystemExit as end:
        if isinstance(end.code, int):
            exit_quickly(end.code)
        raise
    finally:
        let_interrupt_exit()  # until the interpreter has ended


if __name__ == "__main__":
    run()
