"""Replay over HTTP: a recorded web on loopback, served by a process of its own."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from opilio.errors import InputError, OpilioError
from opilio.lab.webs.recorded import RecordedWeb
from opilio.lab.webs.server_pipe import ADDRESS, listen, read_message
from opilio.lab.webs.serving_process import Config, Request

__all__ = ["Request", "Serving"]

STOP_TIMEOUT_S = 5.0
_MAKE_CERTIFICATE = (
    "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
    "-subj", "/CN=a recorded web",
)  # fmt: skip


class Serving:
    """Serves a recorded web as long as the context lasts.

    with Serving(web, latency_s=0.05) as serving:
        Collection.create("try", seeds="seeds.txt", settings=serving.settings).crawl()

    Each answer takes `latency_s`, give or take up to `latency_spread_s`: the same every time for the same URL. https
    is answered with a certificate that nobody trusts, made by the program `openssl`; where that is missing, https is
    not answered. The log is the server's own, so it tells what was asked even of a crawler that was killed.
    """

    def __init__(
        self,
        web: RecordedWeb,
        *,
        latency_s: float = 0.0,
        latency_spread_s: float = 0.0,
        port: int = 0,
        log: bool = True,
    ) -> None:
        if not 0 <= latency_spread_s <= latency_s:
            raise InputError(
                f"the latency cannot spread by {latency_spread_s:g} s around {latency_s:g} s",
                "The spread is at most the latency itself.",
            )
        self.web, self.port = web, port
        self.latency_s, self.latency_spread_s, self.keep_log = latency_s, latency_spread_s, log
        self.speaks_tls = False
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """Where the server listens: `127.0.0.1:PORT`."""
        return f"{ADDRESS}:{self.port}"

    @property
    def connect_to(self) -> dict[str, str]:
        """What to set `fetch.connect_to` to, so that every host is asked here."""
        return {"*": self.address}

    @property
    def settings(self) -> dict[str, Any]:
        """All that a crawl of this web needs, by dotted name."""
        return {"fetch.connect_to": self.connect_to, "fetch.verify_tls": False}

    def start(self) -> Serving:
        """Start serving; on return, connections are accepted."""
        self._folder = Path(tempfile.mkdtemp(prefix="opilio-replay-"))
        try:
            certificate = _certificate(self._folder)
            self.speaks_tls = bool(certificate)
            with listen(self.port) as listening:
                self.port = listening.getsockname()[1]
                config = Config(
                    web=str(self.web.folder.absolute()),
                    listen_fd=listening.fileno(),
                    latency_s=self.latency_s,
                    latency_spread_s=self.latency_spread_s,
                    keep_log=self.keep_log,
                    certificate=certificate,
                )
                self._process = self._started(config)
            self._expect_ready(self._folder / "errors.txt")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server; what is being answered is cut off."""
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def requests(self) -> list[Request]:
        """What was asked since the start or the last `clear_log`, in order of arrival."""
        return msgspec.msgpack.decode(self._ask(b"log\n"), type=list[Request])

    def clear_log(self) -> None:
        """Forget what was asked so far."""
        self._ask(b"clear\n")

    def __enter__(self) -> Serving:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _started(self, config: Config) -> subprocess.Popen[bytes]:
        # The same import path as ours, and none of our working folder's modules.
        module = "opilio.lab.webs.serving_process"
        program = f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; main(sys.argv[1:])"
        assert self._folder is not None
        with (self._folder / "errors.txt").open("wb") as errors:
            return subprocess.Popen(
                [sys.executable, "-c", program, msgspec.json.encode(config).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                pass_fds=[config.listen_fd],
            )

    def _expect_ready(self, errors: Path) -> None:
        assert self._process is not None
        if read_message(self._process) != b"ready":
            why = errors.read_text("utf-8", "replace").strip().splitlines()
            raise OpilioError(f"the recorded web is not served: {why[-1] if why else 'no reason given'}")

    def _ask(self, command: bytes) -> bytes:
        with self._lock:
            if self._process is None or self._process.stdin is None:
                raise OpilioError("the recorded web is not being served", "Use it inside `with Serving(...)`.")
            try:
                self._process.stdin.write(command)
                self._process.stdin.flush()
            except BrokenPipeError:
                raise OpilioError("the server of the recorded web has ended", "Start it again.") from None
            return read_message(self._process)


def _certificate(folder: Path) -> str:
    """A file with a new key and a certificate for it; '' when they cannot be made here."""
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    command = [*_MAKE_CERTIFICATE, "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        both.write_bytes(key.read_bytes() + certificate.read_bytes())
    except (OSError, subprocess.CalledProcessError):
        return ""
    return str(both)
