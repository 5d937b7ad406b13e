"""Files of a finished study that were changed: named and not used, or refused; never a traceback, never believed."""

import json
import shutil

import pytest

from paceline.analysis.json_file import analysis_data
from paceline.cli.text.answer import analysis_text
from paceline.core.errors import PacelineError
from paceline.report.charts.tidy import tidy_csv
from paceline.report.handin.markdown import markdown_report
from paceline.source.anything import read_analysis
from paceline.source.study import analysis_of_folder
from paceline.store.paths import StudyFolder
from paceline.store.study_file import read_study
from paceline.store.trial_files import commit, read_results
from tests.attack.chance import SEED, STUDY, attempts, chance
from tests.support.report_sample import FULL


def cut(rng, content):
    return content[: rng.randrange(len(content) + 1)]


def flipped(rng, content):
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


def digit(rng, content):
    """Another digit where there was one: what no parser can notice."""
    places = [i for i, byte in enumerate(content) if 48 <= byte <= 57]
    place = rng.choice(places or range(len(content)))
    return content[:place] + str(rng.randrange(10)).encode() + content[place + 1 :]


def number(rng, content):
    """Another number where there was one: no count, size or time that anything has."""
    wild = (b"1e999", b"-1", b"1e-308", b"9" * 400, b"9" * 5000, b"NaN", b"Infinity", b"-0.0", b"1e300", b"0")
    return replaced(rng, content, rng.choice(wild), b"0123456789.")


def nested(rng, content):
    wild = (
        b"[" * 5000,
        b"{}",
        b"[]",
        b"null",
        b'"x"',
        b"true",
        b'{"a":' * 3000,
        b"[[[]]]",
        b"\xff\xfe",
        b"\x1b[2J",
    )
    return replaced(rng, content, rng.choice(wild), b"0123456789.")


def replaced(rng, content, by, letters):
    """One run of these letters, or one place, replaced."""
    first = last = rng.randrange(len(content))
    while content[last : last + 1] and content[last] in letters:
        last += 1
    return content[:first] + by + content[max(last, first + 1) :]


def swapped(rng, content):
    """Lines in another order, or twice."""
    lines = content.splitlines(keepends=True)
    rng.shuffle(lines)
    return b"".join(lines + lines[: rng.randrange(2)])


HOW = (cut, flipped, digit, number, nested, swapped)


def files_of(folder):
    files = (path for path in folder.root.rglob("*") if path.is_file() and path.stat().st_size)
    return sorted(files, key=str)


def looked_at(folder):
    """Everything that `show` does."""
    analysis = analysis_of_folder(folder, read_study(folder.study_toml))
    json.dumps(analysis_data(analysis), allow_nan=False)
    return analysis, analysis_text(analysis, folder=folder.root)


def results_or_refusal(folder):
    """The results by name, or none and what was said."""
    try:
        return {result.trial.id: result for result in read_results(folder)}, ""
    except PacelineError as problem:
        return {}, problem.message


@pytest.fixture
def folder(tmp_path):
    copied = StudyFolder(tmp_path / "s")
    shutil.copytree(STUDY, copied.root)
    return copied


def test_a_changed_file_of_an_older_study_is_read_or_refused(folder, figures):
    rng, refused, files = chance("older"), 0, files_of(folder)
    for attempt in attempts(60, 10_000):
        path, how = rng.choice(files), rng.choice(HOW)
        whole = path.read_bytes()
        path.write_bytes(how(rng, whole))
        try:
            looked_at(folder)
        except PacelineError as problem:
            refused += 1
            said = problem.message
        except Exception as problem:
            raise AssertionError((SEED, attempt, path.name, how.__name__)) from problem
        else:
            said = "read"
        assert said
        path.write_bytes(whole)
    assert refused < attempt
    figures(f"older studies: {attempt + 1} files changed, {refused} refused, no traceback")


def test_a_changed_file_of_a_sealed_study_is_never_believed(folder, figures):
    rng, seen = chance("sealed"), 0
    for result in read_results(folder):
        commit(folder, result, started=result.started)
    files = [path for path in files_of(folder) if path.parent.parent == folder.trials]
    truth = {result.trial.id: result for result in read_results(folder)}
    for attempt in attempts(60, 10_000):
        path, how = rng.choice(files), rng.choice(HOW)
        whole = path.read_bytes()
        path.write_bytes(how(rng, whole))
        now, said = results_or_refusal(folder)
        believed = {name: result for name, result in now.items() if result.state != "damaged"}
        assert believed == {name: truth[name] for name in believed}, (SEED, attempt, path.name, how.__name__)
        assert now or path.name in said, (SEED, attempt, how.__name__)
        seen += len(believed) < len(truth)
        path.write_bytes(whole)
    assert seen > 0.5 * attempt
    figures(f"sealed studies: {attempt + 1} files changed, {seen} said, none believed")


def test_a_changed_analysis_is_refused_or_rendered(tmp_path, figures):
    rng, refused, path = chance("analysis"), 0, tmp_path / "analysis.json"
    whole = json.dumps(analysis_data(FULL), indent=1).encode()
    for attempt in attempts(60, 10_000):
        how = rng.choice(HOW)
        path.write_bytes(how(rng, whole))
        try:
            analysis = read_analysis(path)
        except PacelineError:
            refused += 1
            continue
        except Exception as problem:
            raise AssertionError((SEED, attempt, how.__name__)) from problem
        rendered = (
            markdown_report(analysis),
            tidy_csv([("", analysis)]),
            analysis_text(analysis, folder=tmp_path),
        )
        assert all(rendered), (SEED, attempt, how.__name__)
    assert refused < attempt
    figures(f"analysis.json: {attempt + 1} changed, {refused} refused, the others rendered")
