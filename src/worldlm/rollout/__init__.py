"""The one loop in which a policy acts, and the policies."""

from worldlm.rollout.policies import ModelPolicy, ScriptPolicy, read_script
from worldlm.rollout.rollout import Job, RolloutLimits, group_jobs, run_episode, run_episodes

__all__ = [
    "Job",
    "ModelPolicy",
    "RolloutLimits",
    "ScriptPolicy",
    "group_jobs",
    "read_script",
    "run_episode",
    "run_episodes",
]
