"""A writer that keeps what it is told, in place of the package that need not be installed."""


class SummaryWriter:
    def __init__(self):
        self.kept = []

    def add_scalar(self, tag, scalar_value, global_step=None):
        self.kept.append((tag, float(scalar_value), global_step))
        return len(self.kept)
