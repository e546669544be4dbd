"""Language world models: a language model plays the environment that your agent acts in."""
