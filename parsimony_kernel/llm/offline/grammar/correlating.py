"""Rules for how columns go together: correlation and heat maps."""

from parsimony_kernel.llm.offline.grammar.rules import Rule

RULES: tuple[Rule, ...] = ()
