"""Keys in the shapes that services publish are redacted; texts that look alike are kept."""

import re
import string
import tomllib
from pathlib import Path
from random import Random

import pytest

from parsimony_kernel.core.redaction import REDACTED
from parsimony_kernel.llm.secrets import Secrets

CORPUS = tomllib.loads(Path(__file__).with_name("tokens.toml").read_text(encoding="utf-8"))
WORD = string.ascii_letters + string.digits
LETTERS = {
    "w": WORD,
    "b": f"{WORD}_-",
    "x": "0123456789abcdef",
    "l": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "d": string.digits,
}
DRAWN = re.compile(r"\{([wbxlUd])(\d+)\}")
AROUND = ["{}", "the value {} was printed", '{{"k": "{}"}}', "x='{}'\n", r"a\n{}\nb", "({}), k={}."]
SECRETS = Secrets({})


def token(service: str) -> tuple[str, str]:
    """Make up a service's key, the same each time; return it and its longest drawn part."""
    random = Random(service)
    parts: list[str] = []

    def draw(match: re.Match[str]) -> str:
        parts.append("".join(random.choices(LETTERS[match[1]], k=int(match[2]))))
        return parts[-1]

    return DRAWN.sub(draw, CORPUS["tokens"][service]), max(parts, key=len)


@pytest.mark.parametrize("service", CORPUS["tokens"])
def test_published_shape_is_redacted(service: str) -> None:
    key, part = token(service)
    for around in AROUND:
        cleaned = SECRETS.clean(around.replace("{}", key))
        assert REDACTED in cleaned
        assert not any(part[at : at + 8] in cleaned for at in range(len(part) - 7))
        assert SECRETS.clean(cleaned) == cleaned


@pytest.mark.parametrize("text", CORPUS["harmless"]["texts"])
def test_text_that_looks_alike_is_kept(text: str) -> None:
    assert SECRETS.clean(text) == text


def test_corpus_is_large_enough() -> None:
    assert len(CORPUS["tokens"]) >= 90
    assert len(CORPUS["harmless"]["texts"]) >= 60
