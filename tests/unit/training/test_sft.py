from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from agentmath.config.training import SFTSection, TrainingSection  # noqa: E402
from agentmath.core.errors import TrainingError  # noqa: E402
from agentmath.training.sft import SFTSettings, SFTState, held_out_loss, step_samples, train_sft  # noqa: E402


def settings(steps: int = 6, *, seed: int = 1, tokens: int = 50, **sft: Any) -> SFTSettings:
    return SFTSettings(
        sft=SFTSection.model_validate({"steps": steps, "sequences_per_step": 4, "eval_every_steps": 2, **sft}),
        training=TrainingSection.model_validate({"tokens_per_microbatch": tokens}),
        seed=seed,
    )


def data(tiny: Any, n: int, offset: int = 0) -> list[Any]:
    return [tiny.sample(offset + i, key=f"row-{i}", length=8 + i % 7) for i in range(n)]


def run(tiny: Any, s: SFTSettings, *, samples: int = 10, held_out: int = 5, **options: Any) -> tuple[Any, list[Any]]:
    policy, optimizer = tiny.build(total_steps=s.sft.steps, **options)
    steps = list(train_sft(policy, optimizer, data(tiny, samples), s, held_out=data(tiny, held_out, 100)))
    return policy, steps


def test_one_step_lowers_the_plain_mean_of_the_spans(tiny: Any) -> None:
    samples = data(tiny, 4)
    policy, optimizer = tiny.build(total_steps=1)
    total, count = 0.0, 0
    with torch.no_grad():
        for s in samples:
            ids = torch.tensor(s.ids.astype(np.int64))
            every = torch.log_softmax(
                policy.forward_hidden(ids, torch.arange(len(ids)), [len(ids)]) @ policy.embed.t(), -1
            )
            mask = torch.tensor(s.trainable[1:])
            total -= float(every[:-1].gather(1, ids[1:, None])[:, 0][mask].sum())
            count += int(mask.sum())
    assert held_out_loss(policy, samples, settings().training) == pytest.approx(total / count, rel=1e-5)
    (step,) = train_sft(policy, optimizer, samples, settings(1))
    assert step.values["loss"] == pytest.approx(total / count, rel=1e-5)
    assert step.values["trainable_tokens"] == count
    assert held_out_loss(policy, samples, settings().training) < total / count


def test_tokens_outside_the_spans_do_not_matter_as_targets(tiny: Any) -> None:
    # The last token is context for nobody: unless it is trainable, changing it changes nothing.
    samples = [replace(s, trainable=np.append(s.trainable[:-1], False)) for s in data(tiny, 4)]
    other = [replace(s, ids=np.append(s.ids[:-1], (s.ids[-1] + 1) % 13).astype(np.int32)) for s in samples]
    results = []
    for chosen in (samples, other):
        policy, optimizer = tiny.build()
        list(train_sft(policy, optimizer, chosen, settings(2)))
        results.append(policy.state_dict())
    assert all(torch.equal(results[0][n], results[1][n]) for n in results[0])


@given(st.integers(1, 20), st.integers(1, 30), st.integers(0, 5))
def test_every_epoch_reads_every_sample_once(n: int, batch: int, seed: int) -> None:
    steps = -(-3 * n // batch)
    chain = [i for t in range(steps) for i in step_samples(n, batch, seed=seed, step=t)]
    for epoch in range(3):
        assert sorted(chain[epoch * n : (epoch + 1) * n]) == list(range(n))


def test_the_order_follows_from_the_seed(tiny: Any) -> None:
    a, b, c = (run(tiny, settings(seed=seed))[1] for seed in (1, 1, 2))
    assert [s.values["loss"] for s in a] == [s.values["loss"] for s in b]
    assert [s.values["loss"] for s in a] != [s.values["loss"] for s in c]


def test_packing_does_not_change_the_loss(tiny: Any) -> None:
    a, b = (run(tiny, settings(tokens=t))[1] for t in (1, 10_000))
    assert [s.values["loss"] for s in a] == pytest.approx([s.values["loss"] for s in b], rel=1e-4)
    assert a[0].values["microbatches"] == 4
    assert b[0].values["microbatches"] == 1


def test_held_out_loss_comes_every_few_steps_and_at_the_end(tiny: Any) -> None:
    _, steps = run(tiny, settings(5))
    assert ["held_out_loss" in s.values for s in steps] == [False, True, False, True, True]
    _, none = run(tiny, settings(3), held_out=0)
    assert not any("held_out_loss" in s.values for s in none)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("patience", [0, 1])
@pytest.mark.parametrize("stop_at", [1, 4])
def test_resuming_from_state_and_optimiser_changes_no_bit(
    tiny: Any, dtype: str, optimizer: str, patience: int, stop_at: int
) -> None:
    s = settings(6, patience=patience)
    whole, whole_steps = run(tiny, s, dtype=dtype, optimizer=optimizer)

    policy, opt = tiny.build(total_steps=6, dtype=dtype, optimizer=optimizer)
    state = SFTState()
    stream = train_sft(policy, opt, data(tiny, 10), s, held_out=data(tiny, 5, 100), state=state)
    steps = [next(stream) for _ in range(min(stop_at, len(whole_steps)))]
    buffer = io.BytesIO()
    torch.save({"model": policy.state_dict(), "optimizer": opt.state_dict(), "sft": state.state_dict()}, buffer)
    stream.close()

    buffer.seek(0)
    saved = torch.load(buffer, weights_only=True)
    policy, opt = tiny.build(total_steps=6, dtype=dtype, optimizer=optimizer)
    policy.load_state_dict(saved["model"])
    opt.load_state_dict(saved["optimizer"])
    state = SFTState.from_state_dict(saved["sft"])
    steps += train_sft(policy, opt, data(tiny, 10), s, held_out=data(tiny, 5, 100), state=state)
    assert [x.values for x in steps] == [x.values for x in whole_steps]
    assert all(torch.equal(p, dict(whole.named_parameters())[n]) for n, p in policy.named_parameters())


def overfit(tiny: Any, *, patience: int, steps: int = 60) -> tuple[Any, list[Any]]:
    """Few samples, unrelated held-out ones, a high learning rate: the held-out loss soon turns."""
    s = settings(steps, patience=patience, eval_every_steps=1)
    policy, optimizer = tiny.build(total_steps=steps)
    return policy, list(train_sft(policy, optimizer, data(tiny, 4), s, held_out=data(tiny, 5, 100)))


def test_patience_stops_early_and_puts_the_best_weights_back(tiny: Any) -> None:
    policy, steps = overfit(tiny, patience=3)
    losses = [s.values["held_out_loss"] for s in steps]
    best = min(range(len(losses)), key=losses.__getitem__)
    assert len(steps) < 60
    assert len(losses) == best + 1 + 3
    assert steps[-1].values["restored_step"] == best + 1
    assert steps[-1].values["restored_held_out_loss"] == losses[best]
    assert held_out_loss(policy, data(tiny, 5, 100), settings().training) == losses[best]


def test_without_patience_all_steps_run_and_the_last_weights_stay(tiny: Any) -> None:
    policy, steps = overfit(tiny, patience=0, steps=30)
    assert len(steps) == 30
    assert "restored_step" not in steps[-1].values
    assert held_out_loss(policy, data(tiny, 5, 100), settings().training) == steps[-1].values["held_out_loss"]


def test_a_finished_state_yields_nothing_more(tiny: Any) -> None:
    policy, optimizer = tiny.build()
    state = SFTState(step=3, finished=True)
    assert list(train_sft(policy, optimizer, data(tiny, 4), settings(), state=state)) == []


def test_no_steps_do_nothing(tiny: Any) -> None:
    policy, optimizer = tiny.build()
    assert list(train_sft(policy, optimizer, [], settings(0))) == []


def test_samples_without_a_token_to_learn_are_left_out_and_all_such_refused(tiny: Any) -> None:
    mute = replace(tiny.sample(1, key="mute"), trainable=np.zeros(12, dtype=np.bool_))
    policy, optimizer = tiny.build()
    (step,) = train_sft(policy, optimizer, [mute, tiny.sample(2, key="a")], settings(1))
    assert math.isfinite(step.values["loss"])
    with pytest.raises(TrainingError, match="none of 2 samples has a token to learn"):
        next(train_sft(policy, optimizer, [mute, mute], settings(1)))


def test_a_nonfinite_step_is_skipped_or_raised(tiny: Any) -> None:
    policy, optimizer = tiny.build()
    samples = data(tiny, 10)
    # The token before the last one, which is trained on, of a sample that the first step reads.
    policy.poison_at_token = int(samples[step_samples(10, 4, seed=1, step=0)[0]].ids[-2])
    with pytest.raises(TrainingError, match="sft-step-0: no update was made"):
        next(train_sft(policy, optimizer, samples, settings()))
    s = settings()
    s = replace(s, training=s.training.model_copy(update={"nonfinite": "skip"}))
    before = {n: p.detach().clone() for n, p in policy.named_parameters()}
    step = next(train_sft(policy, optimizer, samples, s))
    assert step.skipped is not None
    assert "loss" not in step.values
    assert all(torch.equal(p, before[n]) for n, p in policy.named_parameters())
