"""The one loop in which a policy acts, and the policies."""
