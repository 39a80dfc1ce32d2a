from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest

from agentmath.config.engine import EngineSection
from agentmath.core.types import Completion, Sampling

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

T = TypeVar("T")
VOCAB = 96
EOS = 1


class LetterTokenizer:
    """Every id is one printable character; nothing ends a message unless eos_ids says so."""

    def __init__(self, eos_ids: tuple[int, ...] = ()) -> None:
        self.eos_ids = eos_ids

    def encode(self, text: str, *, allow_special: bool) -> list[int]:
        return [ord(c) - 32 for c in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(int(i) + 32) for i in ids)

    def render_chat(self, messages: Any, *, add_generation_prompt: bool) -> str:
        raise NotImplementedError


def new_policy(family: str = "Qwen3", *, seed: int = 0, tokenizer: Any = None, dtype: Any = None, **sizes: Any) -> Any:
    """A policy with random weights, large enough that no two next tokens look alike."""
    import transformers

    from agentmath.training.policy import policy_of

    shape: dict[str, Any] = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
    shape |= {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": EOS} | sizes
    if family.startswith("Qwen3"):
        shape.setdefault("head_dim", 16)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = getattr(transformers, f"{family}ForCausalLM")(getattr(transformers, f"{family}Config")(**shape))
        for parameter in module.parameters():
            if parameter.ndim > 1:
                parameter.data.mul_(4)
            elif "norm" in family.lower() or parameter.ndim == 1:
                parameter.data.add_(torch.randn_like(parameter), alpha=0.1)
    letters: Any = tokenizer or LetterTokenizer()
    return policy_of(module.to(dtype or torch.float32), letters, name="test")


def new_engine(policy: Any, *, prepare: Any = None, **section: Any) -> Any:
    from agentmath.engines.transformers_engine import TransformersEngine

    values: dict[str, Any] = {"max_rows": 8, "max_context_tokens": 64} | section
    options = {} if prepare is None else {"prepare": prepare}
    return TransformersEngine(
        forward=policy.forward_rows,
        head=policy.head_weight,
        shape=policy.cache_shape(),
        tokenizer=policy.tokenizer,
        section=EngineSection(**values),
        **options,
    )


def recomputed(policy: Any, context: Sequence[int], completion: Completion, temperature: float = 1.0) -> np.ndarray:
    """Log-probs of the sampled tokens as the trainer computes them: the whole sequence at once, without a cache."""
    full = torch.tensor([*context, *completion.ids.tolist()])
    with torch.no_grad():
        hidden = policy.forward_hidden(full, torch.arange(len(full)), [len(full)])
        logits = hidden.float() @ policy.head_weight().float().t() / temperature
    logprobs = torch.log_softmax(logits, dim=-1)
    return logprobs[len(context) - 1 : -1].gather(1, full[len(context) :, None]).squeeze(1).numpy()


def prompts(count: int, *, length: int = 7, seed: int = 0) -> list[list[int]]:
    """Distinct contexts without an end token; lengths vary a little."""
    draw = np.random.default_rng(seed)
    return [draw.integers(2, VOCAB, length + i % 3).tolist() for i in range(count)]


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(coroutine, 60)

    return asyncio.run(bounded())


async def all_of(engine: Any, contexts: Sequence[Sequence[int]], **sampling: Any) -> list[Completion]:
    """One request a session, each closed when it is answered."""

    async def one(session: int, ids: Sequence[int]) -> Completion:
        completion = await engine.generate(ids, Sampling(seed=session, **sampling), session=session)
        engine.close_session(session)
        return completion

    return list(await asyncio.gather(*(one(i, ids) for i, ids in enumerate(contexts))))


def stop_of(policy: Any, context: list[int], length: int = 2) -> tuple[str, Completion]:
    """A text that greedy decoding produces somewhere, and what it produces without stopping."""
    (free,) = run(all_of(new_engine(policy), [context], max_new_tokens=30, temperature=0.0))
    text = policy.tokenizer.decode(free.ids)
    return text[4 : 4 + length], free


class Toolbox:
    """What the tests of this folder share."""

    VOCAB, EOS = VOCAB, EOS
    LetterTokenizer = LetterTokenizer
    new_policy: Callable[..., Any] = staticmethod(new_policy)
    new_engine: Callable[..., Any] = staticmethod(new_engine)
    recomputed = staticmethod(recomputed)
    prompts = staticmethod(prompts)
    run: Callable[..., Any] = staticmethod(run)
    stop_of = staticmethod(stop_of)
    all_of: Callable[..., Any] = staticmethod(all_of)


@pytest.fixture(scope="session")
def box() -> type[Toolbox]:
    torch.set_num_threads(1)
    return Toolbox


@pytest.fixture(scope="session")
def policy(box: type[Toolbox]) -> Any:
    return box.new_policy()
