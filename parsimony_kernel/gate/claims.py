"""What a summary claims, against what was observed in the run.

Names, numbers and deeds that stand nowhere in what the person said, the tools answered or the
code did. A true summary that is refused costs more than a false one that passes: whatever has an
innocent reading is no claim.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from parsimony_kernel.core.causes import CLAIM_UNOBSERVED
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.gate.claimed_deeds import undone_deeds
from parsimony_kernel.gate.claimed_names import unseen_files, unseen_names
from parsimony_kernel.gate.claimed_numbers import unseen_numbers
from parsimony_kernel.gate.observation import Observation
from parsimony_kernel.gate.prose import FENCED, Claim
from parsimony_kernel.gate.stages import Attempt, Stage

MAX_SUMMARY = 20_000
MAX_CLAIMS = 8


def claims_observed(
    observed: Callable[[], Iterable[str]],
    names: Callable[[], Collection[str]],
    published: Callable[[], bool],
    ran: Callable[[], bool] = lambda: True,
    *,
    code: Callable[[], Iterable[str]] = tuple,
    earlier: Callable[[], Iterable[str]] = tuple,
    exists: Callable[[str], bool] = lambda path: False,
) -> Stage:
    """A run ends with a summary only of what it has observed.

    Args:
        observed: gives the texts of the run: what the person wrote and the tools answered.
        names: gives the variables and columns that exist.
        published: whether the run published anything.
        ran: whether any tool has worked.
        code: gives the code that ran to its end.
        earlier: gives what earlier turns came to, and what is published.
        exists: whether a file of that name has come into the working folder since the run began.
    """

    def stage(attempt: Attempt) -> Failure | None:
        summary = attempt.inputs.get("summary")
        if attempt.action != "return_done" or not isinstance(summary, str):
            return None
        seen = Observation(
            [text for text in observed() if not _is_refusal_of(attempt.action, text)],
            frozenset(names()) | frozenset(attempt.tools),
            code=code(),
            earlier=earlier(),
            exists=exists,
            published=published(),
            ran=ran(),
        )
        claims = unobserved(summary, seen)
        return _refusal(claims) if claims else None

    return stage


def unobserved(summary: str, seen: Observation) -> list[Claim]:
    """The claims of ``summary`` that nothing observed supports, in the order of their kinds."""
    text = FENCED.sub("\n", summary[:MAX_SUMMARY])
    found = [
        *unseen_names(text, seen),
        *unseen_files(text, seen),
        *unseen_numbers(text, seen),
        *undone_deeds(text, seen),
    ]
    return list(dict.fromkeys(found))


def _is_refusal_of(action: str, text: str) -> bool:
    """Whether ``text`` is the gate's own answer to ``action``, which repeats what was claimed."""
    return text.startswith("{") and f'"requested": "{action}"' in text[:300]


def _refusal(claims: Sequence[Claim]) -> Failure:
    told = claims[:MAX_CLAIMS]
    listed = "; ".join(f"{claim.text} ({claim.why})" for claim in told)
    more = f"; and {len(claims) - len(told)} more" if len(claims) > len(told) else ""
    reason = f"The summary claims what was not observed in this run: {listed}{more}"
    return CLAIM_UNOBSERVED.failure(
        f"{reason}. Observe it with run_code, or leave it out. The run has not ended.",
        envelope={
            "reason": reason,
            "details": [
                {"field": "summary", "kind": claim.kind, "claim": claim.text, "why": claim.why}
                for claim in told
            ],
        },
    )
