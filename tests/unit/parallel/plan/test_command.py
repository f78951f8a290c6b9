from __future__ import annotations

import shlex

from llmstack.parallel.plan.command import launch_command
from tests.helpers.plans import card, layout, one_cpu


def words(parallel, base, hardware, recipe=("r.yaml",)):
    return shlex.split(launch_command(recipe, parallel, base, hardware, "runs/r"))


def test_one_device_needs_no_launcher():
    assert words(one_cpu(), one_cpu(), None, ("my r.yaml", "a=b c")) == ["llmstack", "train", "my r.yaml", "a=b c"]


def test_one_host_starts_all_of_its_devices():
    found = words(layout(data=4), layout(data=4), card())
    assert found[:3] == ["msrun", "--worker_num=4", "--local_worker_num=4"]
    assert found[-2:] == ["$(command -v llmstack-worker)", "r.yaml"]
    assert "--log_dir=runs/r/msrun" in found and "--join=True" in found
    assert not any(word.startswith(("--master_addr", "--node_rank")) for word in found)


def test_several_hosts_are_told_who_they_are():
    found = words(layout(data=8), one_cpu(), card())
    assert "--worker_num=8" in found and "--local_worker_num=4" in found
    assert "--master_addr=$HOST_0" in found and "--node_rank=$NODE_RANK" in found
    assert found[-3:] == ["parallel.mode=mesh", "parallel.device=ascend", "parallel.data=8"]


def test_without_hardware_one_host_has_all():
    assert "--local_worker_num=16" in words(layout(data=16), layout(data=16), None)
