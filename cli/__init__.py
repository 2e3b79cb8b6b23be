"""The command slipstream: thin, and lazy in what it imports."""
