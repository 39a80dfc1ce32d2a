"""All dialects by name."""

from __future__ import annotations

from agentmath.core.errors import ConfigError
from agentmath.formats import agentmath, dual_agent, markdown, tool_call
from agentmath.formats.dialect import Dialect

DIALECTS: dict[str, Dialect] = {
    module.DIALECT.name: module.DIALECT for module in (agentmath, markdown, dual_agent, tool_call)
}


def dialect_named(name: str) -> Dialect:
    """The dialect of that name. Raises ConfigError that lists the known ones."""
    if name not in DIALECTS:
        raise ConfigError(f"there is no dialect {name!r}; known: {', '.join(DIALECTS)}")
    return DIALECTS[name]
