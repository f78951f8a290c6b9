#!/usr/bin/env python3
"""Speed and memory of the data engine, on text made up here.

    scripts/bench_data.py [serve|encode|start|dedup|corpus|loader ...] [--corpus-gb N] [--json OUT]

serve    packed batches from the cache, tokens a second
encode   text to tokens in the cache, megabytes a second
start    opening prepared data a second time, seconds
dedup    near-duplicates of 100,000 documents of about 200 words, seconds
corpus   peak resident memory of a process that trains on a corpus of N GB (default 4), megabytes, and of one that only
         reads it
loader   share of a quickstart training step that is spent on taking its batch

Each runs in a process of its own, and everything it writes goes into a folder that is removed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SEQ_LEN, ROWS, VOCAB_SIZE = 2048, 8, 8192
DOCUMENT_WORDS = 200
LLMSTACK = [sys.executable, "-c", "import sys; from llmstack.cli.main import main; sys.exit(main())"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="|".join(BENCHMARKS), help="benchmarks to run (default: all)")
    parser.add_argument("--corpus-gb", type=float, default=4.0, help="size of the large corpus (default 4)")
    parser.add_argument("--json", metavar="OUT", type=Path, help="write the figures here")
    parser.add_argument("--inside", metavar="DIR", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if unknown := set(args.what) - set(BENCHMARKS):
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; choose from {', '.join(BENCHMARKS)}")
    if args.inside:
        print(json.dumps(BENCHMARKS[args.what[0]](args.inside, args.corpus_gb)))
        return 0
    results = {}
    for name in args.what or BENCHMARKS:
        results[name] = run(name, args.corpus_gb)
        print(f"{name:<7} " + "  ".join(f"{key} {value:.4g}" for key, value in results[name].items()), flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


def run(name: str, corpus_gb: float) -> dict[str, float]:
    """Run one benchmark in a process of its own.

    Args:
        name: the benchmark.
        corpus_gb: size of the large corpus.

    Returns:
        Its figures.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, name, "--inside", folder, "--corpus-gb", str(corpus_gb)]
        environment = {**os.environ, "LLMSTACK_DATA_CACHE": f"{folder}/cache"}
        done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


# --- what is measured ----------------------------------------------------------------------------------------------


def serve(folder: Path, _: float) -> dict[str, float]:
    """Packed batches of ragged documents."""
    from llmstack.data.loader import Loader

    rows = corpus().text(text_file(folder, 40_000_000), SEQ_LEN)
    loader = Loader(rows, batch_rows=ROWS, seed=0)
    for _ in range(5):
        loader.next()
    started, tokens = time.perf_counter(), 0
    while time.perf_counter() - started < 5.0:
        tokens += int((loader.next()["segments"] > 0).sum())
    return {
        "tokens_per_second": tokens / (time.perf_counter() - started),
        "packing_efficiency": 1.0 - rows.report.padding_ratio,
    }


def encode(folder: Path, _: float) -> dict[str, float]:
    """From a text file to documents in the cache."""
    source = text_file(folder, 60_000_000)
    made = corpus()
    started = time.perf_counter()
    documents = made.documents(source, "text")
    seconds = time.perf_counter() - started
    return {"megabytes_per_second": 60.0 / seconds, "tokens_per_second": len(documents.tokens) / seconds}


def start(folder: Path, _: float) -> dict[str, float]:
    """Preparing and packing what was prepared before."""
    source, made = text_file(folder, 200_000_000), corpus()
    made.text(source, SEQ_LEN)
    started = time.perf_counter()
    made.text(source, SEQ_LEN)
    return {"seconds_for_200_megabytes": time.perf_counter() - started}


def dedup(folder: Path, _: float) -> dict[str, float]:
    """Near-duplicates among short documents, a tenth of which are edited copies."""
    path = folder / "documents.jsonl"
    rng = np.random.default_rng(0)
    texts: list[str] = []
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(itertools.islice(documents(seed=1), 100_000)):
            if texts and number % 10 == 0:
                edited = texts[int(rng.integers(len(texts)))].split()
                edited[int(rng.integers(len(edited)))] = "edited"
                text = " ".join(edited)
            texts.append(text)
            file.write(json.dumps({"text": text}) + "\n")
    config = folder / "clean.yaml"
    config.write_text(
        f"data: {{source: jsonl, path: {path}, record: text}}\nout: {folder / 'clean'}\n"
        "steps:\n  - {kind: near_duplicates}\n",
        encoding="utf-8",
    )
    started = time.perf_counter()
    llmstack("data", "clean", str(config))
    kept = sum(1 for _ in (folder / "clean" / "data.jsonl").open(encoding="utf-8"))
    return {"seconds": time.perf_counter() - started, "kept": float(kept)}


def large_corpus(folder: Path, corpus_gb: float) -> dict[str, float]:
    """A corpus larger than the memory it may take: encoded, read through once by rows, trained on for some steps."""
    source = text_file(folder, int(corpus_gb * 1e9))
    started = time.perf_counter()
    program = "import sys; sys.path.insert(0, sys.argv[1]); import bench_data; bench_data.read_rows(sys.argv[2])"
    reading = peak_of([sys.executable, "-c", program, str(Path(__file__).parent), source.path])
    seconds = time.perf_counter() - started
    recipe = folder / "train.yaml"
    recipe.write_text(_RECIPE.format(folder=folder, path=source.path), encoding="utf-8")
    training = peak_of([*LLMSTACK, "train", str(recipe)])
    return {
        "gigabytes": corpus_gb,
        "encode_and_read_seconds": seconds,
        "reading_peak_megabytes": reading,
        "training_peak_megabytes": training,
    }


def read_rows(path: str) -> None:
    """Serve every row of a text file once.

    Args:
        path: the file.
    """
    from llmstack.data.loader import Loader

    loader = Loader(corpus().text(text_config(path), SEQ_LEN), batch_rows=ROWS, seed=0)
    for _ in range(loader.steps_per_epoch()):
        loader.next()


def loader_share(folder: Path, _: float) -> dict[str, float]:
    """Time to take a batch against the time of the step that uses it."""
    from llmstack.runtime import device

    device.setup("cpu")
    from llmstack.config.load import load_recipe
    from llmstack.stages.base import StageContext
    from llmstack.stages.chain import model_config, sized_model
    from llmstack.stages.pretrain import PretrainStage

    recipe = load_recipe("quickstart", ["model.vocab_size=null"]).config
    tokenizer = trained_tokenizer()
    model = sized_model(model_config(recipe), tokenizer)
    context = StageContext(name="base", seed=1, model=model, tokenizer=tokenizer, inputs={})
    stage: Any = PretrainStage(recipe.stages["base"], context)
    stage.build()
    for index in range(1, 6):
        stage.step(index)
    taking, started = 0.0, time.perf_counter()
    take = stage.loader.next

    def timed() -> Any:
        nonlocal taking
        before = time.perf_counter()
        batch = take()
        taking += time.perf_counter() - before
        return batch

    stage.loader.next = timed
    for index in range(6, 46):
        stage.step(index)
    total = time.perf_counter() - started
    return {
        "share_of_step": taking / total,
        "batch_milliseconds": taking / 40 * 1e3,
        "step_milliseconds": total / 40 * 1e3,
    }


BENCHMARKS: dict[str, Callable[[Path, float], dict[str, float]]] = {
    "serve": serve,
    "encode": encode,
    "start": start,
    "dedup": dedup,
    "corpus": large_corpus,
    "loader": loader_share,
}

_RECIPE = """\
defaults: [/model: tiny_llama, /optim: adamw, /parallel: single, /stage@stages.base: pretrain, _self_]
name: large
# that of `corpus`: prepared data belongs to a seed
seed: 0
run_dir: {folder}/run
# tiny: what is measured is the corpus
model: {{vocab_size: null, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 1,
  head_dim: 16, intermediate_size: 64}}
tokenizer: {{kind: folder, path: {folder}/tokenizer}}
stages:
  base:
    kind: pretrain
    data: {{source: text, path: {path}, split_documents: blank_line}}
    eval_data: {{source: text, path: {folder}/small.txt, split_documents: blank_line}}
    budget: 300 steps
"""

# --- made-up text --------------------------------------------------------------------------------------------------


def documents(seed: int) -> Iterator[str]:
    """Endless documents of words with the frequencies of natural text.

    Args:
        seed: decides them.
    """
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfw"))
    vocabulary = ["".join(letters[rng.integers(0, 16, rng.integers(2, 9))]) for _ in range(20_000)]
    weights = 1.0 / np.arange(1, len(vocabulary) + 1)
    cumulative = np.cumsum(weights / weights.sum())
    while True:
        length = int(np.clip(rng.lognormal(np.log(DOCUMENT_WORDS), 0.7), 8, 4000))
        yield " ".join(vocabulary[place] for place in np.searchsorted(cumulative, rng.random(length)))


def text_file(folder: Path, num_bytes: int) -> Any:
    """A text file of documents between blank lines, and options of the source that reads it.

    Large files repeat a part of 50 MB: encoding and reading cost the same.

    Args:
        folder: where.
        num_bytes: size.
    """
    path = folder / "text.txt"
    part = min(num_bytes, 50_000_000)
    block, size = [], 0
    for text in documents(seed=0):
        block.append(text)
        size += len(text) + 2
        if size >= part:
            break
    whole = "\n\n".join(block) + "\n\n"
    with path.open("w", encoding="utf-8") as file:
        for _ in range(max(1, num_bytes // part)):
            file.write(whole)
    (folder / "small.txt").write_text("\n\n".join(block[:200]), encoding="utf-8")
    trained_tokenizer().save(folder / "tokenizer")
    return text_config(str(path))


def text_config(path: str) -> Any:
    """Options of the source that reads a text file.

    Args:
        path: the file.
    """
    from llmstack.config.data import TextFileConfig

    return TextFileConfig(source="text", path=path, split_documents="blank_line")


def corpus() -> Any:
    """The data engine with the tokenizer."""
    from llmstack.data.corpus import Corpus

    return Corpus(trained_tokenizer(), seed=0)


def trained_tokenizer() -> Any:
    """A byte-level BPE of made-up text."""
    from llmstack.data.bpe import train_bpe
    from llmstack.data.chat import CHATML
    from llmstack.data.tokenizer import Tokenizer

    return Tokenizer(*train_bpe(list(itertools.islice(documents(seed=0), 3000)), VOCAB_SIZE), CHATML)


def llmstack(*words: str) -> None:
    """Run the command line.

    Args:
        words: its arguments.
    """
    subprocess.run([*LLMSTACK, *words], stdout=sys.stderr, check=True)


def peak_of(words: list[str]) -> float:
    """Peak resident memory of a process in megabytes, its mapped files included.

    Args:
        words: the command.
    """
    program = (
        "import os, subprocess, sys; child = subprocess.Popen(sys.argv[1:], stdout=sys.stderr); "
        "_, status, usage = os.wait4(child.pid, 0); print(usage.ru_maxrss); sys.exit(os.waitstatus_to_exitcode(status))"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout.splitlines()[-1]) * 1024 / 1e6  # Linux counts in KiB


if __name__ == "__main__":
    sys.exit(main())
