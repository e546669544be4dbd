"""Domain + model → Environment, and the shipped worlds."""
