"""A turn can be seen before anything heavy is imported for it."""

import json
from pathlib import Path

from tests.notebooks.programs import python

_PROGRAM = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell

seen = []

class Publisher:
    is_publishing = False

    def publish(self, data, metadata=None, *, transient=None, update=False, **_):
        heavy = [name for name in ("pydantic", "pandas", "litellm") if name in sys.modules]
        seen.append((data.get("text/plain", ""), update, heavy))

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "parsimony_agent")
shell.get_parent = lambda: {"metadata": {"cellId": "c1"}, "header": {"msg_id": "1"}, "content": {}}
shell.display_pub = Publisher()
shell.run_cell("%%agent\\nmake me a sandwich")
print(json.dumps(seen))
"""


def test_first_sign_precedes_heavy_imports(tmp_path: Path) -> None:
    ran = python("-c", _PROGRAM, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    first, *later = json.loads(ran.stdout.splitlines()[-1])
    assert first == ["Starting …", False, []]
    drawn_over = [text for text, is_update, _ in later if is_update]
    assert any("I can't do this" in text for text in drawn_over)
