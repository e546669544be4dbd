"""The one loop in which a policy acts, and the policies."""

from worldlm.rollout.policies import ModelPolicy, ScriptPolicy, read_script
from worldlm.rollout.replaying import replay
from worldlm.rollout.rollout import Job, RolloutLimits, group_jobs, run_episode, run_episodes
from worldlm.rollout.summary import Agreement, Summary, is_done, records

__all__ = [
    "Agreement",
    "Job",
    "ModelPolicy",
    "RolloutLimits",
    "ScriptPolicy",
    "Summary",
    "group_jobs",
    "is_done",
    "read_script",
    "records",
    "replay",
    "run_episode",
    "run_episodes",
]
