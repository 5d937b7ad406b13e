"""What happens when a rank is lost, stalls or leaves: python horovod_faults.py CASE. Prints what this rank saw."""

import os
import signal
import sys
import time

import torch

import paceline_horovod.torch as hvd

hvd.init()
case = sys.argv[1]
last = hvd.rank() == hvd.size() - 1
hvd.allreduce(torch.ones(1))
try:
    if case == "killed":
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(torch.ones(1), name="after the loss")
    elif case == "first killed":
        if hvd.rank() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(torch.ones(1), name="after the loss")
    elif case == "left":
        if not last:
            hvd.allreduce(torch.ones(1), name="after goodbye")
    elif case == "late":
        if last:
            time.sleep(2.5)
        print("got", hvd.allreduce(torch.ones(1), name="gradient", op=hvd.Sum).item(), flush=True)
    elif case == "never":
        if not last:
            hvd.allreduce(torch.ones(1), name="gradient")
        else:
            time.sleep(4)
    elif case == "trained":
        for i in range(3):
            hvd.allreduce(torch.ones(4), name=f"gradient {i % 2}")
except hvd.HorovodInternalError as error:
    print("error:", error, flush=True)
    os._exit(3)
