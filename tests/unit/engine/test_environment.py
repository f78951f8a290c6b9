"""What run.json says about the machine and the code."""

from __future__ import annotations

import json
import subprocess

from llmstack.engine.environment import git_commit, host_description, package_versions


def test_versions_and_host_are_plain_json():
    versions = package_versions()
    assert versions["numpy"] and versions["mindspore"] == "2.9.0" and versions["python"].startswith("3.")
    json.dumps([versions, host_description()])
    assert host_description()["cores"] >= 1


def test_commit_and_changes(tmp_path):
    assert git_commit(tmp_path) is None

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    git("init")
    (tmp_path / "x").write_text("1")
    git("add", "x")
    git("commit", "-m", "x", "--no-verify")
    found = git_commit(tmp_path)
    assert len(found["commit"]) == 40 and found["changes"] is False
    (tmp_path / "x").write_text("2")
    assert git_commit(tmp_path)["changes"] is True
