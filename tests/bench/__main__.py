"""Every budget, measured one after the other on this machine.

    python -m tests.bench [NAME …]

Figures of a busy machine are still comparable where they are ratios of paired runs; the machine and its load are
printed first. Do not run it with PYTHONDONTWRITEBYTECODE set: without bytecode the imports dominate.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Sequence

BENCHES = ("explorer", "read", "diagnose", "group", "monitor")


def main(names: Sequence[str]) -> int:
    """Run the named benchmarks (all for none); returns 2 on an unknown name, 1 if one failed."""
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    print(machine())
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    failed = 0
    for name in names or BENCHES:
        print(f"\n{name}", flush=True)
        command = [sys.executable, "-m", f"tests.bench.bench_{name}"]
        failed |= subprocess.run(command, env=environment, check=False).returncode != 0
    return int(failed)


def machine() -> str:
    """What was measured on."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("torch", "textual", "numpy", "msgspec")
    )
    return f"{platform.machine()}, {os.cpu_count()} cores{load}; Python {platform.python_version()}, {versions}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
