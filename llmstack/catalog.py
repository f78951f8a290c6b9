"""What llmstack itself provides, by name: where each part is and which class its options have.

Addresses are texts, so that listing names or decoding a recipe never loads MindSpore.
"""

from __future__ import annotations

from dataclasses import dataclass

_REWARD_CONFIGS = "llmstack.config.rewards"
_STAGE_CONFIGS = "llmstack.config.stages"
_DATA_CONFIGS = "llmstack.config.data"
_CLEAN_CONFIGS = "llmstack.config.clean"
_CLEAN = "llmstack.data.clean"
_STDLIB = "llmstack.data.stdlib.sources"
_ANNOTATOR_CONFIGS = "llmstack.config.annotation"
_SCHEDULES = "llmstack.optim.schedules"
_MINDFORMERS = "llmstack.integrations.mindformers"


@dataclass(frozen=True)
class BuiltIn:
    """One entry of a registry.

    Attributes:
        name: as written in a recipe.
        target: ``package.module:attribute`` of the part.
        summary: one line for ``llmstack list``.
        config: address of the class of its options; None: it has none of its own.
    """

    name: str
    target: str
    summary: str
    config: str | None = None


STAGES = (
    BuiltIn(
        "pretrain",
        "llmstack.stages.pretrain:PretrainStage",
        "next-token prediction on every token of packed documents",
        f"{_STAGE_CONFIGS}:PretrainConfig",
    ),
    BuiltIn(
        "sft",
        "llmstack.stages.sft:SftStage",
        "supervised fine-tuning on the assistant's tokens",
        f"{_STAGE_CONFIGS}:SftConfig",
    ),
    BuiltIn(
        "reward",
        "llmstack.stages.reward:RewardStage",
        "Bradley-Terry reward model on preference pairs",
        f"{_STAGE_CONFIGS}:RewardConfig",
    ),
    BuiltIn(
        "ppo",
        "llmstack.stages.ppo.stage:PpoStage",
        "PPO from a reward, held near a reference by a KL term",
        "llmstack.config.ppo:PpoConfig",
    ),
    BuiltIn(
        "grpo",
        "llmstack.stages.grpo.stage:GrpoStage",
        "GRPO, DAPO, Dr. GRPO, RLOO and REINFORCE++: a reward and no critic",
        "llmstack.config.grpo:GrpoConfig",
    ),
)

MODELS = (
    BuiltIn("llama", "llmstack.models.families:LLAMA", "Llama 2/3, SmolLM2: RMSNorm, rotary positions, SwiGLU"),
    BuiltIn("mistral", "llmstack.models.families:MISTRAL", "Mistral: Llama with a sliding window"),
    BuiltIn("qwen2", "llmstack.models.families:QWEN2", "Qwen2, Qwen2.5: Llama with query, key and value biases"),
    BuiltIn("qwen3", "llmstack.models.families:QWEN3", "Qwen3: Llama with normalised query and key heads"),
)

PROVIDERS = (
    BuiltIn("native", "llmstack.models.providers:as_it_is", "llmstack's own network"),
    BuiltIn("mindformers", f"{_MINDFORMERS}.models:on_mindformers", "MindFormers' mcore GPTModel"),
)

REWARDS = (
    BuiltIn(
        "model",
        "llmstack.stages.online.rewards:ModelReward",
        "score of a trained reward model",
        f"{_REWARD_CONFIGS}:ModelRewardConfig",
    ),
    BuiltIn(
        "pep257_style",
        "llmstack.data.stdlib.style:style_reward",
        "1 when a docstring summary keeps the PEP 257 style, else 0",
        f"{_REWARD_CONFIGS}:RewardSourceConfig",
    ),
    *(
        BuiltIn(name, f"llmstack.rewards.{module}:{part}", summary, f"llmstack.config.reward_rules:{part}Config")
        for name, module, part, summary in (
            ("exact_match", "exact_match", "ExactMatch", "whether the answer is the reference answer"),
            ("numeric_answer", "numeric_answer", "NumericAnswer", "whether the answer's number is the reference's"),
            ("format_regex", "format_regex", "FormatRegex", "whether the answer has a form"),
            ("length_shaping", "shaping", "LengthShaping", "a penalty for an answer's length"),
            ("repetition", "shaping", "Repetition", "a penalty for repeated n-grams"),
        )
    ),
    BuiltIn(
        "function",
        "llmstack.rewards.function:NamedFunction",
        "what a Python function returns",
        f"{_REWARD_CONFIGS}:FunctionRewardConfig",
    ),
    BuiltIn(
        "steps",
        "llmstack.stages.online.steps:StepsReward",
        "what a Python function says of each step of an answer",
        f"{_REWARD_CONFIGS}:StepsRewardConfig",
    ),
    BuiltIn(
        "combine",
        "llmstack.stages.online.combined:CombinedReward",
        "a weighted sum of several rewards",
        f"{_REWARD_CONFIGS}:CombineConfig",
    ),
    BuiltIn(
        "http",
        "llmstack.rewards.http:HttpReward",
        "a scorer behind a URL",
        "llmstack.config.scorers:HttpRewardConfig",
    ),
    BuiltIn(
        "verifier",
        "llmstack.rewards.verifier:Verifier",
        "a program that runs or checks the answer",
        "llmstack.config.scorers:VerifierConfig",
    ),
)

ADVANTAGES = (
    BuiltIn(
        "grpo",
        "llmstack.rl.advantages:grpo",
        "distance from the group's mean over its deviation",
        "llmstack.config.grpo:GrpoAdvantageConfig",
    ),
    BuiltIn("dr_grpo", "llmstack.rl.advantages:dr_grpo", "distance from the group's mean"),
    BuiltIn("rloo", "llmstack.rl.advantages:rloo", "distance from the mean of the group's other answers"),
    BuiltIn(
        "reinforce_pp",
        "llmstack.rl.advantages:reinforce_pp",
        "return from each token on, whitened over the iteration (REINFORCE++)",
        "llmstack.config.grpo:ReinforcePpConfig",
    ),
)

AGGREGATIONS = tuple(
    BuiltIn(name, f"llmstack.rl.aggregation:{name}", summary)
    for name, summary in (
        ("token_mean", "every token weighs the same (DAPO)"),
        ("seq_mean_token_mean", "mean over an answer's tokens, then over answers (GRPO)"),
        ("seq_mean_token_sum", "sum over an answer's tokens, mean over answers (RLOO)"),
        ("seq_mean_token_sum_norm", "the same divided by the longest possible answer (Dr. GRPO)"),
    )
)

SOURCES = (
    BuiltIn("text", "llmstack.data.sources:TextFiles", "plain text files", f"{_DATA_CONFIGS}:TextFileConfig"),
    BuiltIn("jsonl", "llmstack.data.sources:Jsonl", "one JSON object a line", f"{_DATA_CONFIGS}:JsonlConfig"),
    BuiltIn("parquet", "llmstack.data.sources:ParquetFiles", "parquet files", f"{_DATA_CONFIGS}:ParquetConfig"),
    BuiltIn(
        "hf_dataset",
        "llmstack.data.hf_dataset:HfDataset",
        "a Hugging Face dataset on this machine",
        f"{_DATA_CONFIGS}:HfDatasetConfig",
    ),
    BuiltIn(
        "megatron",
        "llmstack.data.megatron:MegatronTokens",
        "token ids in Megatron's .bin and .idx files",
        f"{_DATA_CONFIGS}:MegatronConfig",
    ),
    BuiltIn(
        "mindrecord",
        "llmstack.integrations.mindrecord:MindRecordFiles",
        "MindRecord files",
        f"{_DATA_CONFIGS}:MindRecordConfig",
    ),
    BuiltIn(
        "callable",
        "llmstack.data.function:CallableSource",
        "what a Python function yields",
        f"{_DATA_CONFIGS}:CallableConfig",
    ),
    BuiltIn("concat", "llmstack.data.sources:Concat", "several sources in turn", f"{_DATA_CONFIGS}:ConcatConfig"),
    BuiltIn(
        "blend",
        "llmstack.data.corpus:Blend",
        "several sources with shares that may change over the run",
        "llmstack.config.blend:BlendConfig",
    ),
    BuiltIn(
        "arithmetic",
        "llmstack.data.arithmetic:Arithmetic",
        "sums of two numbers and their results",
        f"{_DATA_CONFIGS}:ArithmeticConfig",
    ),
    BuiltIn(
        "stdlib_docs",
        f"{_STDLIB}:StdlibDocs",
        "documentation text of the Python standard library",
        f"{_DATA_CONFIGS}:StdlibConfig",
    ),
    BuiltIn(
        "stdlib_summaries",
        f"{_STDLIB}:StdlibSummaries",
        "a function's signature and the summary of its docstring",
        f"{_DATA_CONFIGS}:StdlibSignaturesConfig",
    ),
    BuiltIn(
        "stdlib_style_pairs",
        f"{_STDLIB}:StdlibStylePairs",
        "a summary in PEP 257 style against one that breaks it",
        f"{_DATA_CONFIGS}:StdlibSignaturesConfig",
    ),
)

ANNOTATORS = (
    BuiltIn(
        "endpoint",
        "llmstack.annotation.endpoint:EndpointAnnotator",
        "a server with OpenAI's chat completions",
        f"{_ANNOTATOR_CONFIGS}:EndpointConfig",
    ),
    BuiltIn(
        "model",
        "llmstack.annotation.local_model:LocalModelAnnotator",
        "a model folder on this machine",
        f"{_ANNOTATOR_CONFIGS}:LocalModelConfig",
    ),
    BuiltIn(
        "human",
        "llmstack.annotation.people:HumanLabels",
        "labels people have written into a file",
        f"{_ANNOTATOR_CONFIGS}:HumanConfig",
    ),
)

OPTIMIZERS = (
    BuiltIn("adamw", "llmstack.optim.adamw:AdamW", "Adam with decoupled weight decay"),
    BuiltIn("mindformers:AdamW", f"{_MINDFORMERS}.optim:MindFormersAdamW", "MindFormers' AdamW"),
)

SCHEDULES = (
    BuiltIn("constant", f"{_SCHEDULES}:constant", "the peak rate after warm-up"),
    BuiltIn("linear", f"{_SCHEDULES}:linear", "a straight line down to final_ratio"),
    BuiltIn("cosine", f"{_SCHEDULES}:cosine", "half a cosine down to final_ratio"),
    BuiltIn("wsd", f"{_SCHEDULES}:wsd", "warm-up, stable, then a decay over the last decay_ratio of the steps"),
    *(
        BuiltIn(f"mindformers:{name}", f"{_MINDFORMERS}.schedules:{function}", f"MindFormers' {name}")
        for name, function in (
            ("ConstantWarmUpLR", "constant_warm_up"),
            ("LinearWithWarmUpLR", "linear_with_warm_up"),
            ("CosineWithWarmUpLR", "cosine_with_warm_up"),
            ("PolynomialWithWarmUpLR", "polynomial_with_warm_up"),
            ("WarmUpStableDecayLR", "warm_up_stable_decay"),
        )
    ),
)

CLEANERS = tuple(
    BuiltIn(name, f"{_CLEAN}.{name}:{part}", summary, f"{_CLEAN_CONFIGS}:{part}Config")
    for name, part, summary in (
        ("normalise", "Normalise", "Unicode form, wrongly decoded text, control characters, white space"),
        ("length", "Length", "documents that are too short or too long"),
        ("language", "Language", "documents in other languages than those wanted"),
        ("gopher_quality", "GopherQuality", "text that does not look like prose (Rae et al. 2021)"),
        ("gopher_repetition", "GopherRepetition", "text that repeats itself (Rae et al. 2021, table A1)"),
        ("c4", "C4", "lines and pages that are no prose (Raffel et al. 2020, section 2.2)"),
        ("repeated_lines", "RepeatedLines", "lines repeated in a document or all over the corpus"),
        ("repeated_sentences", "RepeatedSentences", "spans of sentences that occur earlier in the corpus"),
        ("exact_duplicates", "ExactDuplicates", "copies of an earlier document"),
        ("near_duplicates", "NearDuplicates", "edited copies of an earlier document (MinHash)"),
        ("decontaminate", "Decontaminate", "documents that hold text of evaluation sets"),
        ("personal_data", "PersonalData", "masks e-mail, phone, IP, card and account numbers"),
    )
)
