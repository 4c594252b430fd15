"""The portal beside a crawl: a process of its own, so that looking around takes nothing from the crawl's loop."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from opilio.errors import OpilioError

STOP_S = 5.0


@contextlib.contextmanager
def portal_beside(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Serve the portal of a collection while a crawl runs in it; the address is printed. It ends with this process."""
    command = [sys.executable, "-m", "opilio", "serve", str(folder), "--port", str(port), "--quiet", "--with-parent"]
    # A session of its own: Ctrl-C is for the crawl, which stops the portal when it is done.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        address = process.stdout.readline().strip() if process.stdout else ""
        if not address:
            raise OpilioError(
                "the portal did not start", f"Take a free port: --portal 0. Or begin it alone: opilio serve {folder}"
            )
        click.echo(f"portal: {address}", err=True)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def stay(process: subprocess.Popen[str]) -> None:
    """Keep the portal after the crawl until Ctrl-C."""
    click.echo("The portal stays until Ctrl-C.", err=True)
    with contextlib.suppress(KeyboardInterrupt):
        process.wait()
