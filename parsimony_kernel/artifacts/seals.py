"""Log lines that prove themselves and the lines before them.

Each line records how many lines preceded it and the digest of their bytes, and ends with its own
digest. So a line that was altered, moved, inserted or removed is detected if any line was written
after it. Lines that are missing at the end, and a log rewritten as a whole with matching digests,
do not show in the log itself: the journal has the seals of the lines under its own.
"""

import hashlib
import re

_SEALED = re.compile(
    rb'(?P<body>\{.*,"after":(?P<after>\d{1,12}),"before":"(?P<before>[0-9a-f]{64})"),'
    rb'"seal":"(?P<seal>[0-9a-f]{64})"\}'
)


def sealed(line: str, before: bytes) -> tuple[str, str]:
    """``line``, a JSON object, with its seal, and the seal.

    Args:
        before: the lines that its writer found. Another may append in the meantime: what slips in
            is proved by the line after.
    """
    after, digest = before.count(b"\n"), hashlib.sha256(before).hexdigest()
    body = f'{line[:-1]},"after":{after},"before":"{digest}"'
    seal = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
    return f'{body},"seal":"{seal}"}}', seal


def examine(log: bytes) -> tuple[frozenset[str], tuple[str, ...]]:
    """The seals of the lines that are as they were written, and what is wrong with the others."""
    seals, faults, is_broken = set[str](), list[str](), False
    prefix = hashlib.sha256()
    digests = [prefix.hexdigest()]
    for number, line in enumerate(log.split(b"\n"), start=1):
        found = _SEALED.fullmatch(line)
        if found and hashlib.sha256(found["body"]).hexdigest().encode() == found["seal"]:
            after, before, seal = int(found["after"]), found["before"].decode(), found["seal"]
            if seal.decode() in seals:
                faults.append(f"line {number} is a copy of one before it")
            elif not is_broken and (after >= number or digests[after] != before):
                is_broken = True
                faults.append(f"the lines before line {number} are not those that it follows")
            seals.add(seal.decode())
        elif line.strip():
            faults.append(f"line {number} is not as it was written")
        prefix.update(line + b"\n")
        digests.append(prefix.hexdigest())
    return frozenset(seals), tuple(faults)
