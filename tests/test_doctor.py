"""Looking at what a run needs changes nothing."""

from pathlib import Path

import pytest

from parsimony_kernel.doctor import Check, run_checks
from parsimony_kernel.storage.keyring import Keyring


def signing_key(folder: Path, environ: dict[str, str]) -> Check:
    (found,) = (f for f in run_checks(folder, environ) if f.name == "signing key")
    return found


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def test_a_key_that_is_not_there_yet_is_announced_and_not_created(
    tmp_path: Path, data: Path
) -> None:
    found = signing_key(tmp_path, {})
    assert found.ok
    assert "will be created on first use" in found.says
    assert list(tmp_path.rglob("*")) == []


def test_a_key_that_is_there_is_named(tmp_path: Path, data: Path) -> None:
    key = Keyring.open(None, {}).current()
    assert signing_key(tmp_path, {}) == Check("signing key", True, key.key_id)


def test_a_key_that_is_damaged_says_so(tmp_path: Path, data: Path) -> None:
    Keyring.open(None, {}).current()
    (data / "parsimony" / "keys" / "keys.json").write_text("other")
    found = signing_key(tmp_path, {})
    assert not found.ok
    assert "damaged" in found.says


def test_a_place_where_no_key_can_be_created_is_a_finding(tmp_path: Path, data: Path) -> None:
    data.write_text("in the way")
    found = signing_key(tmp_path, {})
    assert not found.ok
    assert "PARSIMONY_SUSPENSION_SECRET" in found.remedy


def test_a_secret_of_the_environment_is_the_key(tmp_path: Path, data: Path) -> None:
    assert signing_key(tmp_path, {"PARSIMONY_SUSPENSION_SECRET": "s"}).says == "env"
    assert not data.exists()
