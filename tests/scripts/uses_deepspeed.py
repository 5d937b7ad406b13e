"""A small training with DeepSpeed, as its users write it: uses_deepspeed.py --deepspeed_config FILE."""

import argparse

import deepspeed
import torch

given = argparse.ArgumentParser()
given.add_argument("--local_rank", type=int, default=-1)
deepspeed.add_config_arguments(given)
args = given.parse_args()
torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
engine, _, _, _ = deepspeed.initialize(args=args, model=network, model_parameters=network.parameters())
for _ in range(1000):
    engine.backward(engine(torch.randn(8, 32)).square().mean())
    engine.step()
