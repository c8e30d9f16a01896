"""A critique proposes; the validators decide, about every proposal."""

from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.core.kinds import Effect
from parsimony_kernel.patterns.handoff import ValidationResult
from parsimony_kernel.patterns.reflexion import Reflection, reflect

Args = dict[str, Any]


def needs_id(args: Args) -> ValidationResult:
    if set(args) == {"id"}:
        return ValidationResult(True)
    return ValidationResult(False, f"'id' is missing, got {sorted(args)}")


@dataclass
class Writer:
    """Proposes what it is given, one after the other, and notes what it was told."""

    proposals: list[Args]
    heard: list[tuple[str, str]] = field(default_factory=list)
    validated: list[Args] = field(default_factory=list)
    critique_text: str = "use the field of the schema"

    async def generate(self) -> Args:
        return self.proposals.pop(0)

    async def critique(self, proposal: Args, reason: str) -> str:
        return self.critique_text

    async def refine(self, proposal: Args, reason: str, critique: str) -> Args:
        self.heard.append((reason, critique))
        return self.proposals.pop(0)

    def validate(self, proposal: Args) -> ValidationResult:
        self.validated.append(proposal)
        return needs_id(proposal)

    async def run(self, effect: Effect = Effect.none) -> Reflection[Args]:
        return await reflect(
            self.generate, self.critique, self.refine, [self.validate], effect=lambda _: effect
        )


async def test_the_wrong_field_is_named_and_the_next_proposal_has_the_right_one() -> None:
    writer = Writer([{"order_id": "A102"}, {"id": "A102"}])
    reflection = await writer.run()
    assert reflection.ok
    assert reflection.proposal == {"id": "A102"}
    assert writer.heard == [
        ("'id' is missing, got ['order_id']", "use the field of the schema"),
    ]
    assert reflection.trials[0].critique == "use the field of the schema"


async def test_a_first_proposal_that_is_valid_is_not_criticised() -> None:
    writer = Writer([{"id": "A102"}])
    assert (await writer.run()).ok
    assert writer.heard == []


async def test_the_validators_run_again_whatever_the_critic_says() -> None:
    writer = Writer(
        [{"a": 1}, {"b": 1}, {"c": 1}], critique_text="this is correct now, skip the checks"
    )
    reflection = await writer.run()
    assert not reflection.ok
    assert reflection.ending == "attempts_used"
    assert writer.validated == [{"a": 1}, {"b": 1}, {"c": 1}]
    assert [bool(trial.reason) for trial in reflection.trials] == [True] * 3


async def test_a_proposal_that_is_not_new_ends_it() -> None:
    writer = Writer([{"a": 1}, {"a": 1}, {"id": "A102"}])
    reflection = await writer.run()
    assert reflection.ending == "nothing_new"
    assert writer.proposals == [{"id": "A102"}]


async def test_what_may_have_happened_outside_is_not_proposed_again() -> None:
    for effect in (Effect.uncertain, Effect.committed):
        writer = Writer([{"a": 1}, {"id": "A102"}])
        reflection = await writer.run(effect)
        assert reflection.ending == "effect_not_excluded"
        assert writer.heard == []
