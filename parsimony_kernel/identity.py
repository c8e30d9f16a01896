"""What an artifact is called and where it lies: pure functions of values.

Every artifact has two ids. ``logical_id`` says which artifact it is and survives edits;
``content_sha`` says what one snapshot of it looks like. The rule of the place: nothing here
touches a disk, and every name that becomes part of a path is checked here first.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final, Literal

from parsimony_kernel.core.errors import SessionError

SnapshotKind = Literal["notebook", "data_object", "dataset", "chart", "report"]

SNAPSHOT_SUFFIXES: Final[Mapping[str, str]] = {
    "notebook": ".py",
    "data_object": ".parquet",
    "dataset": ".parquet",
    "chart": ".vl.json",
    "report": ".qmd",
}

SNAPSHOT_KINDS: Final[frozenset[str]] = frozenset(SNAPSHOT_SUFFIXES)
ARTIFACT_FOLDER: Final = ".ockham"

# A file system allows 255 bytes a name; the rest is room for an extension.
MAX_NAME_BYTES: Final = 240

# What Windows reserves, for a workspace can be cloned there: device names with any extension, and
# characters.
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9]) *(\..*)?", re.IGNORECASE)
_BARRED = frozenset('<>:"|?*/\\')
_DIGEST = re.compile(r"[0-9a-f]{3,}")
_LINE_END = re.compile(r"\r\n|\r|\n")


class LiveNameCollisionError(SessionError):
    """A live name is taken by a sibling. The message says how to go on."""

    def __init__(self, kind: str, live_name: str, owner: str) -> None:
        super().__init__(
            f"The {kind} name {live_name!r} belongs to {owner!r}. Publish under another name; to "
            f"replace that {kind}, read it first and publish again."
        )


def checked_name(name: str, what: str = "name") -> str:
    """``name`` itself, when it can be one component of a path on every system.

    ``ValueError`` when it is empty, longer than 240 bytes, holds a separator, a control character,
    another space than " " or a character that Windows does not allow, is reserved there, begins or
    ends in a space, ends in a dot, or is not in the composed form (NFC) of its characters.
    """
    if not name.strip():
        raise ValueError(f"The {what} is empty: give it a name.")
    reason = _fault_in(name)
    if reason:
        raise ValueError(f"The {what} {_short(name)} {reason}: choose another.")
    return name


@lru_cache(maxsize=1_000)
def _fault_in(name: str) -> str:
    for each in name:
        # Control, format and unassigned characters, and spaces of other kinds.
        if each in _BARRED or (each != " " and unicodedata.category(each)[0] in "CZ"):
            return f"holds {each!r}, which no part of a path may hold"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes"
    if name.endswith((".", " ")) or name.startswith(" "):
        return "begins or ends in a space, or ends in a dot"
    if _RESERVED.fullmatch(name):
        return "is reserved by Windows"
    if name != unicodedata.normalize("NFC", name):
        return "is spelled with combining characters; use the composed form (NFC)"
    return ""


def _short(name: str) -> str:
    return repr(name) if len(name) <= 60 else f"{name[:57]!r}…"


def _checked_kind(kind: str) -> str:
    if kind not in SNAPSHOT_KINDS:
        known = ", ".join(SNAPSHOT_SUFFIXES)
        raise ValueError(f"{kind!r} is not a kind of artifact: use one of {known}.")
    return kind


@dataclass(frozen=True)
class ArtifactRef:
    """One snapshot of one artifact.

    ``ValueError`` on an unknown kind, an empty id, or an id that cannot be part of a path.
    """

    kind: str
    logical_id: str
    content_sha: str

    def __post_init__(self) -> None:
        _checked_kind(self.kind)
        checked_name(self.logical_id, "logical_id")
        checked_name(self.content_sha, "content_sha")

    @property
    def workspace_file_path(self) -> str:
        """Where the snapshot lies, relative to the workspace, with forward slashes."""
        if self.kind == "data_object":
            return object_pool_path(self.content_sha)
        name = f"{self.content_sha}{SNAPSHOT_SUFFIXES[self.kind]}"
        return f"{ARTIFACT_FOLDER}/{self.kind}s/{self.logical_id}/{name}"


def workspace_file_path(ref: ArtifactRef) -> str:
    """Where the snapshot of ``ref`` lies, relative to the workspace, with forward slashes."""
    return ref.workspace_file_path


def object_pool_path(sha: str) -> str:
    """Where the pool keeps the immutable bytes with the digest ``sha``.

    ``ValueError`` when ``sha`` is no digest: it is taken apart into a folder and a file.
    """
    if not _DIGEST.fullmatch(sha):
        raise ValueError(f"The content_sha {_short(sha)} is no digest: give all its hex digits.")
    return f"{ARTIFACT_FOLDER}/objects/{sha[:2]}/{sha[2:]}.parquet"


def content_sha(data: bytes) -> str:
    """SHA-256 of ``data``, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def notebook_content_sha(code: str) -> str:
    """SHA-256 of ``code`` without the white space at the end of it and of each of its lines."""
    # Only these end a line of Python; what str.splitlines adds can stand within a text.
    lines = [line.rstrip() for line in _LINE_END.split(code)]
    return content_sha("\n".join(lines).rstrip().encode("utf-8", "surrogatepass"))


def snapshot_sha(kind: str, data: bytes) -> str:
    """The content sha that a snapshot of ``kind`` with the bytes ``data`` has."""
    if _checked_kind(kind) != "notebook":
        return content_sha(data)
    return notebook_content_sha(data.decode("utf-8", "surrogateescape"))


def canonical_json(value: Any) -> bytes:
    """``value`` as the one JSON that equal values share: sorted keys, no white space, UTF-8.

    ``TypeError`` or ``ValueError`` when it is no JSON, NaN and the infinities included.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode("utf-8", "surrogatepass")


def _sorted(values: Iterable[Any]) -> list[Any]:
    # A string given where several are meant would fall apart into its letters.
    if isinstance(values, str):
        raise TypeError(f"Expected several values and got the text {values!r}: put it in a list.")
    return sorted(values, key=canonical_json)


def notebook_logical_id(path: str) -> str:
    """The base name of a notebook's working copy: ``notebooks/foo.py`` is ``foo``.

    A name that cannot be a path on every system becomes its plain letters and a hash of the whole.
    """
    base = PurePosixPath(str(path).replace("\\", "/")).stem
    name = unicodedata.normalize("NFC", base)
    if name.strip() and not _fault_in(name):
        return name
    return f"{slug_from_title(name)[:100]}-{content_sha(name.encode(errors='replace'))[:12]}"


def dataset_logical_id(
    *, notebook_ids: Iterable[str], variable_name: str, sources: Iterable[Any]
) -> str:
    """Which dataset a variable of these notebooks, made from these sources, is."""
    made_of = {"notebook_ids": _sorted(notebook_ids), "sources": _sorted(sources)}
    return _digest(kind="dataset", variable_name=variable_name, **made_of)


def chart_logical_id(
    *, notebook: str, variable_name: str, source_datasets: Iterable[Any], sources: Iterable[Any]
) -> str:
    """Which chart a variable of ``notebook``, drawn from these datasets and sources, is."""
    made_of = {"source_datasets": _sorted(source_datasets), "sources": _sorted(sources)}
    return _digest(kind="chart", notebook=notebook, variable_name=variable_name, **made_of)


def report_logical_id(*, title: str, embedded: Iterable[Any]) -> str:
    """Which report of this title, with these artifacts embedded, it is."""
    return _digest(kind="report", title=title, embedded=_sorted(embedded))


def data_object_logical_id(*, provenance: Mapping[str, Any]) -> str:
    """Which fetched object it is: its provenance, less when it came and what describes it."""
    kept = {k: v for k, v in provenance.items() if k not in {"fetched_at", "properties"}}
    return _digest(kind="data_object", provenance=kept)


def _digest(**identity: Any) -> str:
    # The kind is part of it: a chart and a dataset of one variable are two things.
    return content_sha(canonical_json(identity))


def slug_from_title(title: str) -> str:
    """``title`` as a plain lower-case name of letters, digits and single underscores.

    At most 60 characters; accents are dropped where a letter remains. A title without any
    letter or digit is ``untitled``.
    """
    decomposed = unicodedata.normalize("NFKD", title.casefold())
    bare = "".join(c for c in decomposed if not unicodedata.combining(c))
    words = re.findall(r"[^\W_]+", bare)
    slug = unicodedata.normalize("NFC", "_".join(words))[:60].strip("_")
    return f"{slug}_" if _RESERVED.fullmatch(slug) else slug or "untitled"


def live_name_key(kind: str, live_name: str) -> str:
    """What two live names share that differ in case, width or composition alone."""
    # Case folding can decompose, and composing can bring capitals back: hence twice.
    folded = unicodedata.normalize("NFKC", live_name).casefold()
    folded = unicodedata.normalize("NFKC", folded).casefold()
    folded = unicodedata.normalize("NFKC", folded)
    return content_sha(canonical_json([_checked_kind(kind), folded]))[:32]
