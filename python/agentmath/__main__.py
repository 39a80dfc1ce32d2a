"""`python -m agentmath` is `agentmath`."""

from agentmath.cli.main import main

if __name__ == "__main__":
    main()
