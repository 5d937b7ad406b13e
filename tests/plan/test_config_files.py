"""A value of a configuration file is varied in a copy; the file, its comments and its order stay."""

import pytest

from paceline.core.errors import UsageError
from paceline.plan.config import checked
from paceline.plan.config_files import CONFIG, copies, edited, own_args, vary_file
from paceline.plan.trials import plan_study, points_of
from paceline.records import Study, Workload

YAML = "# how\nfsdp:\n  reshard: true   # why\n  wrap: [a, b]\nlr: 0.1\n"
TOML = "# how\nlr = 0.1 # why\n[fsdp]\nreshard = true # because\n"
JSON = '{"z": 1, "fsdp": {"reshard": true}, "a": [{"b": 2}]}'


def test_in_yaml_one_value_is_another_and_every_other_character_is_the_same():
    assert edited(YAML, "c.yaml", "fsdp.reshard", "false") == YAML.replace("true", "false")
    assert edited(YAML, "c.yaml", "fsdp.wrap.1", "c") == YAML.replace("b]", "c]")


def test_in_toml_comments_and_order_stay():
    assert edited(TOML, "c.toml", "fsdp.reshard", "false") == TOML.replace("true", "false")


def test_in_json_the_order_stays():
    changed = edited(JSON, "c.json", "a.0.b", "3")
    assert " ".join(changed.split()) == '{ "z": 1, "fsdp": { "reshard": true }, "a": [ { "b": 3 } ] }'


@pytest.mark.parametrize(
    ("text", "name", "key", "said"),
    [
        (YAML, "c.yaml", "fsdp.rehsard", "has no key fsdp.rehsard"),
        (YAML, "c.yaml", "fsdp", "is no single value"),
        ("a: [1", "c.yaml", "a", "c.yaml cannot be read"),
        ("{", "c.json", "a", "c.json cannot be read"),
        ("a = ", "c.toml", "a", "c.toml cannot be read"),
        ("", "c.yaml", "a", "has no key a"),
    ],
)
def test_a_key_that_is_not_there_or_a_file_that_does_not_parse_is_named(text, name, key, said):
    with pytest.raises(UsageError, match=said):
        edited(text, name, key, "1")


def test_a_misspelt_key_is_told_the_right_one():
    with pytest.raises(UsageError) as refused:
        edited(YAML, "c.yaml", "fsdp.rehsard", "1")
    assert "reshard" in refused.value.hint


@pytest.mark.parametrize("text", ["conf.yaml", "conf.txt:a=1", "conf.yaml:a", "conf.yaml:=1"])
def test_what_is_no_file_key_and_values_is_refused(text):
    with pytest.raises(UsageError, match="is not FILE:KEY"):
        vary_file(text)


def study(**changed):
    key, values = vary_file("conf.yaml:fsdp.reshard=true,false")
    workload = Workload("script", "train.py", ("--config", "conf.yaml", "--also=conf.yaml"))
    return Study(workload, workers=(2,), vary=((key, values),), **changed)


def test_the_copy_takes_the_files_place_and_the_script_gets_no_flag_of_ours():
    trial = plan_study(study()).trials[0]
    assert trial.args == ("--config", "conf.yaml", "--also=conf.yaml")
    paths = copies(trial.point, "/trial")
    assert own_args(trial.args, paths) == ("--config", paths["conf.yaml"], f"--also={paths['conf.yaml']}")
    assert paths["conf.yaml"] == "/trial/config/0-conf.yaml"


def test_each_value_is_a_setting_of_its_own():
    assert len({point.id for point in points_of(study())}) == 2


def test_a_file_that_nothing_passes_on_is_refused():
    lost = Study(Workload("script", "train.py"), workers=(2,), vary=(vary_file("conf.yaml:a=1,2"),))
    with pytest.raises(UsageError, match=r"nothing passes it to train\.py"):
        checked(lost)


def test_a_configuration_without_a_launcher_that_reads_it_is_refused():
    with pytest.raises(UsageError, match="torchrun starts these workers"):
        checked(Study(Workload("script", "train.py"), workers=(2,), vary=((CONFIG, ("a.yaml",)),)))
