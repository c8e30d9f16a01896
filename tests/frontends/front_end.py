"""A front end that runs the cells of a notebook and keeps their outputs, as one saves them."""

from collections.abc import Sequence
from typing import Any

from nbformat import v4

from parsimony_kernel.testing.kernel_process import PATIENCE_S, LiveKernel

_SHOWN = {"display_data", "execute_result", "stream", "error"}


def saved_live(kernel: LiveKernel, sources: Sequence[str]) -> Any:
    """A notebook of cells with ``sources``, run one after the other by a front end that names its
    cells and applies updates wherever a display stands."""
    cells = {}
    displays: dict[str, list[Any]] = {}
    for number, source in enumerate(sources):
        request = kernel.begin(source, cell_id=f"cell-{number}")
        cells[request] = v4.new_code_cell(source)
        for message in _until_idle(kernel, request):
            content = message["content"]
            key = content.get("transient", {}).get("display_id")
            if message["msg_type"] == "update_display_data":
                for output in displays.get(key, []):
                    output.data, output.metadata = content["data"], content["metadata"]
            elif message["msg_type"] in _SHOWN:
                output = v4.output_from_msg(message)
                cells[message["parent_header"]["msg_id"]].outputs.append(output)
                displays.setdefault(key, []).append(output)
    return v4.new_notebook(cells=list(cells.values()))


def _until_idle(kernel: LiveKernel, request: str) -> list[Any]:
    """The messages on IOPub until ``request`` is done, of whatever cell they are."""
    messages = []
    while True:
        message = kernel._client.get_iopub_msg(timeout=PATIENCE_S)
        messages.append(message)
        if (
            message["msg_type"] == "status"
            and message["parent_header"].get("msg_id") == request
            and message["content"]["execution_state"] == "idle"
        ):
            return messages
