"""Run the example notebooks and save their outputs in place: ``make notebooks``.

Each runs in an empty workspace, so that what is saved does not depend on what was run before.
"""

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def main() -> None:
    """Refresh every notebook beside this file."""
    for path in sorted(HERE.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as workspace:
            environment = {
                **os.environ,
                "PARSIMONY_WORKSPACE": workspace,
                "PARSIMONY_MODEL": "offline",
            }
            client = NotebookClient(
                notebook,
                kernel_name="parsimony-agent",
                timeout=120,
                record_timing=False,
                extra_arguments=["--log-level=ERROR"],
                resources={"metadata": {"path": str(HERE)}},
            )
            client.execute(env=environment)
        notebook.metadata.pop("signature", None)
        nbformat.write(notebook, path)
        print(f"{path.name}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells")


if __name__ == "__main__":
    main()
