"""Published work in a bucket: the same store, at an address that several machines share."""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest

from parsimony_kernel.artifacts.places import ENVIRONMENT_VARIABLE, Bucket, Folder, Place, place_of
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry, SnapshotError
from parsimony_kernel.artifacts.verify import verify
from parsimony_kernel.cli.main import main
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.execution.readers import load_dataset
from parsimony_kernel.identity import LiveNameCollisionError
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.storage.workspace import require_trust
from tests.artifacts.report_cases import publish

Open = Callable[[], ArtifactStore]


def _entry(text: str, **fields: str) -> LogEntry:
    base = {"kind": "dataset", "logical_id": "df", "title": "T", "run_id": text}
    return LogEntry(content_sha="", **{**base, **fields})


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of a bucket on a server of our own."""
    import boto3
    from moto.server import ThreadedMotoServer

    with pytest.MonkeyPatch.context() as patch:
        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="work")
        yield "s3://work"
        server.stop()


@pytest.fixture(params=["file", "memory", "s3"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address at which nothing is yet."""
    name = f"team/{request.node.name}"
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/{name}"
    return f"file://{tmp_path}/{name}" if request.param == "file" else f"memory://{name}"


@pytest.fixture
def opened(address: str, tmp_path: Path) -> Open:
    """Opens the store anew, as another machine would."""
    return lambda: ArtifactStore(tmp_path, place=Bucket(address))


def test_published_work_is_read_on_another_machine(opened: Open) -> None:
    assert opened().list() == ()
    first, reused = opened().publish(_entry("one"), b"one")
    second, _ = opened().publish(_entry("two", title="New"), b"two")
    assert not reused
    assert [entry.title for entry in opened().list()] == ["New"]
    assert opened().find("new") == second
    assert [opened().read(each.ref) for each in (first, second)] == [b"one", b"two"]
    assert opened().history("dataset", "df") == (first, second)
    assert opened().publish(_entry("two", title="New"), b"two") == (second, True)


def test_name_has_one_owner(opened: Open) -> None:
    opened().claim("dataset", "a/df", "a.ipynb")
    opened().claim("dataset", "a/df", "a.ipynb")
    with pytest.raises(LiveNameCollisionError, match=r"a\.ipynb"):
        opened().claim("dataset", "a/df", "b.ipynb")
    opened().claim("dataset", "a/df", "b.ipynb", gives_up=lambda owner: True)
    with pytest.raises(LiveNameCollisionError, match=r"b\.ipynb"):
        opened().claim("dataset", "a/df", "c.ipynb")


def test_a_damaged_snapshot_is_found_and_mended(opened: Open) -> None:
    store = opened()
    entry, _ = store.publish(_entry("one"), b"one")
    assert verify(opened()).ok
    store.place.replace(entry.path, b"bad")
    with pytest.raises(SnapshotError, match="damaged"):
        store.read(entry.ref)
    first, *_ = verify(opened()).findings
    assert first.path == entry.path
    opened().publish(_entry("one"), b"one")
    assert opened().read(entry.ref) == b"one"


def test_one_machine_wins_a_name_and_all_lines_are_kept(s3: str, tmp_path: Path) -> None:
    def publish(number: int) -> bool:
        store = ArtifactStore(tmp_path, place=Bucket(f"{s3}/race"))
        text = f"v{number}"
        store.publish(_entry(text, title=text), text.encode())
        return store.place.create("one", text.encode())

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(publish, range(8))) == 1
    store = ArtifactStore(tmp_path, place=Bucket(f"{s3}/race"))
    titles = [entry.title for entry in store.history("dataset", "df")]
    assert sorted(titles) == sorted(f"v{number}" for number in range(8))
    assert verify(store).ok


class _Late(Bucket):
    """Another machine takes the name between our look and our claim."""

    def create_all(self, files: Mapping[str, bytes], log: str, claim: str) -> Collection[str]:
        theirs = next(data for path, data in files.items() if path == claim)
        Bucket("memory://late").create(claim, theirs.replace(b"b.ipynb", b"a.ipynb"))
        return super().create_all(files, log, claim)


def test_loser_of_a_name_leaves_no_snapshot(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, place=_Late("memory://late"))
    with pytest.raises(LiveNameCollisionError, match=r"a\.ipynb"):
        store.publish(_entry("2", live_name="Sales", notebook="b.ipynb"), b"2")
    assert ArtifactStore(tmp_path, place=Bucket("memory://late")).ids() == []


def test_workspaces_with_one_address_share_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "memory://shared")
    one, two = tmp_path / "one", tmp_path / "two"
    two.mkdir()
    value = pd.DataFrame({"a": [1, 2]})
    publisher = Publisher(ArtifactStore(one), notebook_path="work.ipynb")
    publish(publisher, "dataset", value, "df", title="A")
    monkeypatch.chdir(two)
    pd.testing.assert_frame_equal(load_dataset("A"), value)
    store = ArtifactStore(two)
    assert list(two.iterdir()) == []
    with pytest.raises(StorageError, match=r"'memory://shared' was not begun here"):
        require_trust(store.place.address)
    assert main(["trust", "--folder", str(two)]) == 0
    assert "'memory://shared' may run" in capsys.readouterr().out
    require_trust(store.place.address)


def test_unusable_bucket_is_one_sentence(s3: str) -> None:
    with pytest.raises(StorageError, match=r"PARSIMONY_ARTIFACTS: .* pip install"):
        Bucket("nothing://bucket")
    with pytest.raises(StorageError, match=r"^Cannot write 's3://missing/x/a': .* Check PARSIMONY"):
        Bucket("s3://missing/x").create("a", b"")


def test_address_may_be_a_folder(tmp_path: Path) -> None:
    for address in (str(tmp_path / "b"), f"file://{tmp_path / 'b'}"):
        place = place_of(tmp_path / "a", {ENVIRONMENT_VARIABLE: address})
        assert isinstance(place, Folder)
        assert place.address == str(tmp_path / "b")
    assert place_of(tmp_path, {}).address == str(tmp_path)


def test_password_in_address_is_hidden() -> None:
    place = Bucket("memory://ada:s3cr3t-word@host/x")
    assert "s3cr3t" not in place.address
    with pytest.raises(StorageError) as refused:
        require_trust(place.address)
    assert "s3cr3t" not in str(refused.value)
    with pytest.raises(StorageError, match="chain of addresses") as refused:
        Bucket("simplecache::ftp://ada:s3cr3t-word@host/x")
    assert "s3cr3t" not in str(refused.value)


def test_name_of_another_workspace_is_not_abandoned(tmp_path: Path) -> None:
    one, two = (
        Publisher(
            ArtifactStore(tmp_path / each, place=Bucket("memory://names")), notebook_path=path
        )
        for each, path in (("one", "a.ipynb"), ("two", "sub/a.ipynb"))
    )
    publish(one, "dataset", pd.DataFrame({"a": [1]}), "df")
    with pytest.raises(LiveNameCollisionError, match=r"a\.ipynb"):
        publish(two, "dataset", pd.DataFrame({"a": [2]}), "df")


def test_remote_artifact_is_not_missing(tmp_path: Path) -> None:
    known: dict[str, set[str]] = {}

    def witness(log: str, seal: str) -> None:
        known.setdefault(log, set()).add(seal)

    places: list[Place] = [Folder(tmp_path), Bucket("memory://elsewhere")]
    for place in places:
        ArtifactStore(tmp_path, witness, place).publish(_entry("one"), b"one")
        assert verify(ArtifactStore(tmp_path, place=place), witnessed=known).ok
    (tmp_path / ".ockham" / "datasets" / "df" / "log.jsonl").unlink()
    assert not verify(ArtifactStore(tmp_path), witnessed=known).ok
    assert verify(ArtifactStore(tmp_path, place=places[1]), witnessed=known).ok


async def test_silent_bucket_is_reported_and_stop_is_heard(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, place=Bucket("s3://missing/x"))
    stop = CancellationRequest()
    stop.set("stopped by the user")
    assert await store.look(stop) == ""
    assert store.list() == ()
