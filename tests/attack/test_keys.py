"""Keys under sixty usual names, in the environment of a run that prints and raises all of them."""

import json
import secrets
import string
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core.events import RunCompleted
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.session.turn_values import TurnOptions
from parsimony_kernel.testing.scripted import ScriptedModel, call
from tests.scenarios.loops import gather
from tests.test_key_names import ADDRESSES
from tests.test_key_names import NAMES as KEY_NAMES

# Of an address only a part is secret.
NAMES = sorted(set(KEY_NAMES) - set(ADDRESSES))


def drawn() -> str:
    """A value that no shape of a known key gives away."""
    letters = string.ascii_letters + string.digits
    return "q" + "".join(secrets.choice(letters) for _ in range(20)) + "7"


async def test_environment_keys_are_neither_sent_nor_stored(
    scripted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(NAMES) == 61
    keys = {name: drawn() for name in NAMES}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    executor = CodeExecutor(cwd=str(tmp_path))
    await executor.execute(f"held = {list(keys.values())!r}")
    model = ScriptedModel(
        [
            call("run_code", code="for each in held: print('found', each)"),
            call("run_code", code="held[:30]"),
            call("run_code", code="held[30:]"),
            call("run_code", code="raise ValueError(' '.join(held))"),
            call("return_done", summary=" ".join(keys.values())),
        ]
    )
    session = scripted(executor=executor, model=model, environ=keys)
    request = "use " + " ".join(keys.values())
    options = TurnOptions(approve=Approval.auto)
    events = await gather(session.turn(request, cell_key="c", options=options))
    assert isinstance(events[-1], RunCompleted)
    session.close()
    model.assert_exhausted()
    sent = json.dumps([list(each.messages) for each in model.requests])
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [name for name, value in keys.items() if value in sent] == []
    assert [name for name, value in keys.items() if value.encode() in written] == []
    assert [name for name, value in keys.items() if value in repr(events)] == []
