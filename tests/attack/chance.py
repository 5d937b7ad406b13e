"""How much is tried, and from which seed: a little and always the same in `make test`, much and new in `make test-all`.

ATTACK_SEED=N repeats a run that failed: the seed is printed with its figures and with every failure.
ATTACK_SECONDS=S ends every large attack after so many seconds; its figures say how far it came.
"""

import os
import random
import time
from pathlib import Path

EXPLORES = os.environ.get("HYPOTHESIS_PROFILE") == "explore"
SEED = int(os.environ.get("ATTACK_SEED") or (random.SystemRandom().randrange(10**6) if EXPLORES else 22))
ROOT = Path(__file__).parents[2]
STUDY = ROOT / "tests" / "recorded" / "mnist-1-2"
HOSTILE = (
    "\n",
    "\r",
    "\u2028",
    "\x85",
    "\x0b",
    "\n#SBATCH --wrap=x\n",
    "\ntouch pwned\n",
    "$(touch pwned)",
    "`touch pwned`",
    ";touch pwned;",
    "&&touch pwned",
    "|touch pwned",
    "'",
    '"',
    "\\",
    "#",
    " ",
    "%j",
    "!",
    "*",
    "~",
    "é",
    "\x1b[31m",
    "\x9b2J",
    "\u202e",
    "\udcff",
    "<script>alert(1)</script>",
    "\\input{/etc/passwd}",
    "| a | b |",
    "${x}",
    "=1+1",
)


def tries(small, large):
    """How many: the small number in `make test`, the large one in `make test-all`."""
    return large if EXPLORES else small


def attempts(small, large):
    """The numbers of the attempts: as many as `tries` says, or as time allows."""
    until = time.monotonic() + float(os.environ.get("ATTACK_SECONDS") or "inf")
    for number in range(tries(small, large)):
        if number >= small and time.monotonic() > until:
            return
        yield number


def chance(what):
    """Random numbers of a test of its own: another test more or fewer changes none of them."""
    return random.Random(f"{SEED} {what}")


def hostile(rng, *, pieces=3):
    """A name that means to do harm: plain letters with pieces between them."""
    return "".join(f"{rng.choice('abc')}{rng.choice(HOSTILE)}" for _ in range(rng.randint(1, pieces))) + "z"
