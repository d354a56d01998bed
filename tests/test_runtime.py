"""The choices that follow from a machine, asked of machines that are not here; the facts, read from texts that are."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from qkv.runtime import (
    Gpu,
    Machine,
    data_folder,
    device,
    pick_precision,
    read_cores,
    read_limit,
    read_processor,
    read_quota,
    this_machine,
    threads,
)

LAPTOP = Machine(cpu="a laptop", flags=("avx2",), usable_cpus=8, cores=4, sockets=1, memory=8 << 30, torch="2.13.0")


@pytest.mark.parametrize(
    ("usable", "cores", "sockets", "expected"),
    [
        (2, 2, 1, 2),
        (2, 1, 1, 1),
        (8, 8, 1, 8),
        (16, 8, 1, 8),
        (128, 64, 2, 32),
        (64, 64, 1, 64),
        (3, 64, 2, 3),
        (1, 1, 4, 1),
    ],
)
def test_threads_are_the_cores_of_a_socket_that_may_be_used(
    usable: int, cores: int, sockets: int, expected: int
) -> None:
    machine = replace(LAPTOP, usable_cpus=usable, cores=cores, sockets=sockets)
    assert threads(machine, environment={}) == expected


def test_the_user_s_word_on_threads_stands() -> None:
    assert threads(LAPTOP, environment={"OMP_NUM_THREADS": "3"}) == 3
    assert threads(LAPTOP, environment={"OMP_NUM_THREADS": "0"}) == 4
    assert threads(LAPTOP, environment={"OMP_NUM_THREADS": "4,2"}) == 4


@pytest.mark.parametrize(
    ("flags", "gpus", "expected"),
    [
        (("avx2", "avx512f"), (), "fp32"),
        (("avx512f", "avx512_bf16"), (), "bf16"),
        (("amx_tile", "amx_bf16"), (), "bf16"),
        (("amx_tile", "amx_int8"), (), "fp32"),
        (("avx2",), (Gpu("new", 80 << 30, bf16=True),), "bf16"),
        (("avx512_bf16",), (Gpu("old", 16 << 30, bf16=False),), "fp32"),
    ],
)
def test_precision_is_what_multiplies(flags: tuple[str, ...], gpus: tuple[Gpu, ...], expected: str) -> None:
    assert pick_precision(replace(LAPTOP, flags=flags, gpus=gpus)) == expected


def test_the_device_is_the_gpu_where_there_is_one() -> None:
    assert device(LAPTOP) == torch.device("cpu")
    assert device(replace(LAPTOP, gpus=(Gpu("new", 80 << 30, bf16=True),))) == torch.device("cuda")


def processor(index: int, socket: int, core: int) -> str:
    where = f"physical id\t: {socket}\ncore id\t\t: {core}"
    return f"processor\t: {index}\nmodel name\t: Some CPU\n{where}\nflags\t\t: fpu avx512_bf16 sse2 avx2 amx_tilex\n"


def test_the_processor_is_read() -> None:
    assert read_processor(processor(0, 0, 0)) == ("Some CPU", ("avx2", "avx512_bf16"))


def test_a_silent_processor_has_a_name_and_no_flags() -> None:
    name, flags = read_processor("")
    assert name == os.uname().machine and flags == ()


def test_hyperthreads_are_one_core() -> None:
    text = "\n".join(processor(i, socket=i % 2, core=(i // 2) % 4) for i in range(16))
    assert read_cores(text) == (8, 2)
    assert read_cores("processor : 0\n") is None


@pytest.mark.parametrize(
    ("text", "cpus"), [("max 100000\n", None), ("250000 100000\n", 2), ("50000 100000", 1), ("", None)]
)
def test_a_container_s_quota(text: str, cpus: int | None) -> None:
    assert read_quota(text) == cpus


def test_a_container_s_memory() -> None:
    assert read_limit("1073741824\n") == 1 << 30
    assert read_limit("max\n") is None


def test_this_machine_is_plausible() -> None:
    machine = this_machine()
    assert machine is this_machine()
    assert machine.torch == torch.__version__
    assert 1 <= machine.usable_cpus <= (os.cpu_count() or 1)
    assert 1 <= machine.sockets <= machine.cores
    assert machine.memory > 1 << 28
    assert len(machine.gpus) == (torch.cuda.device_count() if torch.cuda.is_available() else 0)


def test_benchmark_data_is_found_only_where_it_is(tmp_path: Path) -> None:
    assert data_folder({"QKV_DATA": str(tmp_path)}) == tmp_path
    assert data_folder({"QKV_DATA": str(tmp_path / "absent")}) is None
    assert data_folder({}) is None
