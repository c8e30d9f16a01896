"""What the doctor says of proxies, certificates, the kernel and the workspace."""

import json
import sys
from pathlib import Path

import pytest

from parsimony_kernel.cli import main as cli
from parsimony_kernel.doctor import Check, run_checks


def look(folder: Path, environ: dict[str, str], name: str) -> Check:
    (found,) = (f for f in run_checks(folder, environ) if f.name == name)
    return found


def test_a_proxy_is_shown_without_its_password(tmp_path: Path) -> None:
    found = look(tmp_path, {"HTTPS_PROXY": "http://me:secret@proxy.example:8080"}, "proxy")
    assert "proxy.example:8080" in found.says
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("spared", "ok"),
    [("", False), ("localhost", False), ("localhost, 127.0.0.1", True), ("*", True)],
)
def test_a_proxy_that_takes_local_addresses_is_a_warning(
    tmp_path: Path, spared: str, ok: bool
) -> None:
    environ = {"http_proxy": "http://proxy.example", "no_proxy": spared}
    found = look(tmp_path, environ, "proxy")
    assert found.ok is ok
    assert ("NO_PROXY" in found.remedy) is not ok


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "SSL_VERIFY"])
def test_certificates_that_are_not_there_are_an_error(tmp_path: Path, name: str) -> None:
    place = tmp_path / "ca.pem"
    assert look(tmp_path, {name: str(place)}, "certificates").level == "error"
    place.write_text("certificates")
    assert look(tmp_path, {name: str(place)}, "certificates").ok


def test_verification_that_is_off_is_a_warning(tmp_path: Path) -> None:
    assert look(tmp_path, {"SSL_VERIFY": "False"}, "certificates").level == "warn"


def test_litellm_is_looked_at_for_the_offline_model_too(tmp_path: Path) -> None:
    assert look(tmp_path, {}, "litellm").ok


@pytest.mark.parametrize(("display", "ok"), [("", False), ("static", True)])
def test_where_two_may_work_in_one_notebook_the_static_record_is_recommended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, display: str, ok: bool
) -> None:
    about = tmp_path / "site" / "jupyter_server_ydoc-3.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Name: jupyter-server-ydoc\nVersion: 3.0\n")
    monkeypatch.syspath_prepend(about.parent)
    found = look(tmp_path, {"PARSIMONY_DISPLAY": display}, "front end")
    assert found.ok is ok
    assert ok or "PARSIMONY_DISPLAY=static" in found.remedy


def test_a_kernel_whose_interpreter_is_gone_or_another_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    spec = tmp_path / "kernels/parsimony-agent/kernel.json"
    spec.parent.mkdir(parents=True)
    other = tmp_path / "other-python"
    other.write_text("")
    other.chmod(0o755)
    for first, ok in ((str(tmp_path / "gone"), False), (str(other), False), (sys.executable, True)):
        spec.write_text(json.dumps({"argv": [first], "display_name": "x", "language": "python"}))
        found = look(tmp_path, {}, "kernel")
        assert found.ok is ok
        assert ok or "jupyter parsimony install" in found.remedy


def test_a_warning_does_not_fail_the_command_and_an_error_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    where = ["doctor", "--folder", str(tmp_path)]
    assert cli.main(where) == 0
    assert "look proxy" in capsys.readouterr().out
    assert cli.main([*where, "--model", "opnai/x"]) == 1
    assert "-> Did you mean 'openai'?" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
def test_a_workspace_that_everyone_can_write_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / ".ockham").mkdir()
    (tmp_path / ".ockham").chmod(0o777)
    assert look(tmp_path, {}, "workspace").level == "warn"


def test_whatever_is_to_be_mended_says_how(tmp_path: Path) -> None:
    environ = {"HTTP_PROXY": "http://p", "SSL_CERT_FILE": "none", "PARSIMONY_MODEL": "nothing/x"}
    found = [each for each in run_checks(tmp_path, environ) if not each.ok]
    assert {"model", "proxy", "certificates"} <= {each.name for each in found}
    assert all(each.remedy and each.level != "info" for each in found)
