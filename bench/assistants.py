"""A newcomer's path to an assistant, timed: from a wheel to a page that a client of the official SDK has read.

    python -m build --wheel -o /tmp/dist .
    python -m bench.assistants /tmp/dist/opilio-*.whl

It gets pipx into an empty home, installs the wheel with the extra `mcp` by it, and lets the SDK's client start
`opilio mcp`, as an assistant's program does. The client starts a crawl (of the local web, so that no site is bothered),
watches it, searches, and reads the best page. The last line is JSON: seconds by step, and the CPU time of the
installation.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from opilio.lab.local_web import LocalServer, build

SEEDS = ["http://directory.test/", "http://statistics.python.test/", "http://math.python.test/"]
CLIENT = """
import asyncio, json, sys, time
from mcp import Client, StdioServerParameters, stdio_client

async def main(command, args, seeds):
    took, began = {}, time.monotonic()
    def step(name):
        nonlocal began
        took[name], began = round(time.monotonic() - began, 2), time.monotonic()
    async with Client(stdio_client(StdioServerParameters(command=command, args=args))) as client:
        tools = (await client.list_tools()).tools
        step("connect and list tools")
        async def call(name, **arguments):
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result.content[0].text
            return result.content[0].text
        await call("start_crawl", collection="first", seeds=seeds, query="statistics mean median", max_pages=100)
        step("start a crawl")
        found = {"results": []}
        while not found["results"]:
            await call("watch_crawl", collection="first", wait_s=5)
            tried = await client.call_tool("search", {"collection": "first", "question": "median", "size": 5})
            if not tried.is_error:  # the index of a crawl that has just begun is made within seconds
                found = json.loads(tried.content[0].text.partition("\\n")[2])
        step("crawl and search")
        page = await call("read_page", collection="first", url=found["results"][0]["url"])
        step("read a page")
        status = json.loads((await call("watch_crawl", collection="first")).partition("\\n")[2])
    sizes = {"list_tools": sum(len(tool.model_dump_json()) for tool in tools), "search": len(json.dumps(found)),
             "read_page": len(page)}
    print(json.dumps({"seconds": took, "pages": status["pages"], "characters": sizes,
                      "first": found["results"][0]["title"]}))

asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])))
"""


def main(wheel: Path) -> None:
    """Print what each step takes."""
    with tempfile.TemporaryDirectory() as place, LocalServer(build("small")) as web:
        folder = Path(place)
        began_s = time.monotonic()
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        subprocess.run([folder / "env" / "bin" / "pip", "install", "--quiet", "pipx"], check=True)
        pipx_s = time.monotonic() - began_s
        home = {"HOME": place, "PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "bin")}
        plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | home
        command = [folder / "env" / "bin" / "pipx", "install", "--quiet", f"{wheel.absolute()}[mcp]"]
        subprocess.run(command, check=True, env=plain, stdout=sys.stderr)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        installed_s = time.monotonic() - began_s - pipx_s
        (folder / "collections").mkdir()
        connect_to = ", ".join(f'"{host}" = "{address}"' for host, address in web.connect_to.items())
        arguments = ["mcp", str(folder / "collections"), "--set", f"fetch.connect_to={{ {connect_to} }}"]
        python = folder / "pipx" / "venvs" / "opilio" / "bin" / "python"  # it has the SDK
        done = subprocess.run(
            [python, "-c", CLIENT, folder / "bin" / "opilio", json.dumps(arguments), json.dumps(SEEDS)],
            check=True, stdout=subprocess.PIPE, text=True, cwd=folder, env=plain,
        )  # fmt: skip
        all_s = time.monotonic() - began_s  # with the start and the end of the client
        report = json.loads(done.stdout.splitlines()[-1])
        steps = {"get pipx": round(pipx_s, 1), "install": round(installed_s, 1), **report["seconds"]}
        report["install_cpu_s"] = round(used.ru_utime + used.ru_stime, 1)
        report["seconds"] = steps | {"all": round(all_s, 1)}
        print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
