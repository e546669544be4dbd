"""AgentWorldBench: predictions, scores and averages over single turns of real trajectories."""
