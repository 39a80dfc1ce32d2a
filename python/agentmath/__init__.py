"""agentmath: training language models that solve mathematics with tools."""
