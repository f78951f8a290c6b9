#!/usr/bin/env python3
"""Speed of llmstack, side by side with another framework's programs when their interpreter is given.

    scripts/bench.py [train|sft|ppo|ppo_shared|generate|deep_generate|compile ...]
                     [--peer-python PY --peer-dir DIR] [--rounds N] [--json OUT]

Each benchmark runs in turn with its peer (ours, peer, ours, peer, ...), a fresh process each; what counts is the
median of the rounds, and their ratio: absolute numbers mean little on a shared machine. A ratio above 1 is faster than
the peer.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

OURS = Path(__file__).parent / "bench_ours.py"
DEEP = "576,30,9,3,1536,49152"
# benchmark: (our figure, peer program with its arguments, peer figure); no program: there is nothing to compare with
BENCHMARKS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "train": ("tokens_per_second", ("hf_train.py",), "tokens_per_second"),
    "sft": ("useful_tokens_per_second", ("trl_sft.py",), "useful_tokens_per_second"),
    "ppo": ("iterations_per_second", ("trl_ppo.py",), "seconds_per_iteration"),
    "ppo_shared": ("iterations_per_second", ("trl_ppo.py",), "seconds_per_iteration"),
    "generate": ("new_tokens_per_second", ("hf_generate.py",), "new_tokens_per_second"),
    "deep_generate": (
        "new_tokens_per_second",
        ("hf_generate.py", "--size", DEEP, "--batch", "1"),
        "new_tokens_per_second",
    ),
    "compile": ("graphs_per_second", (), ""),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="|".join(BENCHMARKS), help="benchmarks to run (default: all)")
    parser.add_argument("--peer-python", metavar="PY", help="interpreter with the peer's packages")
    parser.add_argument("--peer-dir", metavar="DIR", type=Path, help="folder of the peer's programs")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each program (default 3)")
    parser.add_argument("--json", metavar="OUT", type=Path, help="write the figures here")
    args = parser.parse_args()
    if unknown := set(args.what) - set(BENCHMARKS):
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}; choose from {', '.join(BENCHMARKS)}")
    if (args.peer_python is None) != (args.peer_dir is None):
        parser.error("--peer-python and --peer-dir go together")
    if args.rounds < 1:
        parser.error(f"--rounds: expected at least 1, got {args.rounds}")
    results = {}
    for name in args.what or BENCHMARKS:
        results[name] = compare(name, args.rounds, args.peer_python, args.peer_dir)
        print(describe(name, results[name]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


def compare(name: str, rounds: int, peer_python: str | None, peer_dir: Path | None) -> dict[str, Any]:
    """Run one benchmark in turn with its peer.

    Args:
        name: the benchmark.
        rounds: runs of each.
        peer_python: the peer's interpreter; None runs ours alone.
        peer_dir: the peer's programs.

    Returns:
        ``ours``, ``peer``, ``ratio`` (None without a peer) and ``detail``, our last line.
    """
    figure, program, peer_figure = BENCHMARKS[name]
    ours, peers, detail = [], [], {}
    for _ in range(rounds):
        detail = run([sys.executable, str(OURS), name])
        ours.append(detail[figure])
        if peer_python and peer_dir and program:
            value = run([peer_python, str(peer_dir / program[0]), *program[1:]])[peer_figure]
            peers.append(1.0 / value if peer_figure == "seconds_per_iteration" else value)
    result: dict[str, Any] = {"ours": statistics.median(ours), "peer": None, "ratio": None, "detail": detail}
    if peers:
        result["peer"] = statistics.median(peers)
        result["ratio"] = result["ours"] / result["peer"]
    return result


def run(command: list[str]) -> dict[str, Any]:
    """Run a program and read the JSON of its last line.

    Args:
        command: program and arguments.
    """
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"GLOG_v": "3"})
    if done.returncode:
        sys.exit(f"bench: {' '.join(command)} failed:\n{done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def describe(name: str, result: dict[str, Any]) -> str:
    figure = BENCHMARKS[name][0].replace("_", " ")
    text = f"{name:<10} {result['ours']:10.4g} {figure}"
    if result["ratio"] is not None:
        text += f", peer {result['peer']:.4g}, ratio {result['ratio']:.2f}"
    if "compile_seconds" in result["detail"]:
        text += f", {result['detail']['compile_seconds']} compile seconds by layers"
    if "mfu" in result["detail"]:
        text += f", MFU {result['detail']['mfu']:.0%} of {result['detail']['peak_gflops']:.0f} GFLOP/s"
    return text


if __name__ == "__main__":
    sys.exit(main())
