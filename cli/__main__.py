"""`python -m cli` is `slipstream`, wherever its script is."""

from cli.main import main

main()
