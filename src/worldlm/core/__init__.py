"""The nouns, outcomes, errors and protocols. Imports the standard library and pydantic alone."""
