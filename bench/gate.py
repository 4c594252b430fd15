"""The gate: quick benchmarks against pinned floors and ceilings (bench/floors.json).

    python bench/gate.py                 run the quick benchmarks, compare, exit 1 when one is worse than its pin
    python bench/gate.py --pin           write what was measured now as the new pins, where it is better
    python bench/gate.py --pin --lower   ... also where it is worse: say why in the commit

All pins but those of the frontier's cost are ratios to a peer of the same run, so that they hold on any machine; a
margin of 25 % is left for noise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FLOORS = HERE / "floors.json"
MARGIN = 0.25


def measure(name: str) -> dict[str, object]:
    """The figures of a quick benchmark: the last line it prints."""
    process = subprocess.run(
        [sys.executable, str(HERE / f"{name}.py"), "--quick"], stdout=subprocess.PIPE, text=True, check=False
    )
    if process.returncode != 0:
        sys.exit(f"{name}: failed")
    return json.loads(process.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--lower", action="store_true")
    options = parser.parse_args()
    pins = json.loads(FLOORS.read_text())
    figures = {name: measure(name) for name in sorted({pin["bench"] for pin in pins})}
    worse = 0
    for pin in pins:
        value = figures[pin["bench"]].get(pin["figure"])
        if value is None:
            sys.exit(f"{pin['bench']}: gives no {pin['figure']}; is a peer missing? Install: pip install -e '.[bench]'")
        is_floor = "at_least" in pin
        bound = pin["at_least"] * (1 - MARGIN) if is_floor else pin["at_most"] * (1 + MARGIN)
        good = value >= bound if is_floor else value <= bound
        worse += not good
        sign = ">=" if is_floor else "<="
        print(f"{'ok   ' if good else 'WORSE'} {pin['bench']}: {pin['figure']} = {value} (wanted {sign} {bound:.3g})")
        if options.pin:
            key = "at_least" if is_floor else "at_most"
            better = value > pin[key] if is_floor else value < pin[key]
            if better or options.lower:
                pin[key] = value
    if options.pin:
        FLOORS.write_text(json.dumps(pins, indent=2) + "\n")
        return
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
