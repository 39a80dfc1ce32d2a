"""Errors, named by the boundary that was crossed.

Every error that a person can cause or must act on is one of these. The text says what happened, with which value, and
what to do; the command line prints it without a traceback and exits with `exit_code`.
"""

from __future__ import annotations


class AgentmathError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 1


class ConfigError(AgentmathError):
    """A recipe, an override or a combination of settings cannot work."""

    exit_code = 2


class DataError(AgentmathError):
    """A data file is missing, unreadable or not of the promised shape."""

    exit_code = 3


class FormatError(AgentmathError):
    """A prompt, template or tokenizer cannot carry the tag protocol."""

    exit_code = 4


class EngineError(AgentmathError):
    """Generation failed or was asked for something impossible."""

    exit_code = 5


class SandboxError(AgentmathError):
    """The sandbox itself failed; never raised for what a snippet did."""

    exit_code = 6


class TrainingError(AgentmathError):
    """A training step cannot go on, or would be meaningless."""

    exit_code = 7


class CheckpointError(AgentmathError):
    """A checkpoint cannot be written, read or continued."""

    exit_code = 8


class Interrupted(AgentmathError):
    """The person pressed Ctrl-C; the run stopped cleanly and can be resumed."""

    exit_code = 130
