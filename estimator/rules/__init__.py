"""Sizing rules: small functions from a situation to a number of workers."""

from estimator.rules.catalogue import RULES, UnknownRule, rule_named, takes
from estimator.rules.rule import Rule

__all__ = ["RULES", "Rule", "UnknownRule", "rule_named", "takes"]
