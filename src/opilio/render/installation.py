"""What rendering needs on this machine: Playwright, a Chromium, and a way to run it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from opilio.errors import OpilioError, not_installed
from opilio.process import start
from opilio.render.messages import BrowserSetup, encoder, greeting_decoder
from opilio.settings import Settings

PROGRAM = "opilio.render.browser_process:serve"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_S = 60.0
NO_SANDBOX = "--set render.sandbox=false"


def find_program(settings: Settings) -> str:
    """The path of Chromium; an OpilioError when it, or what drives it, is missing."""
    if importlib.util.find_spec("playwright") is None:
        raise not_installed("playwright", "rendering", "render")
    chosen = settings.render.browser
    if chosen:
        if not os.access(chosen, os.X_OK) or Path(chosen).is_dir():
            raise OpilioError(f"[render] browser: {chosen} is not a program", "Give the path of Chromium.")
        return chosen
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise OpilioError(
            "rendering pages needs Chromium, which is not installed",
            "apt install chromium, or the same with the package manager of your system; "
            "if it is elsewhere: --set render.browser=PATH",
        )
    return found


def browser_setup(settings: Settings, folder: str) -> BrowserSetup:
    """The setup of a browser process that keeps its files in `folder`."""
    rendering = settings.render
    program = find_program(settings)
    if rendering.sandbox and os.geteuid() == 0:
        raise OpilioError(
            "Chromium cannot run in its sandbox as root, and pages run their scripts in it",
            "Crawl as another user, or without scripts: --render never. In a container that holds nothing else, you "
            f"can do without the sandbox: {NO_SANDBOX}",
        )
    fetching = settings.fetch
    limit = fetching.cut_bytes or fetching.accept.get("text/html", 0)
    return BrowserSetup(
        program, rendering.sandbox, folder, settings.user_agent, fetching.accept_language, rendering.timeout_s,
        rendering.quiet_s, rendering.memory_bytes, limit,
    )  # fmt: skip


def environment_of(folder: str) -> dict[str, str]:
    """What a browser process has of our environment. Its home is a folder of its own."""
    kept = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"HOME": folder, "TMPDIR": folder}


def problem_of(message: str) -> tuple[str, str]:
    """What is wrong when Chromium does not start, and what to do, by what Playwright says."""
    if "No usable sandbox" in message:
        return (
            "Chromium cannot run in its sandbox here: the system does not let it make user namespaces",
            "Allow them (sysctl kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0)."
            f" In a container that holds nothing else, you can do without the sandbox: {NO_SANDBOX}",
        )
    line = next((line.strip() for line in message.splitlines() if line.strip()), "no reason given")
    return f"Chromium does not start: {line[:200]}", "Try it by hand: chromium --headless --dump-dom about:blank"


def check_browser(settings: Settings) -> None:
    """Start a browser and end it; an OpilioError that says what is missing."""
    import tempfile  # noqa: PLC0415  (most crawls render nothing)

    with tempfile.TemporaryDirectory(prefix="opilio-browser-", ignore_cleanup_errors=True) as folder:
        setup = browser_setup(settings, folder)
        child = start(PROGRAM, environment=environment_of(folder), own_session=True)
        try:
            deadline_s = time.monotonic() + START_S
            greeting = bytearray()
            with suppress(ConnectionError, TimeoutError):
                child.channel.send(encoder.encode(setup), deadline_s)
                greeting = child.channel.receive(deadline_s, 2**16)
        finally:
            child.close(5.0)
    problem, hint = greeting_decoder.decode(greeting) if greeting else ("Chromium does not start", "Look at the above.")
    if problem:
        raise OpilioError(problem, hint)
