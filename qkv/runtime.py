"""What this machine offers, and what follows from it: threads, number format, device.

Facts are read once and held in one frozen value; the choices are functions of that value, so that a test can ask about
any machine.
"""

import os
import platform
import resource
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Precision = Literal["bf16", "fp32"]

FLAGS_THAT_MATTER = (
    "avx2",
    "avx512f",
    "avx512_bf16",
    "avx512_vnni",
    "avx_vnni",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
)


@dataclass(frozen=True)
class Gpu:
    """One accelerator: its name, its memory in bytes, whether it multiplies in bf16."""

    name: str
    memory: int
    bf16: bool


@dataclass(frozen=True)
class Machine:
    """What was found: the processor and what of it this process may use, memory in bytes, PyTorch, accelerators."""

    cpu: str
    flags: tuple[str, ...]
    usable_cpus: int
    cores: int
    sockets: int
    memory: int
    torch: str
    gpus: tuple[Gpu, ...] = ()


@cache
def this_machine() -> Machine:
    """The facts of the machine this process runs on."""
    import torch

    cpuinfo = _text("/proc/cpuinfo")
    cpu, flags = read_processor(cpuinfo)
    usable = min(_allowed_cpus(), read_quota(_text("/sys/fs/cgroup/cpu.max")) or _allowed_cpus())
    cores, sockets = read_cores(cpuinfo) or (usable, 1)
    gpus = tuple(_gpu(torch, i) for i in range(torch.cuda.device_count())) if torch.cuda.is_available() else ()
    memory = min(_physical_memory(), read_limit(_text("/sys/fs/cgroup/memory.max")) or _physical_memory())
    return Machine(cpu, flags, usable, cores, sockets, memory, torch.__version__, gpus)


def threads(machine: Machine | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """How many threads one product of matrices is spread over.

    One for each physical core of one socket: hyperthreads share the multiplier, and another socket's memory is far.
    What the process may use bounds it; `OMP_NUM_THREADS` overrules it.
    """
    asked = environment.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    machine = machine or this_machine()
    return max(1, min(machine.usable_cpus, machine.cores // max(1, machine.sockets)))


def pick_precision(machine: Machine | None = None) -> Precision:
    """bf16 where the hardware multiplies in it: the GPU where there is one, otherwise AVX-512 BF16 or AMX."""
    machine = machine or this_machine()
    if machine.gpus:
        return "bf16" if all(gpu.bf16 for gpu in machine.gpus) else "fp32"
    return "bf16" if {"avx512_bf16", "amx_bf16"} & set(machine.flags) else "fp32"


def device(machine: Machine | None = None) -> "torch.device":
    """Where tensors live: the GPU where there is one."""
    import torch

    machine = machine or this_machine()
    return torch.device("cuda" if machine.gpus else "cpu")


def wait_for(device: "torch.device") -> None:
    """Until it has done what it was given; a CPU has."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def peak_memory() -> int:
    """The most bytes this process has held: on the GPU where there is one, else in all."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    field = _text("/proc/self/status").partition("VmHWM:")[2].split()
    return int(field[0]) * 1024 if field else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory_held(*, forget_peak: bool = False) -> int:
    """The bytes that this process holds now; the peak is counted from now on if asked, where the system allows."""
    import torch

    if torch.cuda.is_available():
        if forget_peak:
            torch.cuda.reset_peak_memory_stats()
        return int(torch.cuda.memory_allocated())
    if forget_peak:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    fields = _text("/proc/self/statm").split()
    return int(fields[1]) * resource.getpagesize() if fields else peak_memory()


def data_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where benchmark data lies (`QKV_DATA`), if that is said and there."""
    named = environment.get("QKV_DATA", "")
    return Path(named) if named and Path(named).is_dir() else None


def read_processor(cpuinfo: str) -> tuple[str, tuple[str, ...]]:
    """The name and the flags that matter, from the text of /proc/cpuinfo."""
    fields = _fields(cpuinfo.split("\n\n")[0])
    found = set(fields.get("flags", "").split())
    return fields.get("model name") or platform.machine(), tuple(flag for flag in FLAGS_THAT_MATTER if flag in found)


def read_cores(cpuinfo: str) -> tuple[int, int] | None:
    """Physical cores and sockets, from the text of /proc/cpuinfo; None where it does not say."""
    seen = {
        (f["physical id"], f["core id"])
        for f in map(_fields, cpuinfo.split("\n\n"))
        if "physical id" in f and "core id" in f
    }
    return (len(seen), len({socket for socket, _ in seen})) if seen else None


def read_quota(cpu_max: str) -> int | None:
    """Whole processors that a container's `cpu.max` allows, at least one; None for no limit."""
    quota, _, period = cpu_max.strip().partition(" ")
    return max(1, int(quota) // int(period)) if quota.isdecimal() and period.isdecimal() else None


def read_limit(memory_max: str) -> int | None:
    """Bytes that a container's `memory.max` allows; None for no limit."""
    return int(memory_max) if memory_max.strip().isdecimal() else None


def _fields(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _allowed_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gpu(torch: ModuleType, index: int) -> Gpu:
    properties = torch.cuda.get_device_properties(index)
    # Emulated bf16 does not count; compute capability 8.0 is the first with it in hardware.
    return Gpu(properties.name, properties.total_memory, bf16=properties.major >= 8)
