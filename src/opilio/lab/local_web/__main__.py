"""`python -m opilio.lab.local_web`: serve the local web until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys

from opilio.errors import OpilioError
from opilio.lab.local_web.builder import Size
from opilio.lab.local_web.server import LocalServer


def main(arguments: list[str] | None = None) -> int:
    """Serve, say how to crawl it, wait."""
    options = _options(arguments)
    try:
        print("Reading the documentation installed here ...", flush=True)
        with LocalServer(options.size, latency_s=options.latency, port=options.port, log=False) as server:
            _introduce(server)
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    except KeyboardInterrupt:
        pass
    except OpilioError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 1
    print("\nThe local web is gone.")
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m opilio.lab.local_web", description="Serve the local web on loopback."
    )
    parser.add_argument("--port", type=int, default=8800, help="port on 127.0.0.1; 0: any free one (default: 8800)")
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS", help="wait before each answer")
    parser.add_argument("--size", type=_size, default="full", help="full, small or a number of pages (default: full)")
    return parser.parse_args(arguments)


def _size(text: str) -> Size:
    if text == "small":
        return "small"
    if text == "full":
        return "full"
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not full, small or a number of pages")


def _introduce(server: LocalServer) -> None:
    web = server.web
    # From here on Ctrl-C is waited for, not raised: the server is always shut down in order.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    print(f"Serving {len(web.pages)} pages on {len(web.hosts)} hosts at http://{server.address}/ (Ctrl-C ends).")
    print("Crawl it with Opilio by these settings:")
    print(f'  [fetch]\n  connect_to = {{ "*.test" = "{server.address}" }}')
    print("or with any other program through it as a proxy, for example:")
    print(f"  http_proxy=http://{server.address}/ wget -O - http://directory.test/")
    print("Start at http://directory.test/, or see hosts that misbehave at http://trouble.test/.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
