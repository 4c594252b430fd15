"""What is installed: distributions that hold everything and nothing else, the container's context, and missing extras."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import opilio
from opilio import OpilioError
from opilio.cluster.workers import check_ray
from opilio.crawl.shipping import UrlStorage
from opilio.errors import install_command, not_installed
from opilio.features import encoder, word_vectors
from opilio.lab.experiments import plots
from opilio.render.installation import find_program
from opilio.settings import Settings

ROOT = Path(__file__).parent.parent
PACKAGE = Path(opilio.__file__).parent
CONTEXT = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the source distribution, built from no more than what the container is built from."""
    context, target = tmp_path_factory.mktemp("context"), tmp_path_factory.mktemp("dist")
    for name in CONTEXT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, context / name)
    pytest.importorskip("build")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    built = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(context)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr
    return target


def package_files() -> set[str]:
    """Every file of the package, as git has it."""
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    return {f"opilio/{path.relative_to(PACKAGE).as_posix()}" for path in files}


@pytest.mark.slow
def test_the_distributions_are_complete(distributions: Path) -> None:
    """The wheel has each file of the package, its metadata and the manual page; the source distribution has besides
    these what a build needs. Neither has anything else, and both are described as package indexes want it."""
    [wheel], [source] = distributions.glob("*.whl"), distributions.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    others = {re.sub(r"opilio-[\d.]+\.", "", name) for name in names - package_files()}
    assert package_files() <= names
    assert others == {
        "data/data/share/man/man1/opilio.1",
        *(
            f"dist-info/{name}"
            for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt")
        ),
    }
    with tarfile.open(source) as archive:
        packed = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert {f"src/{name}" for name in package_files()} <= packed
    rest = {name for name in packed if not name.startswith("src/")}
    assert rest == {
        "CHANGELOG.md",
        "LICENSE",
        "MANIFEST.in",
        "PKG-INFO",
        "README.md",
        "docs/reference/opilio.1",
        "pyproject.toml",
        "setup.cfg",
    }
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, distributions.iterdir())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.slow
def test_the_wheel_runs(distributions: Path, tmp_path: Path) -> None:
    """Unpacked elsewhere, with only the libraries of this environment, it crawls the demo, publishes and serves it."""
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as archive:
        archive.extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    ended = subprocess.run(
        [sys.executable, "-m", "opilio", "demo", "--no-portal", "--max-pages", "40"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr
    where = subprocess.run(
        [sys.executable, "-c", "import opilio; print(opilio.__file__)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(tmp_path / "installed"))
    assert list(tmp_path.rglob("rss.xml")) and list(tmp_path.rglob("index.html"))


def test_the_container_runs_as_a_user_and_is_checked() -> None:
    """Neither service of the composition has rights it does not need, and the portal is published to loopback alone;
    hadolint, where it is installed, finds nothing wrong."""
    text = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^USER 10001", text, re.MULTILINE) and "HEALTHCHECK" in text and "VOLUME /collections" in text
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for service in services.values():
        assert (
            service["read_only"]
            and service["cap_drop"] == ["ALL"]
            and service["security_opt"] == ["no-new-privileges:true"]
        )
    assert all(port.startswith("127.0.0.1:") for port in services["portal"]["ports"])
    assert services["crawl"]["network_mode"] == "service:portal"
    if linter := shutil.which("hadolint"):
        assert subprocess.run([linter, str(ROOT / "Dockerfile")], check=False).returncode == 0


def test_the_container_has_what_a_build_needs() -> None:
    """What pyproject.toml names, and the manual page, are in the context; tests and documentation are not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [
        project["project"]["readme"],
        *(file for files in project["tool"]["setuptools"]["data-files"].values() for file in files),
    ]
    assert {*needed, "src", "pyproject.toml", "LICENSE", "MANIFEST.in"} <= {*CONTEXT}
    assert all((ROOT / name).exists() for name in CONTEXT) and not {"tests", "docs", ".git"} & {*CONTEXT}


MISSING: dict[str, Callable[[], Any]] = {
    "embeddings": word_vectors.find_installed,
    "encoder": lambda: encoder.find_encoder("installed"),
    "cluster": check_ray,
    "render": lambda: find_program(Settings()),
    "evaluate": lambda: plots.draw(None, "", ""),  # type: ignore[arg-type]  # it fails before it looks
}


@pytest.mark.parametrize("extra", MISSING)
def test_a_missing_extra_is_one_command_away(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs a package that is not there says which, and the command to type."""
    for module in (word_vectors, encoder, plots, importlib.util):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(OpilioError, match=r"is not installed, which .* needs") as caught:
        MISSING[extra]()
    assert caught.value.hint.startswith(f"pip install 'opilio[{extra}]'")


def test_extras_are_those_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each extra that the code names exists; storage other than a folder needs the one for clusters."""
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    named = {extra for path in PACKAGE.rglob("*.py") for extra in re.findall(r"opilio\[(\w+)\]", path.read_text())}
    assert named | {*MISSING} <= extras
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(OpilioError, match="fsspec is not installed") as caught:
        UrlStorage("s3://bucket/folder")
    assert "opilio[cluster]" in caught.value.hint and caught.value.hint.endswith("folder.")


@pytest.mark.parametrize(
    ("left_by", "command"),
    [
        ("pyvenv.cfg", "pip install 'opilio[mcp]'"),
        ("pipx_metadata.json", "pipx runpip env install 'opilio[mcp]'"),
        ("uv-receipt.toml", "uv pip install --python /somewhere/env/bin/python 'opilio[mcp]'"),
    ],
)
def test_the_command_is_that_of_the_installer(
    left_by: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip, pipx and uv each add an extra, or another package, to an environment by another command; pipx and uv leave
    a file in the environments they make. No command looks for Opilio in the package index, or drops other extras."""
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / left_by).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setattr(sys, "executable", "/somewhere/env/bin/python")
    assert install_command("mcp") == command
    assert not_installed("mcp", "`opilio mcp`", "mcp").hint == command
    assert not_installed("pandas", "to_pandas").hint == command.replace("'opilio[mcp]'", "pandas")


def test_commands_that_install_an_extra_are_written_in_one_place() -> None:
    """So that all of them fit the program that installed Opilio."""
    assert not [path for path in PACKAGE.rglob("*.py") if "pip install 'opilio[" in path.read_text()]
