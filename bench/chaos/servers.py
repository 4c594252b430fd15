"""Real servers around the crawl: nginx, squid and dnsmasq, each on loopback with a folder and a configuration of ours.

They run without rights: as the user who runs the bench, or as nobody when that is root.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.chaos.figures import descendants

START_S = 20.0
NOBODY = 65534
FILES_HOST = "files.test"
"""The host that nginx serves itself."""
NAMES_ADDRESS = "1.1.1.1"
"""What dnsmasq answers: a public address, as the crawl wants it. Nobody connects to it, the proxy knows better."""

NGINX = """\
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 1024; }}
http {{
  access_log off; server_tokens off; gzip on; types {{ text/html html; text/plain txt; }}
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} default_server backlog=512;
    location / {{
      proxy_pass http://127.0.0.1:{web_port}; proxy_http_version 1.1; proxy_read_timeout 10s;
      proxy_set_header Host $http_host; proxy_set_header Connection "";
    }}
  }}
  server {{
    listen 127.0.0.1:{port}; server_name {files_host}; root {folder}/files; autoindex on; port_in_redirect off;
  }}
}}
"""

SQUID = """\
http_port 127.0.0.1:{port}
pid_filename none
access_log none
cache_log {folder}/cache.log
cache_store_log none
coredump_dir {folder}
cache deny all
cache_mem 0
memory_pools off
pinger_enable off
shutdown_lifetime 0 seconds
via off
forwarded_for delete
max_filedescriptors 4096
acl misbehaving dstdomain {misbehaving}
http_access allow all
cache_peer 127.0.0.1 parent {web_port} 0 no-query no-digest no-netdb-exchange originserver name=bare
cache_peer localhost parent {front_port} 0 no-query no-digest no-netdb-exchange originserver name=front
cache_peer_access bare allow misbehaving
cache_peer_access bare deny all
cache_peer_access front deny misbehaving
never_direct allow all
"""

DNSMASQ = """\
port={port}
listen-address=127.0.0.1
bind-interfaces
no-resolv
no-hosts
local-ttl=2
address=/test/{address}
pid-file
log-facility={folder}/dnsmasq.log
"""


def free_port() -> int:
    """A port of loopback that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RealServer:
    """A server that is installed here, and can be killed and started again."""

    def __init__(self, command: list[str], port: int, folder: Path) -> None:
        self.port, self.folder = port, folder
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its first process; 0 while it is down."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Start it; on return it accepts connections."""
        rights = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        with (self.folder / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(  # type: ignore[call-overload]  # the rights
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder, **rights
            )
        ends_s = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
            except OSError:
                if time.monotonic() > ends_s or self._process.poll() is not None:
                    text = (self.folder / "output.txt").read_text("utf-8", "replace")[-500:]
                    raise RuntimeError(f"{self._command[0]} does not start: {text}") from None
                time.sleep(0.05)
            else:
                return

    def signal(self, number: int) -> None:
        """Send a signal to its first process."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9 of all its processes."""
        if self._process is not None:
            for pid in [*descendants(self.pid), self.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """End it in order, and start it."""
        if self._process is not None:
            self.signal(signal.SIGTERM)
            try:
                self._process.wait(START_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self.start()


class RealServers:
    """Those that are installed, by name."""

    def __init__(self, web_port: int, pages: Mapping[str, bytes], misbehaving: Iterable[str]) -> None:
        # Apart from the folder of the run, which nobody else may enter.
        self._folder = Path(tempfile.mkdtemp(prefix="opilio-chaos-servers-"))
        self._folder.chmod(0o755)
        self._found: dict[str, RealServer] = {}
        self.left_out: list[str] = []
        nginx = self._add("nginx", NGINX, ["-e", "error.log", "-p", "."], web_port=web_port, files_host=FILES_HOST)
        if nginx is not None:
            self._write_files(nginx.folder / "files", pages)
        front = nginx.port if nginx is not None else web_port
        self._add("squid", SQUID, ["-N"], web_port=web_port, front_port=front, misbehaving=" ".join(misbehaving))
        self._add("dnsmasq", DNSMASQ, ["--keep-in-foreground"], address=NAMES_ADDRESS)

    def _add(self, name: str, text: str, options: list[str], **values: object) -> RealServer | None:
        program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if program is None:
            self.left_out.append(name)
            return None
        folder = self._folder / name
        folder.mkdir()
        port = free_port()
        file = folder / f"{name}.conf"
        file.write_text(text.format(folder=folder, port=port, **values))
        config = f"--conf-file={file}" if name == "dnsmasq" else f"-c{file}" if name == "nginx" else f"-f{file}"
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        self._found[name] = RealServer([program, *options, config], port, folder)
        return self._found[name]

    @staticmethod
    def _write_files(folder: Path, pages: Mapping[str, bytes]) -> None:
        """Folders of pages, which nginx lists."""
        for place, (url, body) in enumerate(pages.items()):
            file = folder / f"folder {place // 20}" / f"{urllib.parse.urlsplit(url).netloc}-{place}.html"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)

    def __enter__(self) -> RealServers:
        try:
            for server in self._found.values():
                server.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._found.values():
            server.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def get(self, name: str) -> RealServer | None:
        """The server, if it is installed."""
        return self._found.get(name)

    def names(self) -> list[str]:
        """What is installed."""
        return list(self._found)
