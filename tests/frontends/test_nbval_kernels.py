"""The example notebooks, compared with what is saved in them by plain ``pytest --nbval``."""

import shutil
from pathlib import Path

import pytest

from tests.notebooks.programs import python

from .overlays import INSTALLED, environment_of

pytestmark = pytest.mark.kernel

EXAMPLES = Path(__file__).parents[2] / "notebooks"
OLDER = "6.31.0"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples as they are in a fresh clone, under settings as strict as ours."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(EXAMPLES, folder / "notebooks", ignore=shutil.ignore_patterns(".*", "executed"))
    strict = ("[pytest]", "filterwarnings = error", "asyncio_default_fixture_loop_scope = function")
    (folder / "pytest.ini").write_text("\n".join(strict))
    return folder / "notebooks"


@pytest.mark.parametrize(
    ("version", "options"),
    [(INSTALLED, ()), (INSTALLED, ("-n", "2")), (OLDER, ())],
    ids=["plain", "again, with workers", "again, under an older ipykernel"],
)
def test_every_cell_reproduces_saved_output(
    version: str, options: tuple[str, ...], clone: Path
) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in clone.rglob("*") if path.is_file()}

    before = files()
    given = ("pytest", "--nbval", *options, clone.name)
    compared = python("-m", *given, folder=clone.parent, **environment_of(version))
    assert compared.returncode == 0, compared.stdout[-6_000:]
    assert "98 passed" in compared.stdout
    assert files() == before
