"""A typed function of the notebook as a tool, in a real kernel."""

from collections.abc import Callable

from parsimony_kernel.testing.kernel import LiveKernel

Use = Callable[[str], None]

DEFINE = '''
def area(width: float, height: float = 1.0) -> float:
    """The area of a rectangle."""
    return width * height
half = 0.5
'''


def test_a_function_becomes_a_tool_that_the_agent_calls(kernel: LiveKernel, use: Use) -> None:
    kernel.run(DEFINE)
    use(
        "ScriptedModel([call('area', width=3, height=4), call('area', wide=3),"
        " call('area', width=5), call('return_done', summary='done')])"
    )
    assert "Nothing" in kernel.run("%agent next").text
    assert "No function of yours" in kernel.run("%agent tools").text
    assert kernel.run("%agent tools add area").text == "Tool: area. The area of a rectangle.\n"
    assert "The area of a rectangle." in kernel.run("%agent tools").text
    turn = kernel.run("%%agent\nthe area", cell_id="area").text
    assert "12.0" in turn
    assert "'wide' is not a field" in turn
    assert "done" in turn


def test_what_is_no_function_is_told(kernel: LiveKernel, use: Use) -> None:
    kernel.run(DEFINE)
    use("ScriptedModel([])")
    assert "'half' is no function" in kernel.run("%agent tools add half").text
    assert "'nothing' is no function" in kernel.run("%agent tools add nothing").text


REFUND = '''
refunded = []

def refund_order(order: str) -> str:
    """Give the money back."""
    refunded.append(order)
    return f"refunded {order}"
'''


def test_a_function_that_sounds_grave_waits_for_the_person_and_runs_once(
    kernel: LiveKernel, use: Use
) -> None:
    kernel.run(REFUND)
    use(
        "ScriptedModel([call('refund_order', order='A102'),"
        " call('return_done', summary='refunded A102')])"
    )
    kernel.run("%agent tools add refund_order")
    asked = kernel.run("%%agent\ngive the money back", cell_id="refund").text
    assert "May refund_order run?" in asked
    assert kernel.run("print(refunded)").text == "[]\n"
    assert "refunded A102" in kernel.run("%agent answer Run it").text
    assert kernel.run("print(refunded)").text == "['A102']\n"


def test_next_tells_what_may_be_done_and_that_a_question_waits(
    kernel: LiveKernel, use: Use
) -> None:
    use("ScriptedModel([call('ask_user', question='Which?')])")
    kernel.run("%%agent\nask", cell_id="ask")
    assert "waits for an answer" in kernel.run("%agent next").text
