"""JupyterLab on loopback, and a page of Chromium that looks at it.

Everything lives in a folder of its own, so that neither the settings nor the notebooks of whoever
runs the suite are touched.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Locator, Page, expect, sync_playwright

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TOKEN = "a-token-for-loopback"
PATIENCE_MS = 60_000

_SETTINGS = {
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
    "@jupyterlab/docmanager-extension/plugin.jupyterlab-settings": {"autosave": False},
}

# What Lab itself says, whatever notebook is open.
_NOISE = re.compile(r"favicon|Failed to load resource|lsp|WebSocket connection|sourcemap", re.I)


def chromium() -> str | None:
    """The browser's path, or ``None`` where there is none."""
    return os.environ.get("PARSIMONY_CHROMIUM") or shutil.which("chromium")


@dataclass
class Server:
    """A running JupyterLab."""

    url: str
    root: Path

    def api(self, method: str, path: str) -> Any:
        """Call the server's REST interface."""
        call = urllib.request.Request(
            f"{self.url}/api/{path}", method=method, headers={"Authorization": f"token {TOKEN}"}
        )
        with urllib.request.urlopen(call, timeout=30) as reply:
            body = reply.read()
        return json.loads(body) if body else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serve(home: Path) -> Iterator[Server]:
    """JupyterLab over ``home/work`` for the length of the body."""
    root = home / "work"
    root.mkdir(parents=True)
    folders = {
        name: str(home / name.lower())
        for name in (
            "JUPYTER_CONFIG_DIR",
            "JUPYTER_DATA_DIR",
            "JUPYTER_RUNTIME_DIR",
            "IPYTHONDIR",
            "JUPYTERLAB_SETTINGS_DIR",
            "JUPYTERLAB_WORKSPACES_DIR",
        )
    }
    for name, value in _SETTINGS.items():
        target = Path(folders["JUPYTERLAB_SETTINGS_DIR"]) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(value))
    port = _free_port()
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={root}",
        f"--IdentityProvider.token={TOKEN}",
        "--LabApp.extension_manager=readonly",
        "--LabApp.news_url=",
        "--LabApp.expose_app_in_browser=True",
    ]
    log = home / "server.log"
    environment = {**os.environ, **folders, "PARSIMONY_MODEL": "offline"}
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdout=sink, stderr=subprocess.STDOUT, env=environment, cwd=home
        )
    server = Server(f"http://127.0.0.1:{port}", root)
    try:
        _wait_until_up(server, process, log)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_up(server: Server, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"JupyterLab ended at once:\n{log.read_text()[-3000:]}")
        try:
            server.api("GET", "status")
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"JupyterLab did not answer within 60 s:\n{log.read_text()[-3000:]}")


@dataclass
class Lab:
    """One page with JupyterLab in it."""

    page: Page
    server: Server
    pictures: Path
    complaints: list[str] = field(default_factory=list)

    def open(self) -> None:
        """Load Lab and wait until it is at rest."""
        self.page.goto(f"{self.server.url}/lab?reset&token={TOKEN}")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def new_notebook(self, kernel: str) -> None:
        """Choose ``kernel`` in the launcher and wait until it is idle."""
        card = self.page.locator(".jp-LauncherCard[data-category='Notebook']", has_text=kernel)
        card.first.click()
        self.page.wait_for_selector(".jp-Notebook .jp-Cell .cm-content")
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        """Wait for the kernel of the open notebook."""
        self.page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel"
            "?.status === 'idle'"
        )

    def run(self, source: str) -> Locator:
        """Put ``source`` into the last cell and run it; gives that cell."""
        notebook = self.page.locator(".jp-Notebook")
        cell = notebook.locator(".jp-CodeCell").last
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(source)
        index = notebook.locator(".jp-Cell").count() - 1
        self.page.evaluate(
            "() => { window.jupyterapp.commands.execute('notebook:run-cell-and-insert-below'); }"
        )
        self.page.wait_for_function(
            "n => document.querySelectorAll('.jp-Notebook .jp-Cell').length > n", arg=index + 1
        )
        return notebook.locator(".jp-Cell").nth(index)

    def save(self) -> dict[str, Any]:
        """Save the notebook and read the file."""
        # The command asks for a name on the first save; the document itself does not.
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
        path = self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.path")
        saved: dict[str, Any] = json.loads((self.server.root / path).read_text())
        return saved

    def restart_kernel(self) -> None:
        """Restart the notebook's kernel, as its menu does, without the question."""
        self.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()"
        )
        self.wait_until_idle()

    def picture(self, name: str, of: Locator | None = None) -> Path:
        """Keep a screenshot of the page, or of one element of it in full."""
        self.pictures.mkdir(parents=True, exist_ok=True)
        path = self.pictures / f"{name}.png"
        if of is None:
            self.page.screenshot(path=str(path))
        else:
            of.screenshot(path=str(path))
        return path


@contextmanager
def browse(server: Server, pictures: Path, *, dark: bool = False) -> Iterator[Lab]:
    """A page in headless Chromium for the length of the body."""
    executable = chromium()
    assert executable is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, headless=True, args=CHROMIUM_FLAGS
        )
        try:
            context = browser.new_context(viewport={"width": 1280, "height": 1800})
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            expect.set_options(timeout=PATIENCE_MS)
            lab = Lab(page, server, pictures)

            def hear(message: ConsoleMessage) -> None:
                if message.type == "error" and not _NOISE.search(message.text):
                    lab.complaints.append(message.text)

            page.on("console", hear)
            page.on("pageerror", lambda error: lab.complaints.append(str(error)))
            lab.open()
            yield lab
        finally:
            browser.close()
