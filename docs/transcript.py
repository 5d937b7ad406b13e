"""The transcript of README.md and the first study: what `paceline study` says at its end, of a recorded study.

`python docs/transcript.py` writes it into both; a test holds them to it.
"""

from __future__ import annotations

import re
from pathlib import Path

from paceline.cli.text.answer import analysis_text
from paceline.source.study import analysis_of_folder
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "start" / "quickstart.md")
RECORDED = ROOT / "tests" / "recorded" / "mnist-1-2"
COMMAND = "paceline study --workers 1,2 --repeats 3 --steps 20 --out demo mnist"
_BLOCK = re.compile(r"(?<=<!-- transcript -->\n```console\n).*?(?=```\n)", re.DOTALL)


def transcript() -> str:
    """The command and what a terminal of 80 columns shows."""
    folder = StudyFolder(RECORDED)
    analysis = analysis_of_folder(folder, read_study(folder.study_toml))
    return f"$ {COMMAND}\n{analysis_text(analysis, folder=Path('demo'), width=80, brief=True)}\n"


def with_transcript(page: str) -> str:
    """The page with the transcript of today in its marked block."""
    return _BLOCK.sub(lambda _: transcript(), page, count=1)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_transcript(page.read_text(encoding="utf-8")), encoding="utf-8")
