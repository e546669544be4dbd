"""Domain + model → Environment, and the shipped worlds."""

from worldlm.simulate.environment import SimulatedEnvironment
from worldlm.simulate.worlds import dump_world, load_world, parse_world, shipped_worlds

__all__ = ["SimulatedEnvironment", "dump_world", "load_world", "parse_world", "shipped_worlds"]
