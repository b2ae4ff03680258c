"""Every budget, measured one after the other on this machine.

    python -m tests.bench [NAME …] [--markdown]

Figures of a busy machine are still comparable where they are ratios of paired runs; the machine and its load are
printed first. `--markdown` prints tables alone, as they stand in docs/performance.md.
"""

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path

from tests.bench.figures import MARKDOWN

BENCHES = {
    "explorer": "bench_explorer",
    "read": "bench_read",
    "diagnose": "bench_diagnose",
    "training": "bench_training",
    "audit": "bench_audit",
    "coverage": "coverage",
}


def main(argv):
    """Run the named benchmarks (all for none); returns 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.names if name not in BENCHES]:
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHES)}")
    print(machine(), flush=True)
    # without bytecode the imports dominate
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    if options.markdown:
        environment[MARKDOWN] = "1"
    failed = []
    for name in options.names or BENCHES:
        print(flush=True)
        command = [sys.executable, "-m", f"tests.bench.{BENCHES[name]}"]
        if subprocess.run(command, env=environment, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def machine():
    """What was measured on."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("torch", "textual", "numpy", "msgspec")
    )
    return f"{processor()}, {os.cpu_count()} cores{load}, {gpu()}; Python {platform.python_version()}, {versions}"


def processor():
    """The processor's name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def gpu():
    """The GPU's name, asked in a process of its own: the CUDA runtime stays out of this one."""
    code = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else 'no GPU: no GPU lines')"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
