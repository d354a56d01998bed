"""Makes .venv with exactly the versions of constraints.txt, and resolves what would be installed before it installs it.

The same pin of torch is a CPU build on one machine and gigabytes of CUDA on another. Where there is no GPU and an
nvidia package would come, this stops and says how to get the CPU build. Standard library only: it runs before anything
is installed.
"""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path
from shutil import which
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST = (3, 11)


def requirements(project: Mapping[str, Any]) -> list[str]:
    """What the package and its developers need, from a parsed pyproject.toml."""
    return [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]


def names(report: Mapping[str, Any]) -> list[str]:
    """The packages that pip's installation report would install."""
    return sorted(item["metadata"]["name"].lower().replace("_", "-") for item in report["install"])


def refusal(report: Mapping[str, Any], gpu: bool) -> str | None:
    """Why not to go on with what pip resolved, in one sentence; None where all is well."""
    unwanted = [name for name in names(report) if name.startswith("nvidia-")]
    if gpu or not unwanted:
        return None
    return (
        f"this machine has no NVIDIA GPU, and {len(unwanted)} CUDA packages would come ({', '.join(unwanted[:3])}); "
        "point set-up at PyTorch's CPU builds: make setup TORCH_INDEX=https://download.pytorch.org/whl/cpu"
    )


def has_gpu(driver: Path = Path("/proc/driver/nvidia")) -> bool:
    """Whether an NVIDIA driver is here; torch is not yet installed and cannot be asked."""
    return driver.exists() or which("nvidia-smi") is not None


def index_options(environment: Mapping[str, str]) -> list[str]:
    """Where else to look for torch: `2.13.0+cpu` from there is preferred to `2.13.0` from the ordinary index."""
    index = environment.get("TORCH_INDEX", "").strip()
    return ["--extra-index-url", index] if index else []


def pip(*arguments: str) -> None:
    """Runs the environment's own pip, quietly but for warnings that matter."""
    python = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    subprocess.run(
        [str(python), "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"], check=True, cwd=ROOT
    )


def install() -> str | None:
    """Sets everything up; the reason where it stopped."""
    if not (VENV / "pyvenv.cfg").exists():
        venv.create(VENV, with_pip=True)
    wanted = requirements(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    options = ["--constraint", "constraints.txt", *index_options(os.environ)]
    pip("install", *options, "--upgrade", "pip")
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "report.json"
        pip("install", *options, *wanted, "--dry-run", "--report", str(found))
        report = json.loads(found.read_text(encoding="utf-8"))
    if reason := refusal(report, has_gpu()):
        return reason
    pip("install", *options, *wanted)
    pip("install", "--no-deps", "--no-build-isolation", "--editable", ".")
    print(f"set up {VENV.name} with {len(report['install'])} packages new or changed; .venv/bin/qkv is ready")
    return None


def main() -> int:
    if sys.version_info < OLDEST:
        found, wanted = sys.version.split()[0], ".".join(map(str, OLDEST))
        print(f"setup: Python is {found}; qkv needs {wanted}: make setup PYTHON=python{wanted}", file=sys.stderr)
        return 2
    try:
        reason = install()
    except subprocess.CalledProcessError as error:
        reason = f"pip ended with {error.returncode}; its own words stand above"
    if reason:
        print(f"setup: {reason}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
