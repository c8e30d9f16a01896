"""A kernel behind a real gateway: how it is lost, found again, and refused."""

import asyncio
import logging
import socket
from pathlib import Path

import psutil
import pytest
from jupyter_kernel_client.manager import KernelHttpManager

from parsimony_kernel.core.outputs import ExceptionObject, KernelOutput
from parsimony_kernel.execution import RemoteExecutor
from parsimony_kernel.execution.remote_kernel import GatewayKernel

pytestmark = pytest.mark.kernel


@pytest.fixture
async def executor(gateway_executor: RemoteExecutor) -> RemoteExecutor:
    """An executor behind the gateway, whose kernel is the one that the test before has left."""
    await gateway_executor.clear_namespace()
    return gateway_executor


def cut(executor: RemoteExecutor) -> None:
    """End the connection to its kernel."""
    kernel = executor._client._kernel
    assert kernel is not None
    kernel.client.kernel_socket.sock.sock.shutdown(socket.SHUT_RDWR)


async def manager_of(executor: RemoteExecutor, url: str, token: str) -> KernelHttpManager:
    """The server's own hand on the kernel of ``executor``."""
    output = await executor.execute(
        "from ipykernel.connect import get_connection_file\nprint(get_connection_file())"
    )
    kernel_id = Path(output.stdout.strip()).stem.removeprefix("kernel-")
    headers = {"Authorization": f"token {token}"}
    return await asyncio.to_thread(
        lambda: KernelHttpManager(url, None, kernel_id=kernel_id, headers=headers)
    )


def lost(output: KernelOutput) -> ExceptionObject:
    assert output.error is not None
    assert output.error.state_lost, output.error
    return output.error


async def test_restarted_kernel_is_lost_and_code_did_not_run(
    executor: RemoteExecutor, gateway: str, token: str, tmp_path: Path
) -> None:
    manager = await manager_of(executor, gateway, token)
    await executor.execute("x = 1", producer_notebook_path="nb.ipynb")
    await asyncio.to_thread(manager.restart_kernel)
    assert "x" in lost(await executor.execute(f"open({str(tmp_path / 'ran')!r}, 'w')")).message
    assert not (tmp_path / "ran").exists()
    assert executor.origin_ledger.get("x") is None
    assert (await executor.execute("print('x' in globals())")).stdout == "False\n"


async def test_kernel_ended_by_server_is_lost(
    executor: RemoteExecutor, gateway: str, token: str
) -> None:
    manager = await manager_of(executor, gateway, token)
    await executor.execute("x = 1")
    await asyncio.to_thread(manager.shutdown_kernel, now=True)
    message = lost(await executor.execute("x")).message
    assert "was ended by its server" in message
    assert "gone with it: x" in message
    assert (await executor.execute("print(1)")).stdout == "1\n"


async def test_broken_connection_is_a_loss_and_its_kernel_ends(gateway: str, token: str) -> None:
    async with RemoteExecutor(url=gateway, token=token) as executor:
        await executor.execute("import os\nx = os.getpid()")
        kernel = psutil.Process(executor.variables()["x"])
        cut(executor)
        message = lost(await executor.execute("x")).message
        assert "cannot be reached (the connection was closed)" in message
        assert "gone with it: x; what" in message
        await asyncio.to_thread(psutil.wait_procs, [kernel], 30)
        assert not kernel.is_running()
        assert (await executor.execute("y = 1")).changed == ("y",)


async def test_server_that_is_gone_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    async with RemoteExecutor(url=f"http://127.0.0.1:{port}") as executor:
        error = (await executor.execute("1")).error
    assert error is not None
    assert error.message.endswith(
        "; check the address, with the path before /api, and that the server runs."
    )


@pytest.mark.parametrize(
    ("path", "name", "given", "said"),
    [
        ("", "python3", "wrong-token", "refuses the token (HTTP 401); give `token=` what"),
        ("", "python3", "", "refuses the token (HTTP 401); give `token=` what"),
        ("/not/here", "python3", None, "is no Jupyter server that can be used (HTTPError"),
        ("", "pyhton3", None, "has no kernel named 'pyhton3'. There are: "),
    ],
    ids=["token", "no-token", "path", "name"],
)
async def test_server_refusal_is_one_clear_sentence(
    gateway: str, token: str, path: str, name: str, given: str | None, said: str
) -> None:
    own = token if given is None else given
    async with RemoteExecutor(name, url=gateway + path, token=own) as executor:
        error = (await executor.execute("1")).error
    assert error is not None
    assert (error.name, error.traceback, error.state_lost) == ("RemoteKernelError", "", False)
    assert said in error.message
    assert "\n" not in error.message


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"{}", b"[]"])
async def test_non_jupyter_server_is_reported(body: bytes) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    async with await asyncio.start_server(other, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with RemoteExecutor(url=url) as executor:
            error = (await executor.execute("1")).error
    assert error is not None
    assert "is no Jupyter server that can be used" in error.message


async def test_token_appears_in_no_message_repr_or_log(
    gateway: str, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in tuple(logging.root.manager.loggerDict):
        caplog.set_level(logging.DEBUG, logger=name)
    async with RemoteExecutor(url=gateway, token=token, grace_s=1) as executor:
        said = [await executor.execute("x = 1"), await executor.execute("import os\nos._exit(1)")]
        said += [await executor.execute("y = 1")]
        cut(executor)
        said += [await executor.execute("x"), await executor.execute("print(1)")]
    assert said[0].changed == ("x",)
    assert token not in caplog.text
    assert token not in repr(said)
    assert token not in repr(executor) + repr(GatewayKernel(gateway, token))


@pytest.mark.parametrize("given", ["host:8888", "ftp://host", "", "http://", "ws://host"])
def test_invalid_address_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="begins with http"):
        RemoteExecutor(url=given)


@pytest.mark.parametrize("given", ["http://me:pass@host", "http://host/lab?token=pass"])
def test_secret_in_address_is_refused_and_hidden(given: str) -> None:
    with pytest.raises(ValueError, match="put no secret") as refused:
        RemoteExecutor(url=given)
    assert "pass" not in str(refused.value)
