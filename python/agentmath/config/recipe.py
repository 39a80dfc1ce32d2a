"""The recipe: all sections, and what must hold between them."""

from __future__ import annotations

from agentmath.config.algorithm import AlgorithmSection
from agentmath.config.curriculum import CurriculumSection
from agentmath.config.data import DataSection
from agentmath.config.endpoint import EndpointSection
from agentmath.config.engine import EngineSection
from agentmath.config.evaluation import EvaluationSection
from agentmath.config.grading import GradingSection
from agentmath.config.model import ModelSection
from agentmath.config.prompt import PromptSection
from agentmath.config.reward import RewardSection
from agentmath.config.rollout import RolloutSection
from agentmath.config.run import RunSection
from agentmath.config.sandbox import SandboxSection
from agentmath.config.section import Section
from agentmath.config.telemetry import TelemetrySection
from agentmath.config.training import OptimizerSection, SFTSection, TrainingSection


class Recipe(Section):
    """Everything a run depends on. A part of the program receives its section, never this."""

    run: RunSection = RunSection()
    model: ModelSection = ModelSection()
    data: tuple[DataSection, ...] = ()
    prompt: PromptSection = PromptSection()
    engine: EngineSection = EngineSection()
    endpoint: EndpointSection = EndpointSection()
    sandbox: SandboxSection = SandboxSection()
    rollout: RolloutSection = RolloutSection()
    curriculum: CurriculumSection = CurriculumSection()
    grading: GradingSection = GradingSection()
    reward: RewardSection = RewardSection()
    algorithm: AlgorithmSection = AlgorithmSection()
    training: TrainingSection = TrainingSection()
    optimizer: OptimizerSection = OptimizerSection()
    sft: SFTSection = SFTSection()
    sft_optimizer: OptimizerSection = OptimizerSection()
    evaluation: EvaluationSection = EvaluationSection()
    telemetry: TelemetrySection = TelemetrySection()
