"""What one step of a stage makes devices do: which networks it holds, and which passes it takes through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from llmstack.config.distill import DistillConfig, DistillOnlineConfig
from llmstack.config.grpo import GrpoConfig
from llmstack.config.lora import LoraConfig
from llmstack.config.model import ModelConfig
from llmstack.config.online import OnlineConfig, RolloutConfig
from llmstack.config.ppo import PpoConfig
from llmstack.config.preference import PreferenceConfig
from llmstack.config.rewards import CombineConfig, ModelRewardConfig, RewardSourceConfig
from llmstack.config.stages import RewardConfig, RowStageConfig, StageConfig
from llmstack.parallel.plan.flops import Flops, forward, generation, mean_keys, training
from llmstack.parallel.plan.inventory import Head, TensorSpec, alike

SAMPLE_PROMPT = 128
"""Tokens that the prompt of a sample is taken to have, as its length depends on the data."""

ModelOf = Callable[[str | None], ModelConfig]
"""The sizes of the model of a stage or folder; None: of one that starts from random weights."""


@dataclass(frozen=True)
class Network:
    """A model that a stage holds.

    Attributes:
        role: policy, critic and so on.
        model: its sizes, with a vocabulary.
        head: what is at the end of its trunk.
        trained: whether a part of it learns.
        lora: adapters on the frozen model.
        shared: its weights are those of another network, and take no room.
    """

    role: str
    model: ModelConfig
    head: Head
    trained: bool
    lora: LoraConfig | None = None
    shared: bool = False

    @cached_property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """Its Parameters, those that are alike counted together."""
        return alike(self.model, self.head, self.lora)


@dataclass(frozen=True)
class Pass:
    """Passes through one network, all alike.

    Attributes:
        network: what it goes through.
        train: forward and backward, not forward alone.
        rows: rows of one graph call, over all data ranks.
        tokens: tokens T of a row.
        targets: positions of a row that reach the head.
        calls: graph calls in a step.
        joined: it is in one graph with the pass before, so that the activations of both are kept at once.
    """

    network: Network
    train: bool
    rows: int
    tokens: int
    targets: int
    calls: int
    joined: bool = False

    @cached_property
    def flops(self) -> Flops:
        """Of all calls and ranks together, nothing computed twice."""
        model, tokens = self.network.model, self.rows * self.tokens
        keys, targets = mean_keys(self.tokens, model.sliding_window), self.rows * self.targets
        if self.train:
            once = training(model, self.network.head, tokens, keys, targets, self.network.lora)
        else:
            once = forward(model, self.network.head, tokens, keys, targets)
        return once.times(self.calls)


@dataclass(frozen=True)
class Rollout:
    """Answers written with a KV cache.

    Attributes:
        network: who writes.
        rows: answers, over all data ranks.
        prompts: padded lengths of prompts, each with a cache of its own; a step has one of them.
        response: tokens of an answer.
        every_step: whether it is part of a step, and not of an evaluation alone.
    """

    network: Network
    rows: int
    prompts: tuple[int, ...]
    response: int
    every_step: bool

    @cached_property
    def flops(self) -> Flops:
        """Of the longest prompts; none when no step has a rollout."""
        if not self.every_step:
            return Flops()
        return generation(self.network.model, self.rows, self.prompts[-1], self.response)


@dataclass(frozen=True)
class StageWork:
    """One step of a stage.

    Attributes:
        name: the stage.
        kind: its kind.
        networks: what is held.
        passes: what is done.
        rollouts: what is written.
        tokens: tokens of the step's rows, padding counted.
        updates: optimizer steps in it.
        accumulates: whether gradients are summed over several graph calls, in buffers that stay.
        notes: what has been assumed.
    """

    name: str
    kind: str
    networks: tuple[Network, ...]
    passes: tuple[Pass, ...]
    rollouts: tuple[Rollout, ...]
    tokens: int
    updates: int
    accumulates: bool
    notes: tuple[str, ...] = ()

    @cached_property
    def flops(self) -> Flops:
        """Useful operations of a step, of all ranks together."""
        parts = [each.flops for each in self.passes] + [rollout.flops for rollout in self.rollouts]
        return sum(parts, Flops())


def work_of(name: str, stage: StageConfig, model_of: ModelOf) -> StageWork:
    """What a step of a stage does.

    Args:
        name: the stage.
        stage: its options.
        model_of: finds the sizes of the models it names.
    """
    if isinstance(stage, RolloutConfig):
        return _online(name, stage, model_of)
    head: Head = "scalar" if isinstance(stage, RewardConfig) else "language"
    network = Network("model", model_of(stage.init_from), head, True, stage.lora)
    length = stage.longest_row
    pairs = isinstance(stage, RewardConfig) or (isinstance(stage, PreferenceConfig) and stage.loss.paired)
    rows = stage.batch_rows * (2 if pairs else 1)
    targets = 1 if head == "scalar" else length
    networks, notes = [network], []
    passes = [Pass(network, True, rows, length, targets, stage.accumulate)]
    if isinstance(stage, DistillConfig):
        teacher = Network("teacher", model_of(stage.teacher), "language", False)
        networks.append(teacher)
        passes.append(Pass(teacher, False, rows, length, targets, stage.accumulate, joined=True))
    elif isinstance(stage, PreferenceConfig) and stage.reference_source is not None:
        notes.append("the reference is read before the first step and then dropped; it is not counted")
    elif not isinstance(stage, (RowStageConfig, RewardConfig, PreferenceConfig)):
        notes.append(f"kind {stage.kind} is taken to train one language model on rows of {length} tokens")
    rollouts = [*_samples(stage, network)]
    return StageWork(
        name, stage.kind, tuple(networks), tuple(passes), tuple(rollouts), rows * length * stage.accumulate, 1,
        stage.accumulate > 1, tuple(notes),
    )  # fmt: skip


def _samples(stage: StageConfig, network: Network) -> Iterator[Rollout]:
    options = stage.samples if isinstance(stage, (RowStageConfig, PreferenceConfig)) else None
    if options is not None and options.prompts:
        yield Rollout(network, options.prompts, (SAMPLE_PROMPT,), options.max_new_tokens, every_step=False)


def _online(name: str, stage: RolloutConfig, model_of: ModelOf) -> StageWork:
    shared_trunk = isinstance(stage, PpoConfig) and stage.critic.trunk == "shared"
    policy = Network("policy", model_of(stage.init_from), "both" if shared_trunk else "language", True, stage.lora)
    networks = [policy, *_companions(stage, model_of)]
    rows, length, response = stage.batch_rows, stage.prompt_buckets[-1] + stage.response_len, stage.response_len
    calls = stage.minibatches * stage.accumulate * stage.epochs
    micro = rows // (stage.minibatches * stage.accumulate)
    scored = {"policy": response, "reference": response, "teacher": response, "critic": response + 1}
    passes = [
        Pass(network, False, rows, length, scored.get(network.role, 1), 1)
        for network in networks
        if network.role != "yardstick"
    ]
    for network in networks:
        if not network.trained:
            continue
        targets = response + 1 if network.head == "both" else response
        passes.append(Pass(network, True, micro, length, targets, calls))
        text = stage.pretraining if isinstance(stage, PpoConfig) and network is policy else None
        if text is not None:
            text_rows = text.batch_rows // stage.accumulate
            passes.append(Pass(network, True, text_rows, text.seq_len, text.seq_len, calls, joined=True))
    if isinstance(stage, DistillOnlineConfig):
        passes.append(Pass(networks[1], False, micro, length, response, calls, joined=True))
    trained = sum(network.trained for network in networks)
    return StageWork(
        name, stage.kind, tuple(networks), tuple(passes),
        (Rollout(policy, rows, stage.prompt_buckets, response, every_step=True),),
        rows * length, stage.epochs * stage.minibatches * trained, stage.accumulate > 1,
        ("one refill of dynamic_sampling would add a rollout",)
        if isinstance(stage, GrpoConfig) and stage.dynamic_sampling else (),
    )  # fmt: skip


def _companions(stage: RolloutConfig, model_of: ModelOf) -> Iterator[Network]:
    """Critic, reference or teacher, reward models, in the order in which a stage builds them."""
    if isinstance(stage, PpoConfig) and stage.critic.trunk == "separate":
        source = stage.critic.init_from or stage.init_from
        yield Network("critic", model_of(source), "scalar", True, stage.lora)
    if isinstance(stage, OnlineConfig):
        shared = stage.lora is not None and stage.reference == stage.init_from
        yield Network("reference", model_of(stage.reference), "language", False, shared=shared)
        for source in _reward_models(stage.reward):
            yield Network("reward", model_of(source), "scalar", False)
    elif isinstance(stage, DistillOnlineConfig):
        yield Network("teacher", model_of(stage.teacher), "language", False)
    for reward in stage.yardsticks.values():
        for source in _reward_models(reward):
            yield Network("yardstick", model_of(source), "scalar", False)


def _reward_models(reward: RewardSourceConfig) -> Iterator[str]:
    if isinstance(reward, ModelRewardConfig):
        yield reward.from_
    elif isinstance(reward, CombineConfig):
        for part in reward.of.values():
            yield from _reward_models(part.reward)
