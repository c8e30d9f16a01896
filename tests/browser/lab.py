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

from playwright.sync_api import ConsoleMessage, Dialog, Locator, Page, expect, sync_playwright

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

_HERE = Path(__file__).parent
_LABEXTENSIONS = _HERE.parents[1] / "extension" / "labextension"
_FOR_KERNELS = (_HERE / "in_kernel", _HERE.parent / "view")

# What Lab itself says, whatever notebook is open.
_NOISE = re.compile(
    r"favicon|Failed to load resource|lsp|WebSocket connection|sourcemap|debugger state", re.I
)


def chromium() -> str | None:
    """The browser's path, or ``None`` where there is none."""
    return os.environ.get("PARSIMONY_CHROMIUM") or shutil.which("chromium")


@dataclass
class Server:
    """A running JupyterLab. ``cue`` is the writing end of a pipe in its folder."""

    url: str
    root: Path
    cue: int

    def api(self, method: str, path: str) -> Any:
        """Call the server's REST interface."""
        call = urllib.request.Request(
            f"{self.url}/api/{path}", method=method, headers={"Authorization": f"token {TOKEN}"}
        )
        with urllib.request.urlopen(call, timeout=30) as reply:
            body = reply.read()
        return json.loads(body) if body else None

    def give_cue(self) -> None:
        """Let a model that waits for its cue give one answer."""
        os.write(self.cue, b".")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# The modules that serve a front end, with their settings.
_APPS = {
    "jupyterlab": [
        "--LabApp.extension_manager=readonly",
        "--LabApp.news_url=",
        "--LabApp.expose_app_in_browser=True",
        f"--LabApp.extra_labextensions_path={_LABEXTENSIONS}",
    ],
    "notebook": [
        "--JupyterNotebookApp.expose_app_in_browser=True",
        f"--JupyterNotebookApp.extra_labextensions_path={_LABEXTENSIONS}",
    ],
}


@contextmanager
def serve(home: Path, app: str = "jupyterlab") -> Iterator[Server]:
    """JupyterLab, or another ``app``, over ``home/work`` for the length of the body."""
    root = home / "work"
    root.mkdir(parents=True)
    os.mkfifo(root / "cue")
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
        app,
        "--no-browser",
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={root}",
        f"--IdentityProvider.token={TOKEN}",
        *_APPS[app],
    ]
    log = home / "server.log"
    environment = {
        **os.environ,
        **folders,
        "PARSIMONY_MODEL": "offline",
        "PYTHONPATH": os.pathsep.join(map(str, _FOR_KERNELS)),
    }
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdout=sink, stderr=subprocess.STDOUT, env=environment, cwd=home
        )
    # Open for reading too, so that a cue given early is kept.
    server = Server(f"http://127.0.0.1:{port}", root, os.open(root / "cue", os.O_RDWR))
    try:
        _wait_until_up(server, process, log)
        yield server
    finally:
        os.close(server.cue)
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
    dialogs: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def elsewhere(self) -> list[str]:
        """The addresses outside the server that the page has asked for."""
        own = (self.server.url, self.server.url.replace("http", "ws"), "data:", "blob:")
        return [url for url in self.requests if not url.startswith(own)]

    def open(self, address: str) -> None:
        """Load ``address`` of the server and wait until it is at rest."""
        self.page.goto(f"{self.server.url}{address}")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")
        self.page.wait_for_function("() => window.jupyterapp")

    def new_notebook(self, kernel: str) -> None:
        """Choose ``kernel`` in the launcher and wait until it is idle."""
        card = self.page.locator(".jp-LauncherCard[data-category='Notebook']", has_text=kernel)
        card.first.click()
        self.page.wait_for_selector(".jp-Notebook .jp-Cell .cm-content")
        self.wait_until_idle()

    def new_notebook_with(self, player: str) -> None:
        """A notebook whose agent is asked of ``player``, a model that ``in_kernel`` makes."""
        self.new_notebook("Parsimony Agent")
        self.run(f"import players\nplayer = players.{player}\n%agent model player")
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        """Wait until the kernel of the open notebook is idle and no cell of it waits for its end.

        A cell that was just sent leaves the kernel idle, from the one before, for a while.
        """
        self.page.wait_for_function(
            """() => {
                const panel = window.jupyterapp.shell.currentWidget;
                const prompts = [...(panel?.node.querySelectorAll('.jp-InputPrompt') ?? [])];
                return panel?.sessionContext?.session?.kernel?.status === 'idle'
                    && !prompts.some(each => each.textContent.includes('*'));
            }"""
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

    @property
    def path(self) -> str:
        """The path of the open notebook."""
        return str(self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.path"))

    def save(self) -> dict[str, Any]:
        """Save the notebook and read the file."""
        # The command asks for a name on the first save; the document itself does not.
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
        saved: dict[str, Any] = json.loads((self.server.root / self.path).read_text())
        return saved

    def close_notebook(self, *, ends_kernel: bool = True) -> None:
        """Close the open notebook, which has been saved; by default shut its kernel down."""
        self.page.evaluate(
            """async endsKernel => {
                const panel = window.jupyterapp.shell.currentWidget;
                if (endsKernel) await panel.sessionContext.shutdown();
                panel.dispose();
            }""",
            ends_kernel,
        )
        expect(self.page.locator(".jp-Notebook")).to_have_count(0)

    def reopened(self) -> Iterator[bool]:
        """Save the notebook and open it again, then a copy of it as it came from elsewhere, whose
        signature and kernel are not known here; gives whether it is that copy."""
        self.save()
        own, foreign = self.path, self._copy_as_foreign()
        self.close_notebook()
        for name, is_foreign in ((own, False), (foreign, True)):
            self.open_notebook(name, without_kernel=is_foreign)
            yield is_foreign
            self.close_notebook()

    def _copy_as_foreign(self) -> str:
        notebook = json.loads((self.server.root / self.path).read_text())
        notebook["metadata"]["kernelspec"] = {"name": "elsewhere", "display_name": "Elsewhere"}
        name = f"foreign-{self.path}"
        (self.server.root / name).write_text(json.dumps(notebook))
        return name

    def is_trusted(self) -> bool:
        """Whether Lab trusts every output of the open notebook."""
        trusted: bool = self.page.evaluate(
            "() => [...window.jupyterapp.shell.currentWidget.content.model.cells]"
            ".every(cell => cell.type !== 'code' || cell.trusted)"
        )
        return trusted

    def shut_down_kernel(self) -> None:
        """Shut the kernel of the open notebook down."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")

    def watch_commands(self) -> None:
        """Take down from now on which commands of Lab are executed, other than by us."""
        self.page.evaluate(
            """() => {
                window.executed = [];
                window.jupyterapp.commands.commandExecuted.connect(
                    (_, { id }) => window.executed.push(id)
                );
            }"""
        )

    def commands_run(self) -> list[str]:
        """The commands since ``watch_commands`` that make or open something."""
        executed: list[str] = self.page.evaluate("() => window.executed")
        return [each for each in executed if each != "notebook:run-cell-and-insert-below"]

    def close_all(self) -> None:
        """Shut every kernel down, close what is open, and forget what was heard."""
        self.page.evaluate(
            """async () => {
                const app = window.jupyterapp;
                await app.serviceManager.sessions.shutdownAll();
                for (const panel of [...app.shell.widgets('main')]) panel.dispose();
            }"""
        )
        self.page.wait_for_selector(".jp-LauncherCard")
        for heard in (self.complaints, self.dialogs, self.requests):
            heard.clear()

    def open_notebook(self, path: str, *, without_kernel: bool = False) -> None:
        """Open a saved notebook; ``without_kernel`` where its kernel is not installed."""
        self.page.evaluate(
            "path => { window.jupyterapp.commands.execute('docmanager:open', { path }); }", path
        )
        if without_kernel:
            dialog = self.page.locator(".jp-Dialog", has_text="Select Kernel")
            dialog.locator("select").select_option(label="No Kernel")
            dialog.get_by_role("button", name="Select").click()
            expect(dialog).to_have_count(0)
        else:
            self.wait_until_idle()
        self.page.wait_for_selector(".jp-Notebook .jp-Cell .cm-content")

    def reload(self, *, is_idle: bool = True) -> None:
        """Load the page again with the open notebook, as the browser's button does."""
        # Without `reset`, Lab opens what was open, and then what the address names once more.
        self.page.goto(f"{self.server.url}/lab/tree/{self.path}?reset&token={TOKEN}")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell .cm-content")
        if is_idle:
            self.wait_until_idle()

    def use_theme(self, name: str) -> None:
        """Change Lab's theme."""
        self.page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", name
        )
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)
        # Lab takes its splash away 200 ms later, and fails at a second one that comes meanwhile.
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)

    def look_through(self, width: int, *, zoom: int = 1) -> None:
        """A window so many pixels wide, with the page enlarged ``zoom`` times as by Ctrl +."""
        self.page.set_viewport_size({"width": width // zoom, "height": 1800 // zoom})
        self.page.wait_for_function("width => window.innerWidth === width", arg=width // zoom)

    def toggle_file_browser(self) -> None:
        """Fold the left side of Lab away, or back."""
        self.page.evaluate(
            "() => window.jupyterapp.commands.execute('application:toggle-left-area')"
        )

    def interrupt(self) -> None:
        """Interrupt the kernel, as the square in the notebook's toolbar does."""
        self.page.evaluate(
            "() => { window.jupyterapp.commands.execute('notebook:interrupt-kernel'); }"
        )

    def restart_kernel(self, *, is_by_menu: bool = True) -> None:
        """Restart the notebook's kernel, as its menu does, without the question, or another
        client of the server."""
        kernel = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
        if is_by_menu:
            self.page.evaluate(f"() => {kernel}.restart()")
        else:
            number = self.page.evaluate(f"() => {kernel}.id")
            self.server.api("POST", f"kernels/{number}/restart")
        self.wait_until_idle()

    def picture(self, name: str, of: Locator | None = None) -> Path:
        """Keep a screenshot of the page, or of one element of it in full."""
        self.pictures.mkdir(parents=True, exist_ok=True)
        path = self.pictures / f"{name}.png"
        if of is None:
            self.page.screenshot(path=str(path))
            return path
        # Lab draws what is in view; so the whole element is brought into view.
        before = self.page.viewport_size
        box = of.bounding_box()
        assert before is not None
        assert box is not None
        tall = max(before["height"], int(box["height"]) + 300)
        self.page.set_viewport_size({"width": before["width"], "height": tall})
        of.screenshot(path=str(path))
        self.page.set_viewport_size(before)
        return path


@contextmanager
def browse(
    server: Server, pictures: Path, address: str = f"/lab?reset&token={TOKEN}"
) -> Iterator[Lab]:
    """A page in headless Chromium at ``address`` for the length of the body."""
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

            def take(dialog: Dialog) -> None:
                if dialog.type == "beforeunload":  # Lab's own, where something came after a save
                    dialog.accept()
                    return
                lab.dialogs.append(dialog.message)
                dialog.dismiss()

            page.on("dialog", take)
            page.on("request", lambda request: lab.requests.append(request.url))

            def hear(message: ConsoleMessage) -> None:
                if message.type == "error" and not _NOISE.search(message.text):
                    lab.complaints.append(message.text)

            page.on("console", hear)
            page.on("pageerror", lambda error: lab.complaints.append(str(error)))
            lab.open(address)
            yield lab
        finally:
            browser.close()
