"""As tensorboardX is laid out: the class lies in `writer` and is offered here."""

from tensorboardX.writer import SummaryWriter as SummaryWriter
