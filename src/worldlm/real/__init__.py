"""Real environments, one file a domain."""
