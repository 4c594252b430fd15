"""Compiled modules are optional, and whoever runs them can see it. `make test-compiled` runs this over them."""

import os
import subprocess
import sys
from pathlib import Path

import opilio

ROOT = Path(__file__).parents[1]


def version() -> str:
    """What `opilio --version` says of the package that these tests import."""
    environment = dict(os.environ, PYTHONPATH=str(Path(opilio.__file__).parents[1]))
    command = [sys.executable, "-m", "opilio", "--version"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_version_says_whether_modules_are_compiled() -> None:
    """A plain installation is pure Python; one that was built with OPILIO_COMPILE=1 says so."""
    is_compiled = os.environ.get("OPILIO_COMPILE", "") == "1"
    assert version().endswith("(compiled)\n") is is_compiled
    assert version().startswith(f"opilio, version {opilio.__version__}")


def test_the_source_has_no_compiled_modules() -> None:
    """Python would import them long after their source has changed."""
    assert not [*(ROOT / "src").rglob("*.so")]
