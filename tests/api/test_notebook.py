"""The example notebook runs from its first cell to its last, and shows what it promises."""

import json
from pathlib import Path

import pytest

from paceline.report.charts import draw

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: make test does it")
nbformat = pytest.importorskip("nbformat")
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.skipif(not draw.can_draw(), reason="vl-convert is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_example_notebook_answers_its_question():
    notebook = nbformat.read(EXAMPLES / "four-or-eight.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": EXAMPLES}}).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert "Use 8 GPUs" in shown[0]["data"]["text/html"]
    assert "'use', 8" in shown[1]["data"]["text/plain"]
    assert "32 workers:" in shown[2]["text"]
    assert shown[-1]["data"]["image/svg+xml"].startswith("<svg")


def test_the_notebook_is_kept_without_outputs():
    kept = json.loads((EXAMPLES / "four-or-eight.ipynb").read_text(encoding="utf-8"))
    assert all(not cell.get("outputs") for cell in kept["cells"])
