"""Log lines that prove themselves and the lines before them.

Each line records how many lines preceded it and the digest of their bytes, and ends with its own
digest. So a line that was altered, moved, inserted or removed is detected if any line was written
after it. Lines that are missing at the end, and a log rewritten as a whole with matching digests,
do not show in the log itself: the journal has the seals of the lines under its own.
"""

import hashlib
import json
import re

_SEALED = re.compile(
    rb'(\{.*,"after":(\d{1,12}),"before":"([0-9a-f]{64})"),"seal":"([0-9a-f]{64})"\}'
)


def whole_lines(log: bytes) -> bytes:
    """``log`` without a last line that has no end."""
    return log[: log.rfind(b"\n") + 1]


def sealed(line: str, before: bytes) -> str:
    """``line``, a JSON object, with its seal.

    Args:
        before: the lines that its writer found. Another may append in the meantime: what slips in
            is proved by the line after.
    """
    after, digest = before.count(b"\n"), hashlib.sha256(before).hexdigest()
    body = f'{line[:-1]},"after":{after},"before":"{digest}"'
    seal = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
    return f'{body},"seal":"{seal}"}}'


def seals_of(log: bytes) -> frozenset[str]:
    """The seals of the lines that are as they were written."""
    matches = filter(None, map(_SEALED.fullmatch, log.split(b"\n")))
    return frozenset(
        match[4].decode()
        for match in matches
        if hashlib.sha256(match[1]).hexdigest().encode() == match[4]
    )


def faults(log: bytes) -> tuple[str, ...]:
    """What is wrong with the lines of a log as a whole. What is no JSON is passed over."""
    found, seals = list[str](), set[bytes]()
    prefix = hashlib.sha256()
    digests = [prefix.hexdigest().encode()]
    is_broken = False
    for number, line in enumerate(log.split(b"\n"), start=1):
        match = _SEALED.fullmatch(line)
        if match is not None:
            body, after, before, seal = match.groups()
            if hashlib.sha256(body).hexdigest().encode() != seal:
                found.append(f"line {number} is not as it was written")
            elif seal in seals:
                found.append(f"line {number} is a copy of one before it")
            elif not is_broken and (int(after) >= number or digests[int(after)] != before):
                is_broken = True
                found.append(f"the lines before line {number} are not those that it follows")
            seals.add(seal)
        elif _is_json(line):
            found.append(f"line {number} is not as it was written: it has no seal")
        prefix.update(line + b"\n")
        digests.append(prefix.hexdigest().encode())
    return tuple(found)


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
