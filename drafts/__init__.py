"""Guess the target's next tokens: languages, vocabularies, drafters, and the loop that joins them to a target."""
