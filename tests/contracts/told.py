"""What an output says, for whoever expects it to be of one kind."""

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
