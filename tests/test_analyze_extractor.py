"""The process that reads documents: whatever a file does there, it costs that file and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyze_documents import SENTENCE, doc, docx, epub, pdf, ppt, rtf, zipped
from opilio.analyze import Analyzer, Content, Extractor, Failure, FileReader, extractor
from opilio.errors import InputError
from opilio.model import Outcome
from opilio.settings import MIB, DocumentSettings, RobotsSettings, Settings, StoreSettings, TrapSettings

URL = "http://site.test/papers/file"
NASTY = "analyze_nasty_process:serve"
QUICK = Settings(documents=DocumentSettings(timeout_s=1.0, memory_bytes=512 * MIB))


@pytest.fixture(scope="module")
def real() -> Iterator[Extractor]:
    reader = Extractor(Settings())
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def nasty() -> Iterator[Extractor]:
    reader = Extractor(QUICK, NASTY)
    yield reader
    reader.close()


@pytest.fixture
def fresh() -> Iterator[Extractor]:
    """One whose process has not started yet."""
    reader = Extractor(QUICK, NASTY)
    yield reader
    reader.close()


def text_of(result: Content | Failure) -> str:
    assert isinstance(result, Content), result
    return result.text


def detail_of(result: Content | Failure) -> str:
    assert isinstance(result, Failure), result
    return result.detail


def is_gone(pid: int, patience_s: float = 5.0) -> bool:
    """Whether a process ends soon. One that its parent did not ask for yet counts as ended."""
    end_s = time.monotonic() + patience_s
    while time.monotonic() < end_s:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


class TestReading:
    @pytest.mark.parametrize("body", [docx(), doc(), ppt(), rtf(), epub()], ids=["docx", "doc", "ppt", "rtf", "epub"])
    @pytest.mark.parametrize("content_type", ["application/octet-stream", "application/msword", ""])
    def test_bytes_tell_the_format(self, real: Extractor, body: bytes, content_type: str) -> None:
        """Whatever the server calls a file, its bytes tell what it is."""
        assert text_of(real.read_now(body, content_type, URL)).startswith(SENTENCE)

    def test_pdf(self, real: Extractor) -> None:
        """PDFium works under the limits of the process, and links come back with their keys."""
        content = real.read_now(pdf("Some text"), "application/pdf", URL)
        assert text_of(content) == "Some text"
        assert isinstance(content, Content)
        assert [link.anchor for link in content.links] == ["Some text"]
        assert content.links[0].key

    def test_bomb_has_its_own_outcome(self) -> None:
        """A file that unpacks to too much is counted as a bomb, with the limit in words."""
        reader = Extractor(Settings(documents=DocumentSettings(max_unpacked_bytes=MIB)))
        result = reader.read_now(zipped({"a.txt": b"a" * 3 * MIB}), "application/zip", URL)
        reader.close()
        assert result == Failure("unpacks to more than 1 MiB", Outcome.BOMB)

    def test_html_sent_as_a_document(self, real: Extractor) -> None:
        """An error page sent as a PDF is not risky, and read as the page that it is."""
        analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
        body = b"<html><title>Not found</title><p>Sorry"
        assert not analyzer.is_risky(body, "application/pdf", URL)
        document = analyzer.analyze(body, "application/pdf", URL)
        assert document is not None
        assert document.title == "Not found"

    @pytest.mark.parametrize(
        ("body", "content_type", "name", "risky"),
        [
            (b"%PDF-1.4", "text/html", "", True),
            (b"{\\rtf1", "text/plain", "", True),
            (b"just text", "text/plain", "a.pdf", False),
            (b"just text", "application/pdf", "", True),
            (b"\0\1\2", "application/octet-stream", "a.bin", False),
            (b"<p>x", "text/html", "", False),
            (bytes(257) + b"ustar", "application/octet-stream", "", True),
            (b"x", "image/png", "", False),
        ],
    )
    def test_what_is_risky(self, body: bytes, content_type: str, name: str, risky: bool) -> None:
        """Bytes first, then the type; what we know nothing of is not sent to the process."""
        analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
        assert analyzer.is_risky(body, content_type, f"http://site.test/{name}") is risky

    def test_octet_stream_by_suffix(self) -> None:
        """A file of no type is read when its name and its bytes agree that it is text or HTML, else not at all."""
        analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
        names = {"a.txt": b"text", "a.html": b"text", "a.txt?x=1": b"text"}
        for name, body in names.items():
            assert analyzer.analyze(body, "application/octet-stream", f"http://site.test/{name}") is not None
        for name, body in {"a.txt": b"\0\1", "a": b"text", "a.exe": b"MZ"}.items():
            assert analyzer.analyze(body, "application/octet-stream", f"http://site.test/{name}") is None


class TestHarm:
    @pytest.mark.parametrize("kind", ["test/sleep", "test/spin"])
    def test_hanging(self, nasty: Extractor, kind: str) -> None:
        """A file that hangs, idle or busy, is given up in time; the next one is read."""
        text_of(nasty.read_now(b"", "test/echo", URL))  # so that it is started
        start_s = time.monotonic()
        assert detail_of(nasty.read_now(b"", kind, URL)) == "took longer than 1 s"
        assert time.monotonic() - start_s < 3.0
        assert text_of(nasty.read_now(b"next", "test/echo", URL)) == "next"

    def test_crash(self, nasty: Extractor) -> None:
        """A file that crashes its reader is told so; the next one is read."""
        assert detail_of(nasty.read_now(b"", "test/crash", URL)) == "crashed the process that read it (SIGSEGV)"
        assert text_of(nasty.read_now(b"next", "test/echo", URL)) == "next"

    def test_memory(self, nasty: Extractor) -> None:
        """A file that needs too much memory is given up."""
        assert detail_of(nasty.read_now(b"", "test/memory", URL)) == "needs more than 512 MiB of memory"
        assert text_of(nasty.read_now(b"next", "test/echo", URL)) == "next"

    def test_no_writing(self, nasty: Extractor, tmp_path: Path) -> None:
        """The process cannot put anything into files."""
        path = tmp_path / "file"
        assert "File too large" in detail_of(nasty.read_now(str(path).encode(), "test/write", URL))
        assert not path.exists() or not path.read_text()

    def test_environment(self, fresh: Extractor, monkeypatch: pytest.MonkeyPatch) -> None:
        """What our environment holds (passwords of proxies, say) is not told to the process."""
        monkeypatch.setenv("SECRET_TOKEN", "x")
        assert "SECRET_TOKEN" not in text_of(fresh.read_now(b"", "test/environment", URL)).split()

    def test_unknown_kind(self, nasty: Extractor) -> None:
        """A kind without a reader is a failure in words."""
        assert detail_of(nasty.read_now(b"x", "test/nothing", URL)) == "no reader for test/nothing"

    def test_killed(self, nasty: Extractor) -> None:
        """kill -9 of the process in the middle of a file costs that file; killed while idle it costs nothing."""
        pid = int(text_of(nasty.read_now(b"", "test/process", URL)))
        threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()
        assert detail_of(nasty.read_now(b"", "test/sleep", URL)) == "crashed the process that read it (SIGKILL)"
        pid = int(text_of(nasty.read_now(b"", "test/process", URL)))
        os.kill(pid, signal.SIGKILL)
        assert is_gone(pid)
        assert text_of(nasty.read_now(b"next", "test/echo", URL)) == "next"

    def test_children_end_too(self, nasty: Extractor, tmp_path: Path) -> None:
        """A program that was started for a file (Ghostscript, say) ends with the process."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        found: list[str] = []
        listener = threading.Thread(target=lambda: found.append(pipe.read_text()))
        listener.start()
        assert detail_of(nasty.read_now(str(pipe).encode(), "test/child", URL)) == "took longer than 1 s"
        listener.join(5)
        assert is_gone(int(found[0]))


class TestLife:
    def test_starts_when_needed_and_is_renewed(self, fresh: Extractor, monkeypatch: pytest.MonkeyPatch) -> None:
        """One process reads many files, then a fresh one takes its place."""
        monkeypatch.setattr(extractor, "FILES_PER_PROCESS", 3)
        pids = [text_of(fresh.read_now(b"", "test/process", URL)) for _ in range(7)]
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]

    def test_many_at_once(self, nasty: Extractor) -> None:
        """Files that are asked for together are all answered, each with its own text."""

        async def read_all() -> list[Content | Failure]:
            return await asyncio.gather(*(nasty.read(str(n).encode(), "test/echo", URL) for n in range(40)))

        assert [text_of(result) for result in asyncio.run(read_all())] == [str(n) for n in range(40)]

    def test_cancelled(self, nasty: Extractor) -> None:
        """A task that is cancelled leaves no answer behind for the next one."""

        async def read_two() -> Content | Failure:
            first = asyncio.create_task(nasty.read(b"first", "test/echo", URL))
            await asyncio.sleep(0.001)
            first.cancel()
            return await nasty.read(b"second", "test/echo", URL)

        assert text_of(asyncio.run(read_two())) == "second"

    def test_closed_in_the_middle(self) -> None:
        """Closing does not wait for a file that takes long."""
        reader = Extractor(Settings(documents=DocumentSettings(timeout_s=30.0)), NASTY)
        pid = int(text_of(reader.read_now(b"", "test/process", URL)))

        async def close() -> Content | Failure:
            task = asyncio.create_task(reader.read(b"", "test/sleep", URL))
            waiting = asyncio.create_task(reader.read(b"", "test/echo", URL))
            await asyncio.sleep(0.2)
            await reader.aclose()
            assert await waiting == await reader.read(b"", "test/echo", URL) == Failure("reading was stopped")
            return await task

        start_s = time.monotonic()
        assert isinstance(asyncio.run(close()), Failure)
        assert time.monotonic() - start_s < 5.0
        assert is_gone(pid)
        assert detail_of(reader.read_now(b"", "test/echo", URL)) == "reading was stopped"

    @pytest.mark.parametrize("kind", ["test/echo", "test/sleep", "test/spin"])
    def test_parent_dies(self, kind: str) -> None:
        """When the worker is killed, its process for documents ends at once, idle or in the middle of a file."""
        program = f"""
import sys, time
sys.path.append({str(Path(__file__).parent)!r})
from opilio.analyze import Extractor
from opilio.settings import DocumentSettings, Settings
reader = Extractor(Settings(documents=DocumentSettings(timeout_s=100.0)), {NASTY!r})
print(reader.read_now(b"", "test/process", "{URL}").text, flush=True)
reader.read_now(b"", "{kind}", "{URL}")
time.sleep(100)
"""
        parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.2)
        parent.kill()
        parent.wait()
        parent.stdout.close()
        assert is_gone(pid)

    def test_libraries_stay_out_of_workers(self) -> None:
        """What reads documents is loaded in the process for documents only."""
        program = (
            "import sys; from opilio.analyze import Analyzer, Extractor, FileReader; import opilio.settings as s;"
            "Analyzer(s.TrapSettings(), s.RobotsSettings(), s.StoreSettings());"
            "print([m for m in ('pypdfium2', 'olefile', 'tarfile', 'pyexpat', 'opilio.analyze.documents.pdf') if m in sys.modules])"
        )
        printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        assert printed.strip() == "[]"


class TestFiles:
    def test_any_format(self, tmp_path: Path) -> None:
        """Files on disk are read in one way, whatever they are."""
        files = {"a.docx": docx(), "b.pdf": pdf("Some text"), "c.html": b"<p>Page", "d.txt": b"Plain", "e": rtf()}
        with FileReader(Settings()) as reader:
            for name, body in files.items():
                (tmp_path / name).write_bytes(body)
            texts = [reader.read(tmp_path / name).text.partition("\n")[0] for name in files]
        assert texts == [SENTENCE, "Some text", "Page", "Plain", SENTENCE]

    def test_what_is_wrong(self, tmp_path: Path) -> None:
        """A file that cannot be read is an error that names it and says why."""
        (tmp_path / "a.pdf").write_bytes(b"%PDF-1.4 broken")
        (tmp_path / "b.bin").write_bytes(b"\0\1\2")
        with FileReader(Settings()) as reader:
            with pytest.raises(InputError, match=r"a\.pdf: broken PDF"):
                reader.read(tmp_path / "a.pdf")
            with pytest.raises(InputError, match=r"b\.bin: neither text"):
                reader.read(tmp_path / "b.bin")
            with pytest.raises(InputError, match="No such file"):
                reader.read(tmp_path / "c.pdf")
