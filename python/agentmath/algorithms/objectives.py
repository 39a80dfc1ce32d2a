"""From the names of a recipe to the records that the loss is made of."""

from __future__ import annotations

from agentmath.config.algorithm import AlgorithmSection
from agentmath_kernels import Cispo, Clip, Correction, Dppo, Gspo, Kl, Sapo, Surrogate


def surrogate_of(section: AlgorithmSection) -> Surrogate:
    """What is maximised at each token."""
    low, high = section.clip_low, section.clip_high
    match section.surrogate:
        case "ppo_clip":
            return Clip(low=low, high=high, dual=section.dual_clip)
        case "gspo":
            return Gspo(low=low, high=high)
        case "cispo":
            return Cispo(low=low, high=high)
        case "sapo":
            return Sapo(tau_positive=section.sapo_tau_positive, tau_negative=section.sapo_tau_negative)
        case "dppo":
            return Dppo(low=low, high=high)


def correction_of(section: AlgorithmSection) -> Correction:
    """The weight between the proximal and the behaviour policy."""
    return Correction(name=section.correction, low=section.importance_floor, high=section.importance_cap)


def kl_of(section: AlgorithmSection) -> Kl | None:
    """The penalty on moving away from the reference policy, if there is one."""
    return None if section.kl == "none" else Kl(estimate=section.kl, coef=section.kl_coef)
