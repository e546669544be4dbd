"""Rule-based scores of a predicted observation against the real one, with no model at all."""

from worldlm.judge.verifiers.verification import VERSION, Part, Verification
from worldlm.judge.verifiers.verify import verify

__all__ = ["VERSION", "Part", "Verification", "verify"]
