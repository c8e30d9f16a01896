"""What an output says, for whoever expects it to be of one kind."""

import asyncio
import threading

from parsimony_kernel.core.outputs import (
    ExceptionObject,
    KernelOutput,
    KernelOutputType,
    PrimitiveObject,
)


def text(output: KernelOutputType) -> str:
    """The text of a value."""
    assert isinstance(output, PrimitiveObject)
    return output.text


def failure(output: KernelOutput) -> ExceptionObject:
    """The exception with which a cell ended."""
    last = output.outputs[-1]
    assert isinstance(last, ExceptionObject)
    assert output.error == last
    return last


async def abandoned_cells_end() -> None:
    """Wait for cells that were abandoned: as long as they run, they hold the process's streams."""
    for each in threading.enumerate():
        if each.name == "parsimony-cell":
            await asyncio.to_thread(each.join)
