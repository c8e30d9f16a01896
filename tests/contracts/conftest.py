"""The executors that the contract is proved on."""

import asyncio
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parsimony_kernel.execution import CodeExecutor, NotebookExecutor, RemoteExecutor
from parsimony_kernel.execution.base import BaseCodeExecutor

GRACE_S = 1.5


@pytest.fixture(
    params=[
        "private",
        "notebook",
        pytest.param("remote", marks=pytest.mark.kernel),
        pytest.param("gateway", marks=pytest.mark.kernel),
    ]
)
async def executor(request: pytest.FixtureRequest) -> BaseCodeExecutor:
    """An executor of each kind, with nothing in its namespace.

    A kernel serves many tests one after the other, because starting one takes its time.
    """
    if request.param == "private":
        return CodeExecutor()
    if request.param == "notebook":
        return NotebookExecutor(request.getfixturevalue("shell"))
    remote: RemoteExecutor = request.getfixturevalue(f"{request.param}_executor")
    await remote.clear_namespace()
    await remote.set_cwd(str(Path.cwd()))
    return remote


@pytest.fixture(scope="session")
def remote_executor(clean_environment: None) -> Iterator[RemoteExecutor]:
    """An executor whose kernel is a process of this machine."""
    executor = RemoteExecutor(grace_s=GRACE_S)
    yield executor
    asyncio.run(executor.shutdown())


@pytest.fixture(scope="session")
def gateway_executor(gateway: str, token: str) -> Iterator[RemoteExecutor]:
    """An executor whose kernel is behind a gateway."""
    executor = RemoteExecutor(url=gateway, token=token, grace_s=GRACE_S)
    yield executor
    asyncio.run(executor.shutdown())


@pytest.fixture(scope="session")
def token() -> str:
    """What opens the gateway."""
    return secrets.token_hex(16)


@pytest.fixture(scope="session")
def gateway(
    clean_environment: None, token: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a Jupyter Kernel Gateway on this machine, which asks for ``token``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = tmp_path_factory.mktemp("gateway")
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    command = [sys.executable, "-m", "kernel_gateway", "--KernelGatewayApp.ip=127.0.0.1"]
    with subprocess.Popen(
        [*command, f"--KernelGatewayApp.port={port}", "--KernelGatewayApp.port_retries=0"],
        env={
            **os.environ,
            **{name: str(home / name.lower()) for name in folders},
            "KG_AUTH_TOKEN": token,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            said = ""
            while "is available at" not in said:
                line = process.stderr.readline()
                assert line, f"the gateway ended: {said}"
                said += line
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.communicate(timeout=20)
