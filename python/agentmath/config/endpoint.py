"""[endpoint]: a served model that is evaluated instead of one of our own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from agentmath.config.section import Section


class EndpointSection(Section):
    url: str = ""
    """Base address of an OpenAI-compatible server, up to and with /v1; empty evaluates the recipe's own model. Only
    `agentmath eval` asks it: a served model cannot be trained."""
    model: str = ""
    """What the server calls the model."""
    api: Literal["chat", "completions"] = "chat"
    """chat sends messages; completions sends the prompt as text and goes on from there, tool outputs included."""
    prefill: bool = False
    """Api chat: whether the server goes on with a last assistant message (vLLM, llama.cpp). Tool outputs then stand in
    that message, as the protocol says; otherwise each is a user message of its own."""
    tokenizer: str = ""
    """Folder, hub name or .gguf file of the model's tokenizer. Texts are then kept as its tokens; without one, as the
    pieces in which the server sent them."""
    key_variable: str = "OPENAI_API_KEY"
    """Environment variable that holds the key; none is sent where it is not set."""
    limit_key: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the server calls the bound on generated tokens."""
    max_concurrent: int = Field(default=8, ge=1, le=4096)
    """Samples in work at a time."""
    request_seconds: float = Field(default=600.0, gt=0)
    """Deadline of one request, all its tries together."""
    idle_seconds: float = Field(default=60.0, gt=0)
    """Longest silence of a server before the try is given up."""
    max_retries: int = Field(default=8, ge=0)
    """Further tries of a request that failed by no fault of its own: 408, 409, 425, 429, 5xx, a lost connection."""
    backoff_seconds: float = Field(default=1.0, gt=0)
    """Longest wait before the first further try; doubled each time up to a minute. A server's Retry-After is kept."""


def endpoint_faults(section: EndpointSection) -> Iterator[str]:
    """What is wrong with a section whose url is set."""
    if not re.match(r"https?://[^/\s@]+", section.url) or "@" in section.url:
        yield f"endpoint.url = {section.url!r}: give http(s)://HOST[:PORT]/v1; keys belong into the environment"
    if not section.model:
        yield "endpoint.model is empty: give the name by which the server knows the model"
    if section.prefill and section.api != "chat":
        yield "endpoint.prefill has no meaning for endpoint.api = 'completions', which always goes on where it stopped"


def endpoint_key(section: EndpointSection) -> str | None:
    """The key, from the environment and from nowhere else."""
    return os.environ.get(section.key_variable) or None
