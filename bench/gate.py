"""The gate: speed and quality against pinned floors and ceilings, and known vulnerabilities of the dependencies.

    python bench/gate.py                    measure, compare, exit 1 when a figure is worse than its pin
    python bench/gate.py --only quality     ... the crawls of experiments/gate.toml only; or --only speed, --only audit
    python bench/gate.py --webs FOLDER      ... on the recorded webs in FOLDER, too
    python bench/gate.py --pin              write what was measured now as the new pins, where it is better
    python bench/gate.py --pin --lower      ... also where it is worse: say why in the commit

Speed (floors.json): all pins but those of the frontier's cost are ratios to a peer of the same run, so that they hold
on any machine; a margin of 25 % is left for noise. Quality (quality_floors.json): what crawls of recorded webs found,
pinned with the digests of the webs. One of them is made up by this program and the same everywhere; another one that is
not in FOLDER is reported and left out, one with another digest is refused. Audit: pip-audit looks up the versions of
the lock file; packages that it cannot look up, as without a network, are reported and do not count.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from opilio.errors import OpilioError
from opilio.lab.experiments.experiment import load
from opilio.lab.experiments.floors import check, pin, read_pins, write_pins
from opilio.lab.experiments.runner import run_experiment
from opilio.lab.experiments.summary import ExperimentSummary
from opilio.lab.webs.generated import NAME, make_web
from opilio.lab.webs.recorded import is_web

HERE = Path(__file__).parent
FLOORS = HERE / "floors.json"
QUALITY_FLOORS = HERE / "quality_floors.json"
LOCK = HERE.parent / "requirements-dev.txt"
EXPERIMENT = HERE.parent / "experiments" / "gate.toml"
MARGIN = 0.25


def measure(name: str) -> dict[str, object]:
    """The figures of a quick benchmark: the last line it prints."""
    process = subprocess.run(
        [sys.executable, "-m", f"bench.speed.{name}", "--quick"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        cwd=HERE.parent,
    )
    if process.returncode != 0:
        sys.exit(f"{name}: failed")
    return json.loads(process.stdout.splitlines()[-1])


def speed(options: argparse.Namespace) -> int:
    """Compare or pin speed; how many figures are worse."""
    pins = json.loads(FLOORS.read_text())
    figures = {name: measure(name) for name in sorted({pin["bench"] for pin in pins})}
    worse = 0
    for pinned in pins:
        value = figures[pinned["bench"]].get(pinned["figure"])
        what = f"{pinned['bench']}: {pinned['figure']}"
        if value is None:
            sys.exit(f"{what}: not measured; is a peer missing? Install: pip install -e '.[bench]'")
        is_floor = "at_least" in pinned
        bound = pinned["at_least"] * (1 - MARGIN) if is_floor else pinned["at_most"] * (1 + MARGIN)
        good = value >= bound if is_floor else value <= bound
        worse += not good
        print(f"{'ok' if good else 'WORSE':12} {what} = {value} (wanted {'>=' if is_floor else '<='} {bound:.3g})")
        if options.pin:
            key = "at_least" if is_floor else "at_most"
            better = value > pinned[key] if is_floor else value < pinned[key]
            if better or options.lower:
                pinned[key] = value
    if options.pin:
        FLOORS.write_text("[\n" + ",\n".join(f"  {json.dumps(pinned)}" for pinned in pins) + "\n]\n")
    return worse


def crawl(webs_folder: Path | None) -> ExperimentSummary:
    """The results of the gate's experiment on all webs that are there."""
    experiment = load(EXPERIMENT, webs_folder)
    with tempfile.TemporaryDirectory(prefix="opilio-gate-") as name:
        made = make_web(Path(name) / NAME)
        webs = []
        for web in experiment.webs:
            at = msgspec.structs.replace(web, path=str(made.folder)) if web.name == NAME else web
            if is_web(Path(at.path)):
                webs.append(at)
            else:
                print(f"{'missing':12} {web.name}: no recorded web at {web.path}, left out")
        return ExperimentSummary(
            run_experiment(msgspec.structs.replace(experiment, webs=tuple(webs)), Path(name) / "out")
        )


def quality(options: argparse.Namespace) -> int:
    """Compare or pin quality; how many figures are worse, or could not be compared."""
    pins = read_pins(QUALITY_FLOORS)
    summary = crawl(options.webs)
    checks = check(summary, pins)
    for found in checks:
        print(found)
    if options.pin:
        write_pins(QUALITY_FLOORS, pin(summary, pins, lower=options.lower))
    return sum(found.state.is_failure for found in checks)


def audit() -> int:
    """Look up the locked versions; how many of them have a known vulnerability."""
    process = subprocess.run(
        [
            sys.executable, "-m", "pip_audit", "--requirement", LOCK, "--require-hashes", "--disable-pip",
            "--format", "json", "--progress-spinner", "off",
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    try:
        packages = json.loads(process.stdout)["dependencies"]
    except ValueError:
        sys.exit(f"audit: pip-audit failed; is it missing? Install: pip install -e '.[bench]'\n{process.stderr}")
    looked_up = [package for package in packages if "vulns" in package]
    unsafe = [package for package in looked_up if package["vulns"]]
    for package in unsafe:
        print(f"{'UNSAFE':12} {package['name']} {package['version']}: {', '.join(v['id'] for v in package['vulns'])}")
    state = "missing" if len(looked_up) < len(packages) else "UNSAFE" if unsafe else "ok"
    print(f"{state:12} audit: {len(looked_up)} of {len(packages)} packages looked up, {len(unsafe)} are vulnerable")
    return len(unsafe)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["speed", "quality", "audit"])
    parser.add_argument("--webs", type=Path, help="folder in which recorded webs are")
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--lower", action="store_true")
    options = parser.parse_args(arguments)
    worse = 0
    try:
        worse += audit() if options.only in (None, "audit") else 0
        worse += quality(options) if options.only in (None, "quality") else 0
        worse += speed(options) if options.only in (None, "speed") else 0
    except OpilioError as error:
        sys.exit(f"{error.message}\nhint: {error.hint}")
    sys.exit(1 if worse and not options.pin else 0)


if __name__ == "__main__":
    main()
