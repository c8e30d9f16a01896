"""Rules for missing values: to count, drop and fill them."""

from parsimony_kernel.llm.offline.grammar.rules import Rule

RULES: tuple[Rule, ...] = ()
