"""The picture of README.md: the first screen of the report of a study that was recorded, as Chromium shows it.

`python docs/picture.py` writes docs/report.png. It needs playwright and /usr/bin/chromium.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright
from transcript import RECORDED

from paceline.report.page import page
from paceline.source.study import analysis_of_folder
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study

PICTURE = Path(__file__).parent / "report.png"
SCREEN = {"width": 1200, "height": 750}


def main() -> None:
    folder = StudyFolder(RECORDED)
    made = page([("", analysis_of_folder(folder, read_study(folder.study_toml)))])
    with TemporaryDirectory() as scratch, sync_playwright() as started:
        file = Path(scratch, "report.html")
        file.write_text(made, encoding="utf-8")
        browser = started.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_context(viewport=SCREEN, color_scheme="light").new_page()
        tab.goto(file.as_uri())
        tab.add_style_tag(content=".tools { display: none }")
        tab.wait_for_timeout(1500)
        tab.screenshot(path=str(PICTURE))
        browser.close()


if __name__ == "__main__":
    main()
