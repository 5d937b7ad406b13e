"""One small training, driven by other people's libraries: frameworks.py KIND [--late S]. Knows nothing of Paceline.

Sleep stands for computation. --late S: worker 1 computes so much longer in every step.
"""

import argparse
import logging
import os
import time
import warnings

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

WIDTH, BATCH, COMPUTE_S, LENGTH = 64, 8, 0.02, 16
KINDS = {}
FOREVER = 100_000


def kind(function):
    KINDS[function.__name__] = function
    return function


def rank():
    return int(os.environ.get("RANK", "0"))


def world():
    return int(os.environ.get("WORLD_SIZE", "1"))


def network(args):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH)
    )
    return slowed(layers, args)


def slowed(module, args):
    """The same module, which computes for so long before its forward: on worker 1 for longer."""
    seconds = COMPUTE_S + (args.late if rank() == 1 else 0.0)
    module.register_forward_pre_hook(lambda *_: time.sleep(seconds))
    return module


def data():
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(4096, WIDTH, generator=generator))


def epochs(loader, args):
    """Batches without end, or as many as there shall be steps."""
    k = 0
    while True:
        for batch in loader:
            if args.steps and k >= args.steps:
                return
            k += 1
            yield batch


# ---------------------------------------------------------------- Accelerate


def accelerated(args, **how):
    from accelerate import Accelerator, DataLoaderConfiguration

    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**how))
    model = network(args)
    loader = DataLoader(data(), batch_size=BATCH * (world() if how else 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    prepared, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for (inputs,) in epochs(loader, args):
        accelerator.backward(prepared(inputs).square().mean())
        optimizer.step()
        optimizer.zero_grad()
    return model


@kind
def accelerate(args):
    return accelerated(args)


@kind
def accelerate_split(args):
    """Each batch is cut into one part per worker."""
    return accelerated(args, split_batches=True)


@kind
def accelerate_dispatch(args):
    """Worker 0 alone reads, and sends every worker its part."""
    return accelerated(args, split_batches=True, dispatch_batches=True)


# ---------------------------------------------------------------- Lightning


@kind
def lightning(args):
    import lightning as library

    class Module(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network(args)

        def training_step(self, batch, index):
            return self.network(batch[0]).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    module = Module()
    trainer = library.Trainer(
        accelerator="cpu",
        devices=world(),
        strategy="ddp",
        max_steps=args.steps or FOREVER,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, DataLoader(data(), batch_size=BATCH))
    return module.network


@kind
def fabric(args):
    import lightning as library

    made = library.Fabric(accelerator="cpu", devices=world(), strategy="ddp")
    made.launch()
    model = network(args)
    wrapped, optimizer = made.setup(model, torch.optim.SGD(model.parameters(), lr=0.01))
    loader = made.setup_dataloaders(DataLoader(data(), batch_size=BATCH))
    for (inputs,) in epochs(loader, args):
        made.backward(wrapped(inputs).square().mean())
        optimizer.step()
        optimizer.zero_grad()
    return model


# ---------------------------------------------------------------- DeepSpeed


def deepspeed(args, stage):
    import deepspeed as library

    library.init_distributed("gloo")
    model = network(args)
    asked = {
        "train_micro_batch_size_per_gpu": BATCH,
        "zero_optimization": {"stage": stage, "overlap_comm": False},
        "zero_allow_untested_optimizer": True,
    }
    engine, *_ = library.initialize(
        model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01), config=asked
    )
    loader = DataLoader(data(), batch_size=BATCH, sampler=torch.utils.data.DistributedSampler(data()))
    for (inputs,) in epochs(loader, args):
        engine.backward(engine(inputs).square().mean())
        engine.step()
    return model


@kind
def deepspeed_1(args):
    return deepspeed(args, 1)


@kind
def deepspeed_2(args):
    return deepspeed(args, 2)


@kind
def deepspeed_3(args):
    return deepspeed(args, 3)


# ---------------------------------------------------------------- Transformers


def language_model(args):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    small = GPT2Config(
        vocab_size=64, n_positions=LENGTH, n_embd=32, n_layer=1, n_head=2, loss_type="ForCausalLM"
    )
    return slowed(GPT2LMHeadModel(small), args)


def sentences():
    from datasets import Dataset

    ids = torch.randint(3, 64, (2048, LENGTH), generator=torch.Generator().manual_seed(0)).tolist()
    return Dataset.from_dict({"input_ids": ids, "labels": ids})


def arguments(args):
    return {
        "output_dir": os.path.join(args.save or "/tmp", "out"),
        "use_cpu": True,
        "ddp_backend": "gloo",
        "per_device_train_batch_size": BATCH,
        "max_steps": args.steps or FOREVER,
        "save_strategy": "no",
        "logging_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
    }


@kind
def hf_trainer(args):
    from transformers import Trainer, TrainingArguments, default_data_collator

    model = language_model(args)
    Trainer(
        model,
        TrainingArguments(**arguments(args)),
        train_dataset=sentences(),
        data_collator=default_data_collator,
    ).train()
    return model


@kind
def trl_sft(args):
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer

    words = {"<pad>": 0, "<s>": 1, "</s>": 2, **{f"w{n}": n for n in range(3, 64)}}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="<s>")),
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
    )
    model = language_model(args)
    SFTTrainer(
        model,
        SFTConfig(**arguments(args), max_length=LENGTH, bf16=False),
        train_dataset=sentences(),
        processing_class=tokenizer,
    ).train()
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--late", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--save", default="")
    parser.add_argument("--batch-size", type=int, default=BATCH)
    args = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.simplefilter("ignore")
    trained = KINDS[args.kind](args)
    if args.save:
        own = {
            n: getattr(p, "ds_tensor", p) for n, p in trained.named_parameters()
        }  # ZeRO 3: this worker's part
        local = {n: p.detach().clone() for n, p in own.items()}
        torch.save(local, os.path.join(args.save, f"weights-{rank()}.pt"))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
